"""Requests to other servers: the HTTP client and the addresses that it may reach."""
