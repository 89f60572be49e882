"""
Operations of HTTP, as OpenAPI 3.0 and 3.1 describe them, as tools.

    read        documents, with their references resolved
    values      arguments in paths, query strings, headers, JSON, forms, multipart and files
    mapping     an operation as a flat input schema, and arguments as a request
    answers     what the service answered, as a CallToolResult or an error

Nothing here knows Django, or sends anything: a source does.
"""
