"""Packages and modules that a site may delete: nothing in the core imports them."""
