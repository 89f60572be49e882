"""Inspection of the bytecode of views: whether methods read the body, and which serializer."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

# Attributes of a request other than its body.
_BESIDE_BODY: Final = frozenset(
    (
        *("user", "auth", "query_params", "GET", "META", "headers", "COOKIES", "session"),
        *("method", "version", "path", "resolver_match", "build_absolute_uri", "mcp_context"),
        *("accepted_renderer", "get_full_path", "get_host", "scheme"),
    )
)
# Methods of the framework that read the view's own serializer.
_READING: Final = frozenset(
    ("get_serializer", "get_serializer_class", "create", "update", "partial_update")
)


def reads_body(function: Callable[..., Any]) -> bool:
    """
    Return whether a method of a view may read the body of its request, by its bytecode.

    It does if it passes the request on, reads more of it than _BESIDE_BODY, or asks for a
    serializer.
    """
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None or code.co_argcount < 2:
        return True
    name = code.co_varnames[1]
    if {name, "self"} & set(code.co_cellvars):
        return True
    is_request = False
    for each in dis.get_instructions(code):
        if is_request and not (
            each.opname in ("LOAD_ATTR", "LOAD_METHOD") and each.argval in _BESIDE_BODY
        ):
            return True
        # One instruction may load two variables, of which an attribute is that of the last one.
        loaded = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        is_load = each.opname.startswith(("LOAD_FAST", "LOAD_ATTR", "LOAD_METHOD"))
        if is_load and name in loaded[:-1]:
            return True
        is_request = is_load and loaded[-1] in (name, "request")
        if is_load and str(loaded[-1]).startswith("get_serializer"):
            return True
    return is_request


def reads_serializer(kind: type, function: Callable[..., Any], seen: Collection[str] = ()) -> bool:
    """
    Return whether a method of a view may read the body with the view's own serializer.

    It does if it asks the view for one, makes one with data, or calls a method that does. A
    serializer that is only named may belong to the answer.
    """
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None or not code.co_argcount or "super" in code.co_names:
        return True
    for name, keywords in _attributes(code):
        if name in _READING or (name == "serializer_class" and "data" in keywords):
            return True
        found = inspect.getattr_static(kind, name, None)
        is_method = name not in seen and inspect.isfunction(found)
        if is_method and reads_serializer(kind, found, (*seen, name)):
            return True
    return False


def _attributes(code: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the attributes that a method reads of itself, and the keywords of the next call."""
    instructions = list(dis.get_instructions(code))
    is_self = False
    for number, each in enumerate(instructions):
        if is_self and each.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            # In 3.11 and 3.12 the keywords are an argument of KW_NAMES, later a constant.
            consts = (
                code.co_consts[one.arg or 0] if one.opname == "KW_NAMES" else one.argval
                for one in instructions[number + 1 :]
                if one.opname in ("KW_NAMES", "LOAD_CONST")
            )
            yield each.argval, next((one for one in consts if _are_names(one)), ())
        loaded = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        is_self = each.opname.startswith("LOAD_FAST") and loaded[-1] == code.co_varnames[0]


def _are_names(found: object) -> bool:
    return isinstance(found, tuple) and all(isinstance(each, str) for each in found)
