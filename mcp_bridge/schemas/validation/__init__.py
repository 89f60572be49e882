"""JSON Schemas that are given as JSON: read, bounded and enforced."""
