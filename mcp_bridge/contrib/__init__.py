"""Extras for other libraries, none of which is needed; the core imports nothing from here."""
