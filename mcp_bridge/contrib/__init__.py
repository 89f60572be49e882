"""Extras for sites and other libraries, none of which is needed; the core imports none."""
