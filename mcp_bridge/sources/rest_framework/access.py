"""Derive the access rule of an endpoint's tool from the permission classes of its view."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from types import CodeType, ModuleType
from typing import Any, Final, NoReturn

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, InterfaceError
from rest_framework import exceptions, permissions
from rest_framework.views import APIView

from mcp_bridge.calls.credentials import scopes_of
from mcp_bridge.features import AccessRule, Context, ToolOptions, dotted_name
from mcp_bridge.sources.in_process.calls import InProcessRequest
from mcp_bridge.sources.rest_framework.endpoints import Endpoint, version_of

_BY_MODEL: Final = (
    permissions.DjangoModelPermissions,
    permissions.DjangoModelPermissionsOrAnonReadOnly,
)
# The module of django-oauth-toolkit's permission classes, and those that can be compiled.
_TOOLKIT: Final = "oauth2_provider.contrib.rest_framework.permissions"
_OF_TOKENS: Final = ("TokenHasScope", "TokenHasReadWriteScope", "TokenHasResourceScope")
_OR_TOKEN: Final = "IsAuthenticatedOrTokenHasScope"
# Attributes and headers about how a request was authenticated, which a tool's request lacks.
_AUTHENTICATOR: Final = frozenset(
    {"successful_authenticator", "_authenticator", "authenticators"}
    | {"Authorization", "authorization", "HTTP_AUTHORIZATION"}
)
_OF_VIEWS: Final = ("rest_framework.views", "adrf.views")
# Packages whose code is known and need not be inspected.
_KNOWN: Final = ("builtins", "rest_framework", "adrf", "oauth2_provider")
REFUSED: Final = (
    *(exceptions.NotAuthenticated, exceptions.AuthenticationFailed),
    *(exceptions.PermissionDenied, PermissionDenied),
)
# Requirements of permission classes besides model permissions, with their predicates.
_USER: Final = "user"
_PREDICATES: Final[Mapping[str, Callable[[Context], object]]] = {
    "staff": lambda context: context.user.is_staff,
    "token": lambda context: scopes_of(context.auth) is not None,
}


def access_rule(endpoint: Endpoint, options: ToolOptions, *, probe: bool) -> AccessRule:
    """
    Return the access rule of a tool, from its mark and the view's permission classes.

    Classes of Django REST framework are converted to user, staff or permissions, which is free for
    lists; others are called with an empty request. The view always decides at the call.
    Classes of django-oauth-toolkit add their scopes.

    Raises ValueError for a class with unknown scopes, or one that reads how the caller was
    authenticated, unless the mark has scopes.
    """
    scopes = tuple(dict.fromkeys((*options.scopes, *_view_scopes(endpoint, options))))
    known = _compiled(endpoint)
    needs = known or []
    predicate = next((_PREDICATES[each] for each in needs if each in _PREDICATES), None)
    if known is None and probe:
        predicate = partial(_lets_in, endpoint, guarded=not options.scopes)
    asked = (each for each in needs if each not in (_USER, *_PREDICATES))
    needed = tuple(dict.fromkeys((*options.permissions, *asked)))
    return AccessRule.of(options.public and not (needs or scopes), needed, predicate, None, scopes)


def _view_scopes(endpoint: Endpoint, options: ToolOptions) -> Iterator[str]:
    """Yield the scopes that classes of django-oauth-toolkit require. Raises ValueError."""
    kind: Any = endpoint.route.kind
    leaves = [*_leaves(endpoint)]
    kinds: list[Any] = [type(each) for each, _ in leaves]
    asking = [f"class {kind.__qualname__}"] if _asks(kind) else []
    judges = [each for each in kinds if _asks(each, callees=True)]
    asking += [f"permission class {each.__qualname__}" for each in judges]
    if asking and not options.scopes:
        raise ValueError(
            f"its {asking[0]} reads how the caller was authenticated, which does not exist for "
            "tools: set scopes= on the tool"
        )
    for each, is_alternative in leaves:
        kind = type(each)
        # The class that decides. Other classes in an alternative read scopes from ``request.auth``.
        judge = next((base for base in kind.__mro__ if "has_permission" in vars(base)), kind)
        is_read = not is_alternative or judge.__name__ == _OR_TOKEN
        if judge.__module__ != _TOOLKIT or not is_read or _asks(kind, callees=True):
            continue
        try:
            view = make_view(endpoint)
            if judge.__name__ == _OR_TOKEN:
                each = judge.has_permission.__globals__["TokenHasScope"]()
            if hasattr(each, "get_scopes"):
                yield from each.get_scopes(view.request, view)
            else:
                found = each.get_required_alternate_scopes(view.request, view)
                alternatives = found.get(endpoint.method, ())
                yield from alternatives[0] if len(alternatives) == 1 else ()
        except Exception as error:
            if not options.scopes:
                text = f"the scopes of {kind.__qualname__} are not known: {error}"
                raise ValueError(text) from error


def conditions(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the names of a view's permissions and of the methods that override them."""
    own = [getattr(endpoint.route.kind, name) for name in ("get_permissions", "check_permissions")]
    named = (dotted_name(each) for each in own if each.__module__ not in _OF_VIEWS)
    return (*map(_words, _permissions(endpoint)), *named)


