"""The dispatcher, and the methods with which a client and the server negotiate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, cast

from django.apps import apps
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.utils.functional import Promise

from mcp_bridge.access.policy import DEFAULT_POLICY, AccessPolicy, may_discover, opened_by
from mcp_bridge.calls.errors import reraise
from mcp_bridge.calls.interceptors import having
from mcp_bridge.conf import conf, imported
from mcp_bridge.features import Context, Feature
from mcp_bridge.protocol import (
    LATEST,
    SUPPORTED_VERSIONS,
    CreateTaskResult,
    JSONObject,
    Request,
    Result,
    errors,
    negotiate,
)
from mcp_bridge.registry.registry import Snapshot, registry
from mcp_bridge.server import listening, tools
from mcp_bridge.server.methods import Endpoint, Method, Methods, cacheable
from mcp_bridge.server.perform import Call, find, intercept_request


async def initialize(endpoint: MCPServer, request: Request, context: Context) -> JSONObject:
    """Answer the legacy handshake (MCP 2025-11-25, "Lifecycle"); it does not open a session."""
    requested = request.params.get("protocolVersion")
    if not isinstance(requested, str):
        raise errors.InvalidParamsError("Invalid params: protocolVersion must be a string.")
    for name in ("capabilities", "clientInfo"):
        if not isinstance(request.params.get(name, {}), Mapping):
            raise errors.InvalidParamsError(f"Invalid params: {name} must be an object.")
    return {
        "protocolVersion": negotiate(requested).version,
        "capabilities": endpoint.capabilities(modern=False),
        "serverInfo": endpoint.server_info,
        **_instructions(endpoint),
    }


async def discover(endpoint: MCPServer, request: Request, context: Context) -> JSONObject:
    """Return the supported revisions and capabilities (MCP 2026-07-28, "Discovery")."""
    capabilities = endpoint.capabilities(modern=True)
    if endpoint.has_streams:
        added = endpoint.streamed_capabilities
        capabilities = {
            name: {**each, **added.get(name, {})} for name, each in capabilities.items()
        }
    return {
        "supportedVersions": SUPPORTED_VERSIONS,
        "capabilities": capabilities,
        **_instructions(endpoint),
        **cacheable(request.revision),
    }


async def ping(endpoint: Endpoint, request: Request, context: Context) -> JSONObject:
    """Return an empty result (MCP 2025-11-25, "Ping")."""
    return {}


def _instructions(endpoint: Endpoint) -> JSONObject:
    text = endpoint.instructions
    return {} if text is None else {"instructions": str(text)}


class MCPServer(Endpoint):
    """
    A server that answers MCP requests with the tools of a snapshot, under a policy.

    ``snapshot`` defaults to the tools that are served now, ``policy`` to the setting
    ACCESS_POLICY. A subclass may extend ``server_capabilities`` and the methods; those in
    ``methods`` exist in every revision.
    """

    methods: ClassVar[Methods] = tools.METHODS
    legacy_methods: ClassVar[Methods] = {"initialize": initialize, "ping": ping}  # type: ignore[dict-item]
    modern_methods: ClassVar[Methods] = {"server/discover": discover}  # type: ignore[dict-item]
    # The methods and capabilities of other kinds of features and lists, on a site that has some.
    kinds: ClassVar[Mapping[str, str]] = {
        "resource": "mcp_bridge.server.other_kinds.RESOURCES",
        "prompt": "mcp_bridge.server.other_kinds.PROMPTS",
        "skills": "mcp_bridge.ext.skills.methods.SKILLS",
    }
    # Those of optional apps, which modern clients alone know, by kind.
    of_apps: ClassVar[Mapping[str, tuple[str, str]]] = {
        "task": ("mcp_bridge.tasks", "mcp_bridge.tasks.methods.TASKS")
    }
    # The methods that need a stream, and what they add to the capabilities.
    streamed_methods: ClassVar[Methods] = listening.METHODS
    streamed_capabilities: ClassVar[JSONObject] = listening.CAPABILITIES
    # The capabilities that legacy clients are asked for, if they declare them.
    asked_capabilities: ClassVar[frozenset[str]] = frozenset({"elicitation"})
    # The request, if its view has streams.
    request: HttpRequest | None = None
    server_capabilities: ClassVar[JSONObject] = tools.CAPABILITIES

    def __init__(
        self, *, snapshot: Snapshot | None = None, policy: AccessPolicy | None = None
    ) -> None:
        self.snapshot = snapshot if snapshot is not None else registry.snapshot
        self.policy = policy or imported(conf.ACCESS_POLICY)()
        self.instructions = conf.INSTRUCTIONS
        self.server_info = conf.server_info
        if conf.has_translated_info:
            # In the language of the request.
            self.server_info = {
                name: str(each) if isinstance(each, Promise) else each
                for name, each in conf.server_info.items()
            }

    @property
    def has_streams(self) -> bool:
        """Whether a response may last as long as its client wants."""
        return isinstance(self.request, ASGIRequest)

    def of_kinds(self, *, modern: bool) -> tuple[Methods, JSONObject]:
        """Return the methods and capabilities of the other kinds that the site has features of."""
        kinds = self.snapshot.kinds
        paths = [self.kinds[each] for each in sorted(kinds & {*self.kinds})]
        found = [imported(path) for path in paths]
        for kind, (app, path) in self.of_apps.items():
            if modern and apps.is_installed(app):
                of_app, declared = imported(path)
                # A task may outlive the tools that may have tasks.
                found.append((of_app, declared if kind in kinds else {}))
        methods: dict[str, Method] = {}
        capabilities: dict[str, JSONObject] = {}
        for of_kind, declared in found:
            methods |= of_kind
            for name, value in declared.items():
                capabilities[name] = {**capabilities.get(name, {}), **value}
        return methods, capabilities

    def capabilities(self, *, modern: bool) -> JSONObject:
        """Return the capabilities that need no stream (MCP schema, ServerCapabilities)."""
        return {**self.server_capabilities, **self.of_kinds(modern=modern)[1]}

    def has_tasks(self, tool: Feature) -> bool:
        """Return whether calls of a tool may become tasks: a worker has its policy and tool."""
        return (
            apps.is_installed("mcp_bridge.tasks")
            and type(self.policy) is imported(conf.ACCESS_POLICY)
            and registry.snapshot.tools.get(tool.name) is tool
        )

    def accept(self, call: Call, sent: object, held: object) -> CreateTaskResult | None:
        """Return the task that a checked call becomes; see ``tasks.accepting.accept``."""
        accept = imported("mcp_bridge.tasks.accepting.accept")
        return cast("CreateTaskResult | None", accept(call, sent, held))

    def choose(self, toolset: str | None) -> bool:
        """
        Serve only the tools of a toolset, with its title and instructions.

        Returns False if the toolset is unknown. None selects the endpoint's default.
        """
        snapshot = self.snapshot.of(toolset)
        if snapshot is None:
            return False
        if snapshot.toolset is not None:
            self.snapshot = snapshot
            options = conf.toolsets[snapshot.toolset]
            self.instructions = options.get("instructions", self.instructions)
            if "title" in options:
                self.server_info = {**self.server_info, "title": str(options["title"])}
        return True

    def usable_toolsets(self, context: Context) -> list[str]:
        """Return the names of the toolsets in which the caller may use a tool."""
        opened = opened_by(context.auth, self.snapshot)
        allowed = frozenset(self.policy.filter(opened, context))
        return [
            name
            for name in conf.toolsets
            if (part := self.snapshot.of(name)) and not allowed.isdisjoint(part)
        ]

    @classmethod
    def known(cls) -> MCPServer | None:
        """Return the server if its tools and policy are known without a database query."""
        snapshot = registry.fresh
        if snapshot is None or conf.ACCESS_POLICY != DEFAULT_POLICY:
            return None
        return cls(snapshot=snapshot)

    async def list_tools(self, params: JSONObject, context: Context) -> tools.ListResult:
        """Return a page of the caller's tools, as REST lists them. Raises ProtocolError."""
        await self._discover(params, context)
        return tools.page(self, params, context, LATEST)

    async def describe(self, name: str, context: Context) -> bytes:
        """Return the definition of a tool as JSON text. Raises ProtocolError."""
        await self._discover({}, context)
        tool = await find(Call(name, None, context, endpoint=self))
        return self.snapshot.written(tool, LATEST)

    async def _discover(self, params: JSONObject, context: Context) -> None:
        """Show the request to the interceptors as ``tools/list``. Raises ProtocolError."""
        if not may_discover(context):
            raise errors.ForbiddenError(
                f"Forbidden: listing tools requires the permission {conf.DISCOVERY_PERMISSION}."
            )
        if having("request"):
            asked = {name: params[name] for name in ("cursor",) if name in params}
            request = Request(id=0, method="tools/list", params=asked, revision=LATEST)
            await intercept_request(request, context)

    async def handle(self, request: Request, context: Context) -> Result:
        """
        Return the result of a request, after any notifications on the context's stream.

        A notification is only shown to the interceptors; its result is not sent.
        Await it under ``concurrency.places.drive`` or ``alternate``. Raises ProtocolError.
        """
        try:
            if having("request"):
                await intercept_request(request, context)
            if request.id is None:
                return {}
            of_era = self.modern_methods if request.revision.modern else self.legacy_methods
            method = self.methods.get(request.method) or of_era.get(request.method)
            if method is None:
                method = self.of_kinds(modern=request.revision.modern)[0].get(request.method)
            if method is None and self.has_streams and request.revision.modern:
                method = self.streamed_methods.get(request.method)
            if method is None:
                raise errors.MethodNotFoundError(request.method)
            return await method(self, request, context)
        except Exception as exception:
            reraise(exception)
