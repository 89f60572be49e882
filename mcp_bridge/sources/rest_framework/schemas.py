"""The operations of endpoints, as drf-spectacular describes them."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import DatabaseError, InterfaceError, connections
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import get_class, modify_for_versioning
from drf_spectacular.settings import patched_settings, spectacular_settings
from rest_framework.fields import empty
from rest_framework.settings import api_settings

from mcp_bridge.schemas.django.spectacular import as_json, collected_warnings
from mcp_bridge.sources.base import LeftOut
from mcp_bridge.sources.operations.read import Document
from mcp_bridge.sources.rest_framework.endpoints import Endpoint
from mcp_bridge.sources.rest_framework.fields import Components, correct, tell_json
from mcp_bridge.sources.rest_framework.filters import add_filters
from mcp_bridge.sources.rest_framework.versions import Version, version_of
from mcp_bridge.sources.rest_framework.wagtail import add_parameters

# Without the split a file in a body is described by the address that an answer has for it.
_SETTINGS: Final = {
    "COMPONENT_SPLIT_REQUEST": True,
    "OAS_VERSION": "3.1.1",
    "SCHEMA_PATH_PREFIX": "/",
}
_PLACE: Final = re.compile(r"\{(\w+)\}")
# The settings of drf-spectacular, its messages and for a moment a view's class are the process's.
_lock = threading.RLock()


@dataclass(frozen=True, kw_only=True)
class Description:
    """
    The operation of an endpoint, as OpenAPI 3.1 has it.

    ``components`` are those that it refers to. ``warnings`` are those of drf-spectacular, and
    ``answer_error`` is the reason if its answers cannot be described. ``undeclared`` names
    serializers of answers whose fields do not describe them. ``is_lost`` says that an
    ``@extend_schema`` of the site does nothing, since its views have another kind of schema.
    ``names`` are the URLconf's names of those parameters that the path renames.
    """

    endpoint: Endpoint
    path: str
    operation: dict[str, Any]
    components: dict[str, Any]
    version: Version | None
    answer_error: Exception | None = None
    undeclared: Sequence[str] = ()
    warnings: list[str] = field(default_factory=list)
    is_lost: bool = False
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def document(self) -> Document:
        """Return the OpenAPI document of this operation alone."""
        paths = {self.path: {self.endpoint.method.lower(): as_json(self.operation)}}
        data = {"openapi": "3.1.1", "components": self.components, "paths": paths}
        return Document(data)


class Describer(SchemaGenerator):
    """A generator that describes endpoints one by one, each with separate components."""

    def __init__(self, *, with_answers: bool, as_declared: bool) -> None:
        super().__init__()
        self._answers = {"with_answers": with_answers, "as_declared": as_declared}

    def create_view(self, callback: Any, method: str, request: Any = None) -> Any:
        view = super().create_view(callback, method, request)
        schema = view.schema
        view.is_schema_lost = not isinstance(schema, AutoSchema) and _has_extension(schema)
        # The view keeps it, since its descriptor holds it by a weak reference.
        schema = schema if isinstance(schema, AutoSchema) else AutoSchema()
        view.corrected = correct(view, schema, **self._answers)
        return view

    def operation_id(self, endpoint: Endpoint, wanted: str | None) -> str | None:
        """Return the name that ``@extend_schema(operation_id=...)`` gives, or None."""
        own = getattr(endpoint.handler, "kwargs", {}).get("schema")
        schemas = map(get_class, (own, endpoint.route.kind.schema))
        if not any(_is_extension(base) for each in schemas for base in each.__mro__):
            # As of nearly all: nobody has to make the view for that.
            return None
        with described_quietly():
            view, path, _ = self._view(endpoint, wanted)
            schema = view.schema
            schema.path, schema.method = path, endpoint.method
            given = _given(schema, "operation_id")
            return given if given and schema.get_operation_id() == given else None

    def describe(self, endpoint: Endpoint, wanted: str | None) -> Description:
        """
        Return the operation of an endpoint, of the version that is wanted where it has that.

        Raises what the view raises when it is described, and DatabaseError where that has asked a
        database in vain.
        """
        with described_quietly() as warnings:
            view, path, version = self._view(endpoint, wanted)
            path, names, aliases = self._named(path, endpoint, view)
            registry = Components()
            operation = view.schema.get_operation(
                path, endpoint.route.pattern, "^/", endpoint.method, registry
            )
            if operation is None:
                raise LeftOut("its @extend_schema excludes it from schemas")
            own = getattr(endpoint.function, "kwargs", {})
            is_given = "serializer_class" in own or _given(view.schema, "request") is not None
            if endpoint.is_extra_action and not (is_given or _has_own_serializer(view)):
                # What an extra action inherits describes an object of the set.
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
            add_parameters(operation, view)
            if "summary" not in operation and not endpoint.function.__doc__:
                # Actions of the framework's own share the text of their class.
                operation["description"] = endpoint.about(operation.get("description", ""))
            return Description(
                endpoint=endpoint,
                path=path,
                operation=operation,
                components=as_json(registry.build({})),
                version=version,
                answer_error=view.corrected.answer_error,
                undeclared=tuple(dict.fromkeys(view.corrected.undeclared)),
                warnings=list(warnings),
                is_lost=view.is_schema_lost,
                names=names,
            )

    def _named(
        self, path: str, endpoint: Endpoint, view: Any
    ) -> tuple[str, dict[str, str], dict[str, str]]:
        """
        Return a path with the names that the site sets, and the URLconf's names by those.

        The third are the URLconf's names by drf-spectacular's default names.
        """
        found = []
        for self.coerce_path_pk in (api_settings.SCHEMA_COERCE_PATH_PK, True):
            named = self.coerce_path(path, endpoint.method, view)
            names = dict(zip(_PLACE.findall(named), _PLACE.findall(path), strict=True))
            # Two parameters of one name would be ambiguous.
            is_clear = len(names) == len(_PLACE.findall(path))
            found.append((named, names) if is_clear else (path, {}))
        return *found[0], found[1][1]

    def _view(self, endpoint: Endpoint, wanted: str | None) -> tuple[Any, str, Version | None]:
        """Return the view of an endpoint with a request, its path, and the version of both."""
        route, version = endpoint.route, version_of(endpoint, wanted)
        view, path = self.create_view(route.view, endpoint.method), route.template
        view.request = spectacular_settings.GET_MOCK_REQUEST(endpoint.method, path, view, None)
        view.request._request.resolver_match = route.match()
        if version is not None:
            view.request.version = version.value
            view.request.versioning_scheme = view.versioning_class()
            if version.in_path or version.in_accept:
                path = modify_for_versioning(None, endpoint.method, path, view, version.value)
        return view, path, version


@contextmanager
def described_quietly() -> Iterator[list[str]]:
    """
    Have drf-spectacular describe views; yield the warnings that it would print.

    At the end, raises the error of a database that was asked meanwhile: drf-spectacular takes it
    for one of the view, and goes on without what the view has said.
    """
    raised: list[Exception] = []

    def note(execute: Callable[..., Any], *query: Any) -> Any:
        try:
            return execute(*query)
        except (DatabaseError, InterfaceError) as error:
            raised.append(error)
            raise

    with _lock, patched_settings(_SETTINGS), collected_warnings() as warnings, ExitStack() as stack:
        # Arguments have the URLconf's names, "pk" and not "id", unless the site says otherwise.
        is_renamed = api_settings.SCHEMA_COERCE_PATH_PK
        stack.callback(setattr, api_settings, "SCHEMA_COERCE_PATH_PK", is_renamed)
        is_set = "SCHEMA_COERCE_PATH_PK" in api_settings.user_settings
        api_settings.SCHEMA_COERCE_PATH_PK = is_set and is_renamed
        for connection in connections.all():
            stack.enter_context(connection.execute_wrapper(note))
        yield warnings
        if raised:
            raise raised[0]


def with_arguments(description: Description, schema: Mapping[str, Any]) -> None:
    """Have an operation take the members of a schema given by hand, which it may not know."""
    operation = description.operation
    known = {each["name"] for each in operation.get("parameters", ())}
    members = {
        name: each for name, each in schema.get("properties", {}).items() if name not in known
    }
    required = [name for name in schema.get("required", ()) if name in members]
    if description.endpoint.method in ("POST", "PUT", "PATCH"):
        body = {"type": "object", "properties": members, "required": required}
        content = operation.get("requestBody", {}).get("content") or {"application/json": {}}
        content = {name: {"schema": body} for name in content}
        operation["requestBody"] = {"content": content, "required": bool(required)}
        return
    operation.setdefault("parameters", []).extend(
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in members.items()
    )


def _has_own_serializer(view: Any) -> bool:
    """Return whether a view set chooses another serializer for its action than to create with."""
    # Not with a copy: its class would keep the names of its slots.
    own = view.action
    try:
        chosen = view.get_serializer_class()
        view.action = "create"
        return chosen is not view.get_serializer_class()
    except Exception:
        # A view without one, or code of the view's own that asks a real request.
        return False
    finally:
        view.action = own


def _given(schema: Any, name: str) -> Any:
    """Return an argument of the ``@extend_schema`` that made a schema class, or None."""
    for kind in schema.__class__.__mro__:
        if _is_extension(kind):
            for method in vars(kind).values():
                if inspect.isfunction(method):
                    value = inspect.getclosurevars(method).nonlocals.get(name, empty)
                    if value is not empty:
                        return value
    return None


def _has_extension(schema: Any) -> bool:
    return any(_is_extension(kind) for kind in schema.__class__.__mro__)


def _is_extension(kind: type) -> bool:
    return kind.__qualname__.startswith("extend_schema.")
