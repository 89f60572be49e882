"""The newsroom on a separate database, which is deleted afterwards."""

from __future__ import annotations

import os

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES as NEWSROOM_DATABASES

DATABASES = {
    "default": {**NEWSROOM_DATABASES["default"], "NAME": os.environ["CONFORMANCE_DATABASE"]}
}
