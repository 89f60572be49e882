"""The newsroom on a separate database, with a record of the requests of each client."""

from __future__ import annotations

import os

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES as NEWSROOM_DATABASES
from testproject.settings import MIDDLEWARE as NEWSROOM_MIDDLEWARE
from testproject.settings import OAUTH2_PROVIDER as NEWSROOM_OAUTH

DATABASES = {
    "default": {
        **NEWSROOM_DATABASES["default"],
        "NAME": os.environ.get("CLIENTS_DATABASE", ":memory:"),
    }
}
MIDDLEWARE = ["tests.clients.recording.record", *NEWSROOM_MIDDLEWARE]
ROOT_URLCONF = os.environ.get("CLIENTS_URLS", "testproject.urls")
# Documents of clients are in the internet, which the gate cannot reach.
OAUTH2_PROVIDER = {**NEWSROOM_OAUTH, "CIMD_METADATA_FETCHER": "tests.oauth.documents.Documents"}
