"""
System checks of the setting MCP_BRIDGE, of tools and what else is marked, and of addresses.

An error is a fault of the site's own code or settings. A fault outside them is a warning, which
stops no command. docs/reference/checks.md lists the ids of all messages of this package.
"""
