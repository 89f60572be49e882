"""Mutated and random input: changes of good requests, and input that a coverage guide finds."""
