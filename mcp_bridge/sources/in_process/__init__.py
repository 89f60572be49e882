"""Calls of views of this process: where they stand, the request, and the result of the answer."""
