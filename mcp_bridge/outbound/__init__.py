"""Requests to other servers: which addresses may be reached, and the client."""
