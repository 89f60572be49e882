"""Threads, event loops, and how many requests run at once."""
