"""In-process calls of views: their routes, the request, and the result from the response."""
