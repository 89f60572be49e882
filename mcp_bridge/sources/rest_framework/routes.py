"""The addresses of a URLconf at which views of Django REST framework stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rest_framework.views import APIView

from mcp_bridge.sources.in_process import routes as in_process


@dataclass(frozen=True, kw_only=True)
class Route(in_process.Route):
    """An address; ``view`` is what its callback stands around, with DRF's ``cls``."""

    view: Any

    @property
    def kind(self) -> type[APIView]:
        kind: type[APIView] = self.view.cls
        return kind

    @property
    def initkwargs(self) -> Mapping[str, Any]:
        return getattr(self.view, "initkwargs", None) or {}

    @property
    def actions(self) -> Mapping[str, str] | None:
        """The action of each method in lower case, where it is a view set."""
        return getattr(self.view, "actions", None)


def routes(urlconf: Any) -> Iterator[Route]:
    """Yield each address of a URLconf at which a view of Django REST framework stands."""
    for route in in_process.routes(urlconf):
        for each in in_process.wrapped(route.callback):
            kind = getattr(each, "cls", None)
            if isinstance(kind, type) and issubclass(kind, APIView):
                yield Route(view=each, **vars(route))
                break
