"""Calls that outlive their request (MCP's extension Tasks): a worker runs them."""
