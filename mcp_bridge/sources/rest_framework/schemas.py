"""Build the tools of endpoints from drf-spectacular's descriptions."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from django.db import DatabaseError, InterfaceError, connections
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import get_class, modify_for_versioning
from drf_spectacular.settings import patched_settings, spectacular_settings
from rest_framework.fields import empty
from rest_framework.settings import api_settings

from mcp_bridge.features import Tool, ToolOptions
from mcp_bridge.schemas.django.spectacular import as_json, collected_warnings
from mcp_bridge.sources.base import LeftOut, first_line
from mcp_bridge.sources.in_process.calls import ViewCaller
from mcp_bridge.sources.operations.mapping import MappedOperation, map_operation
from mcp_bridge.sources.operations.read import Document, tool_name
from mcp_bridge.sources.rest_framework.access import access_rule, conditions, log_in
from mcp_bridge.sources.rest_framework.endpoints import Endpoint, Version, version_of
from mcp_bridge.sources.rest_framework.fields import Components, Corrections, add_filters, tell_json

# Without the split, a file in a request is described as the URL that responses contain.
_SETTINGS: Final = {
    "COMPONENT_SPLIT_REQUEST": True,
    "OAS_VERSION": "3.1.1",
    "SCHEMA_PATH_PREFIX": "/",
}
_PLACE: Final = re.compile(r"\{(\w+)\}")
# drf-spectacular's settings and messages, and temporarily a view's class, are process-wide.
_lock = threading.RLock()


@dataclass(frozen=True, kw_only=True, eq=False)
class Description:
    """
    The operation of an endpoint in OpenAPI 3.1, with the ``components`` that it refers to.

    ``corrected`` is the AutoSchema that described it, ``warnings`` are drf-spectacular's. The path
    of ``mapped`` has the URLconf's names.
    """

    endpoint: Endpoint
    operation: dict[str, Any]
    components: dict[str, Any]
    mapped: MappedOperation
    version: Version
    corrected: Corrections
    warnings: list[str]

    @property
    def notes(self) -> Iterator[str]:
        """Yield sentences about parts of the tool that its schemas do not describe."""
        yield from self.mapped.notes
        if self.corrected.with_answers:
            if self.corrected.answer_error is not None:
                yield f"It lacks an output schema: {first_line(self.corrected.answer_error)}"
            for each in dict.fromkeys(self.corrected.undeclared):
                yield f"Its output schema takes any value of {each}, which has to_representation()"


class Builder(SchemaGenerator):
    """A builder of endpoint tools, each described with separate components."""

    def __init__(
        self, options: Mapping[str, Any], callbacks: Collection[Any], *, as_declared: bool = False
    ) -> None:
        super().__init__()
        self._options = options
        # Callbacks of the source's tools, to which redirects may lead.
        self._callbacks = callbacks
        self._has_output = bool(options.get("output_schemas", False))
        self._as_declared = as_declared

    def tool(self, name: str, options: ToolOptions, description: Description) -> Tool:
        """Return the tool of an endpoint. Raises Unmappable and ValueError."""
        endpoint = description.endpoint
        caller = ViewCaller(
            route=endpoint.route,
            method=endpoint.method,
            mapped=description.mapped,
            urlconf=self._options.get("urlconf"),
            prepare=partial(log_in, endpoint, guarded=not options.scopes),
            callbacks=self._callbacks,
            **description.version.sent,
        )
        return caller.tool(
            name,
            options,
            hints=endpoint.hints,
            access=access_rule(endpoint, options, probe=self._options.get("probe", True)),
            conditions=conditions(endpoint),
            # Django offers no public API to read transaction.non_atomic_requests.
            non_atomic=frozenset(getattr(endpoint.route.callback, "_non_atomic_requests", ())),
            source=endpoint.source,
            function=endpoint.path,
        )

    def create_view(self, callback: Any, method: str, request: Any = None) -> Any:
        view = super().create_view(callback, method, request)
        schema = view.schema
        is_known = isinstance(schema, AutoSchema)
        used = schema if is_known else AutoSchema()
        # Stored on the view, since the descriptor has only a weak reference.
        view.corrected = Corrections.of(view, used, self._has_output, self._as_declared)
        view.corrected.is_lost = not is_known and bool(_extensions(schema.__class__))
        return view

    def own_name(self, endpoint: Endpoint) -> str:
        """Return the default name: the operation id of ``@extend_schema``, or its own."""
        own = getattr(endpoint.handler, "kwargs", {}).get("schema")
        # Rare: for nearly all endpoints the view need not be created.
        if any(_extensions(get_class(each)) for each in (own, endpoint.route.kind.schema)):
            with described_quietly():
                view, path, _ = self._view(endpoint)
                schema = view.schema
                schema.path, schema.method = path, endpoint.method
                given = _given(schema, "operation_id")
                if given and schema.get_operation_id() == given:
                    return tool_name(given)
        return endpoint.own_name

    def describe(
        self, endpoint: Endpoint, options: ToolOptions, *, is_named: bool = False
    ) -> Description:
        """
        Return the operation of an endpoint, in the wanted version if it has that.

        Raises LeftOut, also if it is deprecated unless ``is_named``; Unmappable; exceptions of the
        view while it is described; and DatabaseError for a query that fails meanwhile.
        """
        with described_quietly() as warnings:
            view, path, version = self._view(endpoint)
            path, names, aliases = self._named(path, endpoint, view)
            registry = Components()
            pattern, method = endpoint.route.pattern, endpoint.method
            operation = view.schema.get_operation(path, pattern, "^/", method, registry)
            if operation is None:
                raise LeftOut("its @extend_schema excludes it from schemas")
            own = getattr(endpoint.function, "kwargs", {})
            is_given = "serializer_class" in own or _given(view.schema, "request") is not None
            is_extra_action = hasattr(endpoint.function, "mapping")
            if is_extra_action and not (is_given or _has_own_serializer(view)):
                # The inherited serializer of an extra action describes an object of the set.
                operation.pop("requestBody", None)
            # An @extend_schema may describe a parameter of the path under its other name.
            parameters = operation.get("parameters", [])
            found = {each["name"]: each for each in parameters if each["in"] == "path"}
            for alias, name in aliases.items():
                if alias in found and name in found and f"{{{alias}}}" not in path:
                    found[name].update({**found[alias], "name": name})
                    parameters.remove(found[alias])
            tell_json(operation, view.schema)
            add_filters(operation, view)
            if "summary" not in operation and not endpoint.function.__doc__:
                # Framework actions share the text of their class.
                operation["description"] = endpoint.about(operation.get("description", ""))
            if options.input_schema is not None:
                _add_arguments(operation, endpoint.method, options.input_schema)
        if operation.get("deprecated") and not is_named:
            raise LeftOut("it is deprecated")
        method, components = endpoint.method.lower(), as_json(registry.build({}))
        paths = {path: {method: as_json(operation)}}
        document = Document({"openapi": "3.1.1", "components": components, "paths": paths})
        read = document.operation(method, path)
        mapped = map_operation(document, read, output_schema=self._has_output, is_dotted=True)
        renamed = tuple(
            replace(each, name=names.get(each.name, each.name)) if each.location == "path" else each
            for each in mapped.parameters
        )
        return Description(
            endpoint=endpoint,
            operation=operation,
            components=components,
            mapped=replace(mapped, parameters=renamed),
            version=version,
            corrected=view.corrected,
            warnings=warnings,
        )

    def _named(
        self, path: str, endpoint: Endpoint, view: Any
    ) -> tuple[str, dict[str, str], dict[str, str]]:
        """Return a path, and the URLconf's names by its own names and by drf-spectacular's."""
        found = []
        for self.coerce_path_pk in (api_settings.SCHEMA_COERCE_PATH_PK, True):
            named = self.coerce_path(path, endpoint.method, view)
            names = dict(zip(_PLACE.findall(named), _PLACE.findall(path), strict=True))
            # Two parameters with the same name would be ambiguous.
            is_clear = len(names) == len(_PLACE.findall(path))
            found.append((named, names) if is_clear else (path, {}))
        return *found[0], found[1][1]

    def _view(self, endpoint: Endpoint) -> tuple[Any, str, Version]:
        """Return the view of an endpoint with a request, its path and its version."""
        route, version = endpoint.route, version_of(endpoint, self._options.get("version"))
        view, path = self.create_view(route.view, endpoint.method), route.template
        view.request = spectacular_settings.GET_MOCK_REQUEST(endpoint.method, path, view, None)
        view.request._request.resolver_match = route.match()
        if version.value is not None:
            view.request.version = version.value
            view.request.versioning_scheme = view.versioning_class()
            if version.sent.keys() & {"fixed", "accept"}:
                path = modify_for_versioning(None, endpoint.method, path, view, version.value)
        return view, path, version


@contextmanager
def described_quietly() -> Iterator[list[str]]:
    """
    Set up drf-spectacular to describe views; yield the warnings that it would print.

    On exit, raises the error of a query that failed meanwhile: drf-spectacular treats it as an
    error of the view and continues without the view's information.
    """
    raised: list[Exception] = []

    def note(execute: Callable[..., Any], *query: Any) -> Any:
        try:
            return execute(*query)
        except (DatabaseError, InterfaceError) as error:
            raised.append(error)
            raise

    with _lock, patched_settings(_SETTINGS), collected_warnings() as warnings, ExitStack() as stack:
        # Arguments have the URLconf's names ("pk", not "id") unless the site configures otherwise.
        is_renamed = api_settings.SCHEMA_COERCE_PATH_PK
        stack.callback(setattr, api_settings, "SCHEMA_COERCE_PATH_PK", is_renamed)
        is_set = "SCHEMA_COERCE_PATH_PK" in api_settings.user_settings
        api_settings.SCHEMA_COERCE_PATH_PK = is_set and is_renamed
        for connection in connections.all():
            stack.enter_context(connection.execute_wrapper(note))
        yield warnings
        if raised:
            raise raised[0]


def _add_arguments(operation: dict[str, Any], method: str, schema: Mapping[str, Any]) -> None:
    """Add the members of an explicit schema to an operation that may not describe them."""
    known = {each["name"] for each in operation.get("parameters", ())}
    given = schema.get("properties", {})
    members = {name: each for name, each in given.items() if name not in known}
    required = [name for name in schema.get("required", ()) if name in members]
    if method in ("POST", "PUT", "PATCH"):
        body = {"type": "object", "properties": members, "required": required}
        content = operation.get("requestBody", {}).get("content") or {"application/json": {}}
        content = {name: {"schema": body} for name in content}
        operation["requestBody"] = {"content": content, "required": bool(required)}
    else:
        operation.setdefault("parameters", []).extend(
            {"name": name, "in": "query", "required": name in required, "schema": each}
            for name, each in members.items()
        )


def _has_own_serializer(view: Any) -> bool:
    """Return whether a view set's action has another serializer than its create action."""
    # Not on a copy, whose class would keep the names of its slots.
    own = view.action
    try:
        chosen = view.get_serializer_class()
        view.action = "create"
        return chosen is not view.get_serializer_class()
    except Exception:
        # A view without a serializer, or one whose code needs a real request.
        return False
    finally:
        view.action = own


def _given(schema: Any, name: str) -> Any:
    """Return an argument of the ``@extend_schema`` that created a schema class, or None."""
    members = (each for kind in _extensions(schema.__class__) for each in vars(kind).values())
    methods = filter(inspect.isfunction, members)
    values = (inspect.getclosurevars(each).nonlocals.get(name, empty) for each in methods)
    return next((each for each in values if each is not empty), None)


def _extensions(kind: type) -> list[type]:
    """Return the classes in a schema class's MRO that ``@extend_schema`` created."""
    return [each for each in kind.__mro__ if each.__qualname__.startswith("extend_schema.")]
