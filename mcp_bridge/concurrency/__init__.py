"""Threads, event loops, and limits of concurrent requests."""
