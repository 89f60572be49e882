"""Calls of a view: the request that arguments mean, and the result of its answer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final
from urllib.parse import urlsplit

from asgiref.sync import iscoroutinefunction
from django.http import Http404
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch, get_resolver

from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import ToolCall
from mcp_bridge.protocol import CallToolResult
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.sources import in_process
from mcp_bridge.sources.in_process import InProcessRequest
from mcp_bridge.sources.operations.answers import Answer, read_answer
from mcp_bridge.sources.operations.mapping import MappedOperation
from mcp_bridge.sources.rest_framework.access import log_in
from mcp_bridge.sources.rest_framework.endpoints import Endpoint
from mcp_bridge.sources.rest_framework.versions import Version

_ACCEPT: Final = "application/json, */*;q=0.1"


class ViewCaller:
    """Calls the view of an endpoint as its callback in the URLconf, with all of its decorators."""

    def __init__(
        self,
        endpoint: Endpoint,
        mapped: MappedOperation,
        version: Version | None,
        urlconf: Any,
        callbacks: Collection[object],
    ) -> None:
        self._endpoint = endpoint
        self._mapped = mapped
        self._urlconf = urlconf
        # Those of the tools of the source: a redirect may lead there.
        self._callbacks = callbacks
        self._fixed: dict[str, str] = {}
        self._query, self._accept = "", _ACCEPT
        if version is not None:
            if version.in_path:
                self._fixed[version.in_path] = version.value
            if version.in_query:
                self._query = f"{version.in_query}={version.value}"
            if version.in_accept:
                named = f"{version.in_accept}={version.value}"
                self._accept = f"application/json; {named}, */*;q=0.1"

    @property
    def invoke(self) -> Callable[[ToolCall], Any]:
        """What calls the view: a coroutine function where the view is one."""
        is_async = iscoroutinefunction(self._endpoint.route.callback)
        return self._acall if is_async else self._call

    def _call(self, call: ToolCall) -> CallToolResult:
        request, match = self._request(call)
        response = in_process.call(request, match)
        return self._result(call, request, response, in_process.read_body(response))

    async def _acall(self, call: ToolCall) -> CallToolResult:
        request, match = self._request(call)
        response = await in_process.acall(request, match)
        return self._result(call, request, response, await in_process.aread_body(response))

    def _request(self, call: ToolCall) -> tuple[InProcessRequest, ResolverMatch]:
        route, wanted = self._endpoint.route, self._mapped.request(call.arguments)
        request = InProcessRequest(
            call.context,
            self._endpoint.method,
            route.path({**wanted.path, **self._fixed}),
            query="&".join(filter(None, (wanted.query, self._query))),
            headers={**wanted.headers, "Accept": self._accept},
            body=wanted.body,
            content_type=wanted.content_type or "",
        )
        match = in_process.resolve(request, route.callback, route.pattern, self._urlconf)
        log_in(self._endpoint, request)
        return request, match

    def _result(
        self, call: ToolCall, request: InProcessRequest, response: HttpResponseBase, body: bytes
    ) -> CallToolResult:
        if 300 <= response.status_code < 400 and "Location" in response.headers:
            return self._redirected(request, response.headers["Location"])
        answer = Answer(
            status=response.status_code,
            headers={name.lower(): value for name, value in response.headers.items()},
            body=body,
        )
        return read_answer(answer, self._mapped, call.arguments)

    def _redirected(self, request: InProcessRequest, location: str) -> CallToolResult:
        """Return where a view leads, which has to be another tool's; else it is a login page."""
        parts = urlsplit(request.build_absolute_uri(location))
        path = parts.path.removeprefix(request.META.get("SCRIPT_NAME", "").rstrip("/"))
        if parts.netloc == request.get_host():
            try:
                if get_resolver(self._urlconf).resolve(path).func in self._callbacks:
                    written = encode({"location": location})
                    return CallToolResult.of_json(written.decode(), written, written)
            except Http404:
                pass
        told = " ".join(in_process.texts_of(request))
        raise ToolError(told or f"The view leads to another page, {parts.path}, and has no answer.")
