"""Each converter in its own environment, and the comparison of what it makes of a schema."""