def _words(permission: Any) -> str:
    kind, parts = type(permission), vars(permission)
    if kind is permissions.NOT:
        return f"~{_words(parts['op1'])}"
    if kind in (permissions.AND, permissions.OR):
        sign = "&" if kind is permissions.AND else "|"
        return f"({_words(parts['op1'])} {sign} {_words(parts['op2'])})"
    return "staff" if kind is permissions.IsAdminUser else dotted_name(kind)


def _permissions(endpoint: Endpoint) -> list[Any]:
    """Return the permissions of a view, or those of its class if they depend on a call."""
    try:
        return list(make_view(endpoint).get_permissions())
    except Exception:
        kind = endpoint.route.kind
        given = endpoint.route.initkwargs.get("permission_classes", kind.permission_classes)
        return [each() for each in given]


def _leaves(endpoint: Endpoint) -> Iterator[tuple[Any, bool]]:
    """Yield the single permissions of a view, and whether each is part of an alternative."""
    pending = [(each, False) for each in _permissions(endpoint)]
    while pending:
        each, is_alternative = pending.pop(0)
        parts = [vars(each)[name] for name in ("op1", "op2") if name in vars(each)]
        if parts:
            is_alternative |= not isinstance(each, permissions.AND)
            pending += [(part, is_alternative) for part in parts]
        else:
            yield each, is_alternative


@lru_cache(maxsize=1024)
def _asks(kind: Any, *, callees: bool = False) -> bool:
    """Return whether a class, or optionally a function it calls, reads how callers log in."""
    own = [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in _KNOWN]
    pending = [found for base in own for each in vars(base).values() for found in _code(each)]
    read: dict[int, set[str]] = {}
    for code, known in pending:
        if id(code) in read:
            continue
        texts = (each for each in code.co_consts if isinstance(each, str))
        read[id(code)] = {*code.co_names, *texts}
        for owner in (known[name] for name in code.co_names if callees and name in known):
            # A function, or an attribute of a module or class.
            inside = isinstance(owner, ModuleType | type)
            named = [inspect.getattr_static(owner, each, None) for each in code.co_names]
            for each in named if inside else [owner]:
                if getattr(each, "__module__", "").partition(".")[0] not in _KNOWN:
                    pending += _code(each)
    names = [set().union(*read.values())] if callees else read.values()
    return any(each & _AUTHENTICATOR or each >= {"auth", "type"} for each in names)


def _code(found: Any) -> Iterator[tuple[CodeType, Mapping[str, Any]]]:
    """Yield the code of a function and its inner functions, each with its globals."""
    found = inspect.unwrap(getattr(found, "fget", None) or getattr(found, "__func__", found))
    pending = [found.__code__] if inspect.isfunction(found) else []
    while pending:
        yield (code := pending.pop()), found.__globals__
        pending += [part for part in code.co_consts if isinstance(part, CodeType)]


def authenticates(endpoint: Endpoint) -> bool | None:
    """Return whether a view authenticates; None if it decides for each request."""
    kind = endpoint.route.kind
    if kind.get_authenticators is not APIView.get_authenticators:
        return None
    classes = endpoint.route.initkwargs.get("authentication_classes", kind.authentication_classes)
    return bool(classes) if isinstance(classes, list | tuple) else None


def make_view(endpoint: Endpoint, request: InProcessRequest | None = None) -> Any:
    """Return the view of an endpoint in the state before its checks, without arguments."""
    route = endpoint.route
    if request is None:
        request = InProcessRequest(Context(user=AnonymousUser()), endpoint.method, route.template)
    view: Any = route.kind(**route.initkwargs)
    view.args, view.kwargs, view.format_kwarg = (), {}, None
    if route.actions is not None:
        view.action_map = route.actions
    view.request = request
    view.request = view.initialize_request(request)
    return view


