"""
The weather service of Fairhaven's harbour, another system that the newsroom asks.

    server     the service itself, which would be somebody else's
    openapi    what it says of itself, and openapi.json, as manage.py mcp_openapi has pinned it
    source     what the newsroom serves of it
"""
