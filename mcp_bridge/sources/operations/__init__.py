"""Map HTTP operations, as described by OpenAPI, to tools, without Django or network access."""
