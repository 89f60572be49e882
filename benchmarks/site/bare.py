"""The floor of ASGI: an application without a framework, that answers as the empty view does."""

from __future__ import annotations

from typing import Any

import django

django.setup()

from benchmarks.site.floor import answer  # noqa: E402 - it has settings, which are ready by now


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        # Servers take that for an application without a lifespan.
        raise NotImplementedError(scope["type"])
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    data = answer(body)
    length = str(len(data)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": data})
