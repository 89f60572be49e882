"""The source of functions and methods in the modules ``mcp_tools`` of the apps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, Final

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from mcp_bridge.conf import conf
from mcp_bridge.features import Context
from mcp_bridge.features.marks import Toolset, options_of, snake_case, toolset_of
from mcp_bridge.schemas import Signature
from mcp_bridge.schemas.signatures import MISSING
from mcp_bridge.sources.base import first_line, is_installed, mend_import
from mcp_bridge.sources.marked import MarkedFunction, MarkedSource

# The module of an app that is searched for tools.
MODULE: Final = "mcp_tools"


class FunctionSource(MarkedSource):
    """Tools from marked functions and methods in the modules ``mcp_tools`` of installed apps."""

    known_options = {
        "modules": (list | tuple, "a list of dotted paths"),
        "prefix": (str, "a string"),
    }

    def found(self) -> list[MarkedFunction]:
        """Return the marked functions; ``messages`` names modules that cannot be imported."""
        return [each for module in self._modules() for each in self._marked_in(module)]

    def no_tools(self) -> tuple[str, str] | None:
        modules = self.options.get("modules")
        if modules is None:
            # As with admin.py, the module is optional.
            return None
        hint = "Put @mcp_tool on the functions that models may call."
        return f"no function in {', '.join(modules) or 'its modules'} is marked", hint

    def _modules(self) -> Iterator[ModuleType]:
        configs = [each for each in apps.get_app_configs() if each.module is not None]
        having = [each for each in configs if module_has_submodule(each.module, MODULE)]
        named = [f"{each.name}.{MODULE}" for each in having]
        for path in dict.fromkeys((*named, *self.options.get("modules", []))):
            try:
                yield import_module(path)
            except Exception as exception:
                self.report(
                    "W026" if is_installed(path) else "E010",
                    f"The module {path} cannot be imported, so its functions are not served: "
                    f"{first_line(exception)}.",
                    mend_import(exception) or f"Name existing modules in {self.place}.",
                )

    def _marked_in(self, module: ModuleType) -> Iterator[MarkedFunction]:
        """Yield the marked functions defined in a module, in the order of its names."""
        prefix = self.options.get("prefix", "")
        # Not isinstance(), which would evaluate lazy objects. Each object once, even if it has
        # several names.
        defined = {
            id(value): value
            for value in list(vars(module).values())
            if issubclass(type(value), type | FunctionType)
            and f"{value.__module__}.".startswith(f"{module.__name__}.")
        }
        toolsets: list[type] = []
        for value in defined.values():
            if not issubclass(type(value), type):
                if (options := options_of(value)) is not None:
                    yield MarkedFunction(prefix + (options.name or value.__name__), value, options)
            elif (toolset := toolset_of(value)) is not None:
                toolsets.append(value)
                # A ModelResource may have one (W045).
                self.messages += filter(None, [vars(value).get("finding")])
                yield from self._methods(value, toolset, prefix)
        for value in defined.values():
            # Not issubclass() with a class of the site, whose metaclass may refuse it.
            if not issubclass(type(value), type) or any(value in each.__mro__ for each in toolsets):
                continue
            if any(options_of(getattr(each, "__func__", each)) for each in vars(value).values()):
                self.report(
                    "W036",
                    f"{value.__qualname__} ({value.__module__}) has methods with @mcp_tool, which "
                    "are not served: the class is not marked.",
                    "Put @mcp_toolset on the class, or remove the marks.",
                )

    def _methods(self, kind: type, toolset: Toolset, prefix: str) -> Iterator[MarkedFunction]:
        """Yield the marked methods of a class, including inherited ones."""
        where = f"{kind.__qualname__} ({kind.__module__})"
        try:
            make = _maker(kind)
        except Exception as exception:
            self.withhold(where, exception, kind.__module__)
            return
        separator = "." if conf.TOOL_NAME_STYLE == "dotted" else "_"
        for name in dir(kind):
            method = inspect.getattr_static(kind, name)
            function = getattr(method, "__func__", method)
            # The mark may be above or below @staticmethod and @classmethod.
            own = options_of(method) or options_of(function)
            if own is None:
                continue
            try:
                options = own.under(toolset.options)
            except ValueError as exception:
                text = f"its mark and that of {kind.__qualname__} conflict: {first_line(exception)}"
                self.withhold(f"{where}, {name}", text, kind.__module__)
                continue
            shared = snake_case(kind.__name__) if toolset.prefix is None else toolset.prefix
            named = prefix + (options.name or separator.join(filter(None, (shared, name))))
            owner = (lambda context: kind) if isinstance(method, classmethod) else make
            # The first parameter is an instance or the class.
            first = next(iter(inspect.signature(function).parameters), "self")
            filled = None if isinstance(method, staticmethod) else first
            yield MarkedFunction(named, function, options, filled=filled, fill=owner)


def _maker(kind: type) -> Callable[[Context], object]:
    """Return a factory of instances for calls. Raises ValueError, and errors of reading hints."""
    given = None
    initialize: Any = inspect.getattr_static(kind, "__init__")
    if initialize is not object.__init__:
        own = next(iter(inspect.signature(initialize).parameters), "self")
        signature = Signature.of(initialize, skip=[own])
        given = signature.context
        for parameter in signature.parameters:
            if parameter.default is MISSING:
                raise ValueError(
                    f"its __init__ takes {parameter.name!r}, which cannot be filled: only a "
                    "parameter annotated Context is"
                )
    return (lambda context: kind(**{given: context})) if given else lambda context: kind()
