"""Calls of a view: the request that arguments mean, and the result of its answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from asgiref.sync import iscoroutinefunction
from django.http import Http404
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch, get_resolver

from mcp_bridge.exceptions import ToolError
from mcp_bridge.features import ToolCall
from mcp_bridge.protocol import CallToolResult
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.sources.in_process import requests
from mcp_bridge.sources.in_process.requests import InProcessRequest
from mcp_bridge.sources.in_process.routes import Route
from mcp_bridge.sources.operations.answers import Answer, read_answer
from mcp_bridge.sources.operations.mapping import MappedOperation

ACCEPT: Final = "application/json, */*;q=0.1"


@dataclass(frozen=True, kw_only=True)
class ViewCaller:
    """
    Calls the view at a route as its callback in the URLconf, with all of its decorators.

    ``view`` is called in place of the callback, where it is given; ``prepare`` is given the request
    first. ``fixed`` are values for parameters of the path that are no arguments, ``query`` and
    ``accept`` likewise. A redirect may lead to one of ``callbacks``.
    """

    route: Route
    method: str
    mapped: MappedOperation
    urlconf: Any = None
    prepare: Callable[[InProcessRequest], object]
    view: Callable[..., Any] | None = None
    fixed: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    accept: str = ACCEPT
    callbacks: Collection[object] = ()

    @property
    def invoke(self) -> Callable[[ToolCall], Any]:
        """What calls the view: a coroutine function where the view is one."""
        return self._acall if iscoroutinefunction(self.view or self.route.callback) else self._call

    def _call(self, call: ToolCall) -> CallToolResult:
        request, match = self._request(call)
        try:
            response = requests.call(request, match)
            return self._result(request, response, requests.read_body(response))
        finally:
            # Files that were sent may be open.
            request.close()

    async def _acall(self, call: ToolCall) -> CallToolResult:
        request, match = self._request(call)
        try:
            response = await requests.acall(request, match)
            return self._result(request, response, await requests.aread_body(response))
        finally:
            request.close()

    def _request(self, call: ToolCall) -> tuple[InProcessRequest, ResolverMatch]:
        wanted = self.mapped.request(call.arguments)
        values = {name: unquote(text) for name, text in wanted.path.items()}
        request = InProcessRequest(
            call.context,
            self.method,
            self.route.path({**values, **self.fixed}),
            query="&".join(filter(None, (wanted.query, self.query))),
            headers={**wanted.headers, "Accept": self.accept},
            body=wanted.body,
            content_type=wanted.content_type or "",
        )
        request.mcp_call = call
        match = requests.resolve(request, self.route.callback, self.route.route, self.urlconf)
        if self.view is not None:
            match.func = self.view
        self.prepare(request)
        return request, match

    def _result(
        self, request: InProcessRequest, response: HttpResponseBase, body: bytes
    ) -> CallToolResult:
        if 300 <= response.status_code < 400 and "Location" in response.headers:
            return self._redirected(request, response.headers["Location"])
        answer = Answer(
            status=response.status_code,
            headers={name.lower(): value for name, value in response.headers.items()},
            body=body,
        )
        return read_answer(answer, self.mapped)

    def _redirected(self, request: InProcessRequest, location: str) -> CallToolResult:
        """Return where a view leads, which has to be another tool's; else it is a login page."""
        parts = urlsplit(request.build_absolute_uri(location))
        path = parts.path.removeprefix(request.META.get("SCRIPT_NAME", "").rstrip("/"))
        if parts.netloc == request.get_host():
            try:
                if get_resolver(self.urlconf).resolve(path).func in self.callbacks:
                    written = encode({"location": location})
                    return CallToolResult.of_json(written.decode(), written, written)
            except Http404:
                pass
        told = " ".join(requests.texts_of(request))
        raise ToolError(told or f"The view leads to another page, {parts.path}, and has no answer.")
