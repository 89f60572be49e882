"""What a request means here: one method for each MCP method, and the call of a tool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError
from django.utils.translation import get_language

from mcp_bridge.access.confirmation.approval_queue import give_back
from mcp_bridge.access.policy import AccessPolicy, load_policy
from mcp_bridge.access.throttling.throttles import throttled
from mcp_bridge.audit import recorder
from mcp_bridge.audit.recorder import StartedCall, Unrecorded
from mcp_bridge.calls.coercion import checked
from mcp_bridge.calls.errors import unavailable
from mcp_bridge.calls.outcomes import ErrorCode, Outcome
from mcp_bridge.calls.running import (
    ClientDisconnected,
    arun,
    run,
    run_to_completion,
    shield_from_cancellation,
)
from mcp_bridge.conf import conf
from mcp_bridge.exceptions import InvalidArguments
from mcp_bridge.features.context import Context
from mcp_bridge.features.tools import Tool, ToolCall
from mcp_bridge.protocol import (
    SUPPORTED_VERSIONS,
    InvalidParamsError,
    MethodNotFoundError,
    ProtocolError,
    Request,
    Result,
    UnknownToolError,
    pagination,
)
from mcp_bridge.protocol.content import CallToolResult
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.protocol.revisions import Revision, negotiate
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry.registry import registry
from mcp_bridge.registry.snapshot import Snapshot
from mcp_bridge.server.tools import Answers, Failure

logger = logging.getLogger("mcp_bridge.calls")

# Where the machine-readable errors of refused arguments stand in a result's _meta.
ERRORS_KEY = "mcp-bridge/errors"

_UNRECORDED = (
    "The tool {} was not run: this site keeps a record of what is done and could not write one "
    "just now. The same call may succeed later."
)

_METHODS = {
    "server/discover": "discover",
    "initialize": "initialize",
    "ping": "ping",
    "tools/list": "list_tools",
    "tools/call": "call_tool",
}


class MCPServer(Answers):
    """
    Answers MCP requests with the tools of a snapshot, under a policy.

    ``handle`` and ``ahandle`` are the same but for what is awaited: ``begin`` does all that comes
    before a tool runs, ``finish`` and ``failed`` all that comes after.
    """

    def __init__(
        self, *, snapshot: Snapshot | None = None, policy: AccessPolicy | None = None
    ) -> None:
        self.snapshot = snapshot if snapshot is not None else registry.snapshot
        self.policy: AccessPolicy = policy or load_policy()

    def handle(self, request: Request, context: Context) -> Result:
        """The result of one request; raises ProtocolError."""
        step = self.begin(request, context)
        if not isinstance(step, StartedCall):
            return step
        try:
            written = run(step.call, self.finish)
        except Exception as exception:
            return self.handle_exception(step, exception)
        recorder.finish(step, Outcome.SUCCEEDED, result_bytes=len(written))
        return written

    async def ahandle(self, request: Request, context: Context) -> Result:
        """The same, where coroutine functions run on the event loop of the caller."""
        running: StartedCall | None = None
        try:
            step = await run_to_completion(sync_to_async(self.begin)(request, context))
            if not isinstance(step, StartedCall):
                return step
            running = step
            written = await arun(running.call, self.finish)
        except ClientDisconnected as gone:
            await shield_from_cancellation(
                sync_to_async(self.record_after_disconnect)(running, gone.task)
            )
            raise
        except (asyncio.CancelledError, Exception) as raised:
            if running is None:
                raise
            if isinstance(raised, Exception):
                return await shield_from_cancellation(
                    sync_to_async(self.handle_exception)(running, raised)
                )
            await shield_from_cancellation(
                sync_to_async(recorder.finish)(running, Outcome.CANCELLED)
            )
            raise
        ended = sync_to_async(recorder.finish)
        await shield_from_cancellation(ended(running, Outcome.SUCCEEDED, result_bytes=len(written)))
        return written

    def begin(self, request: Request, context: Context) -> Result | StartedCall:
        """The result of a request, or the call that will give it, written down as begun."""
        if request.method not in request.revision.methods:
            raise MethodNotFoundError(f"Method not found: {cut(request.method)}")
        try:
            answer: Result | StartedCall = getattr(self, _METHODS[request.method])(request, context)
            return answer
        except (OperationalError, InterfaceError) as exception:
            logger.exception("The database could not be asked")
            raise unavailable() from exception
        except StopIteration as exception:
            # It may not leave a thread: no future takes it, and the request would never end.
            raise RuntimeError("The site's own code raised StopIteration.") from exception

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
        position = pagination.position(request.params["cursor"]) if given else None
        tools, following = self.page(position, context)
        array = self.snapshot.definitions(tools, request.revision, get_language())
        rest = {"nextCursor": following} if following else {}
        rest |= self._cacheable(request.revision)
        members = b"," + encode(rest)[1:] if rest else b"}"
        return b'{"tools":' + array + members

    def page(
        self, position: str | int | None, context: Context
    ) -> tuple[tuple[Tool, ...], str | None]:
        """The tools after a position, PAGE_SIZE at most, and the cursor for those that follow."""
        start = self.snapshot.following(position) if isinstance(position, str) else self.snapshot
        visible = self.policy.filter(start, context)
        if isinstance(position, int):
            visible = islice(visible, position, None)
        size = conf.PAGE_SIZE
        tools = tuple(islice(visible, size + 1))
        if len(tools) <= size:
            return tools, None
        return tools[:size], pagination.after(tools[size - 1].name)

    def call_tool(self, request: Request, context: Context) -> Result | StartedCall:
        """The call that is asked for, begun, or its result where it is refused."""
        tool = None
        try:
            tool = self._named(request, context)
            arguments = request.params.get("arguments") or {}
            if tool.headers and request.headers is not None:
                request.headers.check_parameters(tool.headers, arguments)
            return self._begun(tool, arguments, request, context)
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:
            # Anything else is a fault of the site's own: a policy or a throttle that raises.
            code = error.refusal if isinstance(error, ProtocolError) else ErrorCode.FAULT
            recorder.refused(code, request, context, tool=tool)
            raise

    def _named(self, request: Request, context: Context) -> Tool:
        """The tool that is asked for, if it is there for this caller."""
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str):
            raise InvalidParamsError("Invalid params: name must be a string, a tool's name.")
        if not isinstance(arguments, dict | None):
            raise InvalidParamsError("Invalid params: arguments must be an object.")
        tool = self.snapshot.get(name)
        if tool is None or not self.policy.allows(tool, context):
            raise UnknownToolError(f"Unknown tool: {cut(name)}")
        return tool

    def _begun(
        self, tool: Tool, arguments: dict[str, Any], request: Request, context: Context
    ) -> Result | StartedCall:
        """The call with its arguments checked, begun, or its result where they are refused."""
        refusal = throttled(tool, context)
        if refusal is not None:
            recorder.refused(ErrorCode.THROTTLED, request, context, tool=tool)
            return self._written(refusal, ToolCall(tool=tool, arguments={}, context=context))
        try:
            values, repaired = checked(tool, arguments)
        except InvalidArguments as refused:
            errors = [asdict(error) for error in refused.errors]
            result = CallToolResult.error(str(refused), {ERRORS_KEY: errors})
            call = ToolCall(tool=tool, arguments={}, context=context, repaired=refused.repaired)
            recorder.refused(ErrorCode.INVALID, request, context, tool=tool)
            return self._written(result, call)
        except Exception as exception:
            failure = self.failed(ToolCall(tool=tool, arguments={}, context=context), exception)
            code, reference = failure.error_code, failure.reference
            recorder.refused(code, request, context, tool=tool, reference=reference)
            return failure.written
        call = ToolCall(
            tool=tool, arguments=values, context=context, repaired=repaired, sent=arguments
        )
        return self._confirmed(call, request)

    def _confirmed(self, call: ToolCall, request: Request) -> Result | StartedCall:
        """The call, begun, if it has the answers it waits for; else the result that says so."""
        tool, context = call.tool, call.context
        step = self.admit(call, request.params)
        if isinstance(step, Failure):
            recorder.refused(ErrorCode.UNCONFIRMED, request, context, tool=tool)
            return step.written
        try:
            return recorder.start(step, request)
        except Unrecorded:
            give_back(step)
            recorder.refused(ErrorCode.UNRECORDED, request, context, tool=tool)
            return self._written(CallToolResult.error(_UNRECORDED.format(tool.name)), call)

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What is served, and nothing else (MCP schema, ``ServerCapabilities``)."""
        return {"tools": {}}

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
