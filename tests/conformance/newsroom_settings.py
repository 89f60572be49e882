"""The newsroom on a separate database, which is deleted afterwards."""

from __future__ import annotations

import os

from testproject.authorization import authorization
from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES as NEWSROOM_DATABASES
from testproject.settings import MCP_BRIDGE as NEWSROOM_BRIDGE

DATABASES = {
    "default": {**NEWSROOM_DATABASES["default"], "NAME": os.environ["CONFORMANCE_DATABASE"]}
}
# So that clients can log in over HTTP; a client over stdio does not.
if "CONFORMANCE_URL" in os.environ:
    globals().update(authorization(os.environ["CONFORMANCE_URL"], NEWSROOM_BRIDGE))
    ROOT_URLCONF = "tests.conformance.newsroom_urls"
