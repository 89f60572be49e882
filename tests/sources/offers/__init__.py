"""
The same five tools, offered by each source: a module a source, named as its source is.

``SOURCE`` is the source in SOURCES. ``offered()`` is a context manager: within it, the tools can be
called, and it gives the URL patterns that the site needs for that. Further tools are not offered.
``SETTINGS`` are further ones that the source needs, and ``allow()`` lets a user call ``guarded`` if
a permission does not.

=======  ================================================================================
count    public, read-only: takes ``number`` (an integer from 1 to 100) and answers with an
         object of ``number`` and ``user``, the name of the caller
missing  public: fails with "There is no such article."
broken   public: raises an error whose text holds ``SECRET``
guarded  for those with the permission ``auth.view_user`` alone; answers as ``count`` does
wipe     public, destructive: takes ``name`` and puts it into ``RUNS``
=======  ================================================================================
"""

from __future__ import annotations

from typing import Final

SECRET: Final = "the password is 7f3z"
MISSING: Final = "There is no such article."
RUNS: Final[list[str]] = []
EVERY: Final = (
    *("candidate", "functions", "grpc", "ninja", "openapi", "own"),
    *("remote", "rest_framework", "rpc"),
)
