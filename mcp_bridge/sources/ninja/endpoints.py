"""The operations of django-ninja in a URLconf, and their descriptions by OpenAPI."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation, PathView

from mcp_bridge.conf import conf
from mcp_bridge.features.secrets import deals_with_secrets
from mcp_bridge.sources.in_process.routes import Route, routes, wrapped
from mcp_bridge.sources.marked import location
from mcp_bridge.sources.operations.mapping import MappedOperation, map_operation
from mcp_bridge.sources.operations.read import Document, tool_name
from mcp_bridge.sources.secrets import secret_answer


@dataclass(frozen=True, kw_only=True, eq=False)
class Endpoint:
    """An operation at its address, for one of its methods."""

    route: Route
    operation: Operation
    method: str

    @property
    def name(self) -> str:
        """The operation's id where it is given, else its function's name after the namespaces."""
        operation = self.operation
        # A namespace that nobody has given says nothing.
        unnamed = f"api-{operation.api.version}"
        named = [each for each in self.route.namespaces if each != unnamed]
        own = operation.operation_id or "_".join([*named, operation.view_func.__name__])
        return tool_name(own if len(operation.methods) == 1 else f"{own}_{self.method.lower()}")

    @property
    def handles_credentials(self) -> bool:
        """Whether it logs in or hands out tokens, by its name."""
        return deals_with_secrets(self.name, conf.sensitive_names)

    def __str__(self) -> str:
        return f"{self.method} {self.route.template} ({location(self.operation.view_func)})"


def endpoints(urlconf: Any) -> Iterator[Endpoint]:
    """Yield each operation of a URLconf once, for each of its methods."""
    seen = set[int]()
    for route in routes(urlconf):
        for view in _path_views(route.callback):
            for operation in view.operations:
                if id(operation) not in seen:
                    seen.add(id(operation))
                    for method in operation.methods:
                        yield Endpoint(route=route, operation=operation, method=method.upper())


class APIDocument(OpenAPISchema):
    """The OpenAPI document of an API, whose operations are described one by one."""

    def get_paths(self) -> dict[str, Any]:
        return {}

    def map(self, endpoint: Endpoint, *, output_schema: bool) -> MappedOperation:
        """Return an operation, mapped. Raises Unmappable, and what the site's types raise."""
        # One of the same name as another's is described all the same.
        self.all_operation_ids.clear()
        details = self.operation_details(endpoint.operation)
        known = {each["name"] for each in details["parameters"] if each["in"] == "path"}
        # Those of the address at which the API stands, which ninja does not know.
        details["parameters"] += [
            {"in": "path", "name": name, "required": True, "schema": {"type": "string"}}
            for name in sorted(endpoint.route.parameters - known)
        ]
        path, method = endpoint.route.template, endpoint.method.lower()
        document = Document(
            {
                "openapi": self["openapi"],
                "paths": {path: {method: details}},
                "components": {"schemas": self.schemas},
            }
        )
        operation = document.operation(method, path)
        return map_operation(document, operation, output_schema=output_schema)

    def secret_answer(self, endpoint: Endpoint) -> str | None:
        """Return the first member of an operation's answers that is a secret, or None."""
        self.all_operation_ids.clear()
        responses = self.operation_details(endpoint.operation)["responses"]
        return secret_answer(responses, {"schemas": self.schemas})


def _path_views(callback: Any) -> Iterator[PathView]:
    """Yield the views of ninja that a callback of the URLconf, or what it stands around, calls."""
    for each in wrapped(callback):
        for cell in getattr(each, "__closure__", None) or ():
            if isinstance(cell.cell_contents, PathView):
                yield cell.cell_contents
