"""Calling a tool from the admin, with a form made of its input schema."""