def log_in(endpoint: Endpoint, request: InProcessRequest, *, guarded: bool) -> None:
    """
    Authenticate the in-process request as the caller, if the view authenticates at all.

    ``guarded`` is False for a tool whose mark has scopes: they replace everything else that the
    view reads from a credential.
    """
    user: Any = request.mcp_context.user
    if user is None or not user.is_authenticated:
        return
    is_asked = authenticates(endpoint)
    if is_asked is None:
        # If it raises, the call will report it.
        is_asked = True
        with suppress(Exception):
            is_asked = bool(make_view(endpoint, request).get_authenticators())
    if is_asked:
        # As in DRF's force_authenticate(). request.auth is not the caller's credential, which a
        # logout view would delete.
        granted = scopes_of(request.mcp_context.auth)
        kind = GuardedScopes if guarded else ScopesOnly
        vars(request)["_force_auth_user"] = user
        vars(request)["_force_auth_token"] = None if granted is None else kind(granted)


class ScopesOnly:
    """A replacement for ``request.auth`` with scopes, like django-oauth-toolkit's tokens."""

    def __init__(self, scopes: Iterable[str]) -> None:
        self.scope = " ".join(sorted(scopes))

    def is_expired(self) -> bool:
        return False

    def is_valid(self, scopes: Collection[str] | None = None) -> bool:
        return set(self.scope.split()).issuperset(scopes or ())

    allow_scopes = is_valid


class GuardedScopes(ScopesOnly):
    """Scopes that refuse the request if a view reads other attributes or the class."""

    @property  # type: ignore[misc]
    def __class__(self) -> NoReturn:  # type: ignore[override]
        self.__getattr__("class")

    def __getattr__(self, name: object) -> NoReturn:
        raise exceptions.PermissionDenied(
            f"This view reads {name!s} of the credential. Credentials with scopes cannot call it "
            "unless the site sets scopes on the tool."
        )

    __getitem__ = __getattr__


def _compiled(endpoint: Endpoint) -> list[str] | None:
    """Return the requirements of the permission classes; None if one must be called."""
    route = endpoint.route
    kind = route.kind
    # adrf's do the same with coroutine functions; such classes are never among the known ones.
    if {kind.get_permissions.__module__, kind.check_permissions.__module__} - {*_OF_VIEWS}:
        return None
    classes = route.initkwargs.get("permission_classes", kind.permission_classes)
    if not isinstance(classes, list | tuple):
        # A property that reads the request.
        return None
    needs: list[str] = []
    for each in classes:
        if each is permissions.AllowAny:
            continue
        if not authenticates(endpoint):
            return None
        if each is permissions.IsAuthenticated:
            needs.append(_USER)
        elif each is permissions.IsAuthenticatedOrReadOnly:
            needs += [] if endpoint.method in permissions.SAFE_METHODS else [_USER]
        elif each is permissions.IsAdminUser:
            needs.append("staff")
        elif (
            each in _BY_MODEL and endpoint.model and not hasattr(kind, "_ignore_model_permissions")
        ):
            needs += [_USER] if each.authenticated_users_only else []
            needs += each().get_required_permissions(endpoint.method, endpoint.model)
        elif each.__module__ == _TOOLKIT and each.__name__ in (*_OF_TOKENS, _OR_TOKEN):
            needs.append(_USER if each.__name__ == _OR_TOKEN else "token")
        else:
            return None
    # A rule has only one predicate, so two of them must be called.
    return None if _PREDICATES.keys() <= set(needs) else needs


def _lets_in(endpoint: Endpoint, context: Context, *, guarded: bool) -> bool:
    """Return whether the view would admit the caller, or depends on the arguments."""
    request = InProcessRequest(context, endpoint.method, endpoint.route.template)
    request.resolver_match = endpoint.route.match()
    log_in(endpoint, request, guarded=guarded)
    try:
        view = make_view(endpoint, request)
        view.request.version = version_of(endpoint, None).value
        view.check_permissions(view.request)
    except REFUSED:
        return False
    except (DatabaseError, InterfaceError):
        raise
    except Exception:
        # For example, a class that reads a path argument: the call decides.
        return True
    return True
