"""
System checks of the setting MCP_BRIDGE, of tools and other marked functions, and of URLs.

An error is a fault in the site's own code or settings. A fault outside them is a warning, which
does not stop commands. docs/reference/checks.md lists the ids of all messages of this package.
"""
