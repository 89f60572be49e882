"""Real clients and strict schema converters against the server: ``make clients``."""
