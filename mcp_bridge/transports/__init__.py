"""Transports: they read requests and send replies."""
