"""How bytes come and go."""
