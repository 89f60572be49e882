"""Operations of HTTP, as OpenAPI describes them, as tools: without Django, and nothing is sent."""
