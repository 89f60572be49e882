"""The sources that tools come from."""
