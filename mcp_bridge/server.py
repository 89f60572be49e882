"""What a request means here: one method for each MCP method, and the call of a tool."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError
from django.utils.functional import Promise
from django.utils.module_loading import import_string
from django.utils.translation import get_language

from mcp_bridge.access import AccessPolicy
from mcp_bridge.calls import arun, run
from mcp_bridge.coercion import checked
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import ErrorResult, InvalidArguments, ToolError, UnsendableResult
from mcp_bridge.failures import explain, unavailable
from mcp_bridge.protocol import (
    SUPPORTED_VERSIONS,
    InvalidParamsError,
    MethodNotFoundError,
    ProtocolError,
    Request,
    Result,
    cursors,
)
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.protocol.inbound import SERVER_INFO
from mcp_bridge.protocol.jsonrpc import cut, encode
from mcp_bridge.protocol.revisions import Revision, negotiate
from mcp_bridge.registry import Snapshot, registry
from mcp_bridge.tools import Context, Tool, ToolCall

logger = logging.getLogger("mcp_bridge.calls")

# Where the machine-readable errors of refused arguments stand in a result's _meta.
ERRORS_KEY = "mcp-bridge/errors"
# Where the pointers to arguments that came as strings of JSON stand.
REPAIRED_KEY = "mcp-bridge/repaired"

# What to do after a failure that is not the model's.
_NEVER = "repeating the call unchanged will not help"
_LATER = "the same call may succeed later"

_METHODS = {
    "server/discover": "discover",
    "initialize": "initialize",
    "ping": "ping",
    "tools/list": "list_tools",
    "tools/call": "call_tool",
}


class MCPServer:
    """
    Answers MCP requests with the tools of a snapshot, under a policy.

    ``handle`` and ``ahandle`` are the same but for what is awaited: ``begin`` does all that comes
    before a tool runs, ``finish`` and ``failed`` all that comes after.
    """

    def __init__(
        self, *, snapshot: Snapshot | None = None, policy: AccessPolicy | None = None
    ) -> None:
        self.snapshot = snapshot if snapshot is not None else registry.snapshot
        self.policy: AccessPolicy = policy or import_string(conf.ACCESS_POLICY)()

    def handle(self, request: Request, context: Context) -> Result:
        """The result of one request; raises ProtocolError."""
        step = self.begin(request, context)
        if not isinstance(step, ToolCall):
            return step
        try:
            return run(step, self.finish)
        except Exception as exception:
            return self.failed(step, exception)

    async def ahandle(self, request: Request, context: Context) -> Result:
        """The same, where coroutine functions run on the event loop of the caller."""
        step = await sync_to_async(self.begin)(request, context)
        if not isinstance(step, ToolCall):
            return step
        try:
            return await arun(step, self.finish)
        except Exception as exception:
            return await sync_to_async(self.failed)(step, exception)

    def begin(self, request: Request, context: Context) -> Result | ToolCall:
        """The result of a request, or the call that will give it."""
        if request.method not in request.revision.methods:
            raise MethodNotFoundError(f"Method not found: {cut(request.method)}")
        try:
            answer: Result | ToolCall = getattr(self, _METHODS[request.method])(request, context)
            return answer
        except (OperationalError, InterfaceError) as exception:
            logger.exception("The database could not be asked")
            raise unavailable() from exception

    def initialize(self, request: Request, context: Context) -> Result:
        """The legacy handshake (MCP 2025-11-25, "Lifecycle"); no session begins with it."""
        requested = request.params.get("protocolVersion")
        if not isinstance(requested, str):
            raise InvalidParamsError("Invalid params: protocolVersion must be a string.")
        for name in ("capabilities", "clientInfo"):
            if not isinstance(request.params.get(name, {}), dict):
                raise InvalidParamsError(f"Invalid params: {name} must be an object.")
        return {
            "protocolVersion": negotiate(requested).version,
            "capabilities": self.capabilities,
            "serverInfo": self._server_info,
            **self._instructions,
        }

    def discover(self, request: Request, context: Context) -> Result:
        """Who this server is and what it speaks (MCP 2026-07-28, "Discovery")."""
        return {
            "supportedVersions": SUPPORTED_VERSIONS,
            "capabilities": self.capabilities,
            **self._instructions,
            **self._cacheable(request.revision),
        }

    def ping(self, request: Request, context: Context) -> Result:
        return {}

    def list_tools(self, request: Request, context: Context) -> Result:
        """One page of the tools that the caller may use (MCP, "Tools", "Listing tools")."""
        given = "cursor" in request.params
        position = cursors.position(request.params["cursor"]) if given else None
        tools, following = self.page(position, context)
        array = self.snapshot.definitions(tools, request.revision, get_language())
        rest = {"nextCursor": following} if following else {}
        rest |= self._cacheable(request.revision)
        members = b"," + encode(rest)[1:] if rest else b"}"
        return b'{"tools":' + array + members

    def page(
        self, position: str | int | None, context: Context
    ) -> tuple[tuple[Tool, ...], str | None]:
        """
        The tools after a position, PAGE_SIZE at most, and the cursor for those that follow.

        Raises InvalidParamsError for an offset beyond the end.
        """
        start = self.snapshot.following(position) if isinstance(position, str) else self.snapshot
        visible = self.policy.filter(start, context)
        if isinstance(position, int) and len(list(islice(visible, position))) < position:
            raise cursors.invalid_cursor()
        size = conf.PAGE_SIZE
        tools = tuple(islice(visible, size + 1))
        if len(tools) <= size:
            return tools, None
        return tools[:size], cursors.after(tools[size - 1].name)

    def call_tool(self, request: Request, context: Context) -> Result | ToolCall:
        """The call that is asked for, or its result where the arguments are refused."""
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str):
            raise InvalidParamsError("Invalid params: name must be a string, a tool's name.")
        if not isinstance(arguments, dict | None):
            raise InvalidParamsError("Invalid params: arguments must be an object.")
        tool = self.snapshot.get(name)
        if tool is None or not self.policy.allows(tool, context):
            raise InvalidParamsError(f"Unknown tool: {cut(name)}")
        if tool.headers and request.headers is not None:
            request.headers.check_parameters(tool.headers, arguments or {})
        try:
            values, repaired = checked(tool, arguments or {})
        except InvalidArguments as refused:
            errors = [asdict(error) for error in refused.errors]
            result = CallToolResult.error(str(refused), {ERRORS_KEY: errors})
            call = ToolCall(tool=tool, arguments={}, context=context, repaired=refused.repaired)
            return self._written(result, call)
        except Exception as exception:
            call = ToolCall(tool=tool, arguments={}, context=context)
            return self.failed(call, exception)
        return ToolCall(tool=tool, arguments=values, context=context, repaired=repaired)

    def finish(self, call: ToolCall, value: Any) -> bytes:
        """
        The result of a call that returned.

        Raises what undoes what the tool wrote: UnsendableResult, ErrorResult, or ToolError for a
        result that is too large.
        """
        try:
            result = call.tool.encode(value)
            written = self._written(result, call)
        except Exception as exception:
            raise UnsendableResult from exception
        if result.is_error:
            raise ErrorResult(result)
        if len(written) > conf.MAX_RESULT_BYTES:
            raise ToolError(
                f"The result of {call.tool.name} has {len(written)} bytes, more than the "
                f"{conf.MAX_RESULT_BYTES} that can be sent. Ask for less: narrow the filters, or "
                "fetch it in parts."
            )
        return written

    def failed(self, call: ToolCall, exception: Exception) -> bytes:
        """The result of a call that raised; a ProtocolError goes on to the client."""
        if isinstance(exception, ErrorResult):
            return self._written(exception.result, call)
        if isinstance(exception, UnsendableResult):
            cause = exception.__cause__
            return self._fault(call, "returned a result that cannot be sent", cause)
        try:
            exception = call.tool.convert_error(exception, call)
        except Exception:
            logger.exception("The error handler of tool %r raised", call.tool.name)
        if isinstance(exception, ProtocolError):
            raise exception
        text = self._mapped(exception, call) or explain(exception)
        if text is None:
            if isinstance(exception, OperationalError | InterfaceError):
                return self._fault(call, "could not use the site's database", exception, _LATER)
            return self._fault(call, "failed", exception)
        return self._written(CallToolResult.error(text), call)

    def _mapped(self, exception: Exception, call: ToolCall) -> str | None:
        """What ERROR_MAPPER says; one that raises changes nothing."""
        path = conf.ERROR_MAPPER
        if path is None:
            return None
        try:
            text = import_string(path)(exception, call)
        except Exception:
            logger.exception("ERROR_MAPPER %r raised", path)
            return None
        return text if isinstance(text, str) else None

    def _fault(
        self, call: ToolCall, what: str, cause: BaseException | None, advice: str = _NEVER
    ) -> bytes:
        """A failure that is the site's own: all of it in the log, one sentence to the model."""
        name, reference = call.tool.name, secrets.token_hex(6)
        logger.error("Tool %r %s (reference %s)", name, what, reference, exc_info=cause)
        text = (
            f"The tool {name} {what}: the site's log says why under the reference {reference}, "
            f"and {advice}."
        )
        return self._written(CallToolResult.error(text), call)

    def _written(self, result: CallToolResult, call: ToolCall) -> bytes:
        revision = call.context.revision
        if call.repaired:
            result = replace(result, meta={**result.meta, REPAIRED_KEY: list(call.repaired)})
        return result.to_json(revision, self._written_meta if revision.modern else b"{}")

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What is served, and nothing else (MCP schema, ``ServerCapabilities``)."""
        return {"tools": {}}

    @property
    def _meta(self) -> dict[str, Any]:
        return {SERVER_INFO: self._server_info}

    @property
    def _server_info(self) -> dict[str, Any]:
        info = conf.SERVER_INFO.items()
        return {name: str(each) if isinstance(each, Promise) else each for name, each in info}

    @property
    def _written_meta(self) -> bytes:
        """What every modern result carries, written once for all of them."""
        kept = self.snapshot.written.get("_meta")
        if kept is None:
            kept = encode(self._meta)
            # A lazy translation is written anew for each request, in its language.
            if not any(isinstance(each, Promise) for each in conf.SERVER_INFO.values()):
                self.snapshot.written["_meta"] = kept
        return kept

    @property
    def _instructions(self) -> dict[str, Any]:
        return {} if conf.INSTRUCTIONS is None else {"instructions": str(conf.INSTRUCTIONS)}

    def _cacheable(self, revision: Revision) -> dict[str, Any]:
        """What a modern result that may be kept carries (MCP 2026-07-28, "Caching")."""
        if not revision.modern:
            return {}
        return {
            "resultType": "complete",
            "ttlMs": int(conf.CACHE_TTL * 1000),
            # What is listed depends on who asks, so that nobody else may be shown it.
            "cacheScope": "private",
            "_meta": self._meta,
        }
