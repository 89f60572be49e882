"""Each converter in a separate environment, and the comparison of its output with the schema."""
