"""The dispatcher: each MCP method is answered by the server module that brings it."""

from __future__ import annotations

from typing import ClassVar

from asgiref.sync import sync_to_async
from django.utils.functional import Promise

from mcp_bridge.access.policy import AccessPolicy, load_policy
from mcp_bridge.calls.cancellation import run_to_completion
from mcp_bridge.calls.errors import reraise
from mcp_bridge.conf import conf
from mcp_bridge.features import Context
from mcp_bridge.protocol import JSONObject, MethodNotFoundError, Request, Result
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry.registry import Snapshot, registry
from mcp_bridge.server import lifecycle, tools
from mcp_bridge.server.methods import Endpoint, Method, Methods, Send, drop


class MCPServer(Endpoint):
    """
    Answers MCP requests with the tools of a snapshot, under a policy.

    ``snapshot`` (default: the tools that are served now) and ``policy`` (default: that of the
    setting ACCESS_POLICY) are its own. ``methods`` and ``server_capabilities`` are those of the
    server modules; a subclass may add to them.
    """

    methods: ClassVar[Methods] = {**lifecycle.METHODS, **tools.METHODS}
    server_capabilities: ClassVar[JSONObject] = {**lifecycle.CAPABILITIES, **tools.CAPABILITIES}

    def __init__(
        self, *, snapshot: Snapshot | None = None, policy: AccessPolicy | None = None
    ) -> None:
        self.snapshot = snapshot if snapshot is not None else registry.snapshot
        self.policy = policy or load_policy()
        self.capabilities = self.server_capabilities
        self.server_info = info = dict(conf.server_info)
        for name, value in info.items():
            if isinstance(value, Promise):
                # In the language of the request.
                info[name] = str(value)

    def handle(self, request: Request, context: Context, send: Send = drop) -> Result:
        """
        Return the result of one request; ``send`` sends notifications before it.

        Raises ProtocolError.
        """
        try:
            return self._method(request).handle(self, request, context, send)
        except Exception as exception:
            reraise(exception)

    async def ahandle(self, request: Request, context: Context, send: Send = drop) -> Result:
        """Do the same, where coroutine functions run on the event loop of the caller."""
        try:
            method = self._method(request)
            if method.ahandle is not None:
                return await method.ahandle(self, request, context, send)
        except Exception as exception:
            reraise(exception)
        return await run_to_completion(sync_to_async(self.handle)(request, context, send))

    def _method(self, request: Request) -> Method:
        if request.method not in request.revision.methods:
            raise MethodNotFoundError(f"Method not found: {cut(request.method)}")
        return self.methods[request.method]
