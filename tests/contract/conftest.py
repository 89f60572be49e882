from __future__ import annotations

from tests.access.conftest import limit
from tests.confirmation.conftest import asker, wiping

__all__ = ["asker", "limit", "wiping"]
