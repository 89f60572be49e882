"""
MCP servers on 127.0.0.1 that the client of this site is tested with.

``official`` and ``everything`` are processes; the others write their bytes from threads of the
tests' process, since no proper server sends them.
"""
