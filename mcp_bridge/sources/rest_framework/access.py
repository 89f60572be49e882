"""Who may see the tool of an endpoint, by the permission classes of its view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, InterfaceError
from rest_framework import exceptions, permissions
from rest_framework.views import APIView

from mcp_bridge.features import AccessRule, Context, ToolOptions
from mcp_bridge.sources.in_process.requests import InProcessRequest
from mcp_bridge.sources.rest_framework.endpoints import Endpoint
from mcp_bridge.sources.rest_framework.versions import version_of

_BY_MODEL: Final = (
    permissions.DjangoModelPermissions,
    permissions.DjangoModelPermissionsOrAnonReadOnly,
)
_REFUSED: Final = (
    exceptions.NotAuthenticated,
    exceptions.AuthenticationFailed,
    exceptions.PermissionDenied,
    PermissionDenied,
)


@dataclass(slots=True)
class _Needs:
    """What the permission classes of a view ask of every request, as far as that is known."""

    user: bool = False
    staff: bool = False
    permissions: tuple[str, ...] = ()


def access_rule(endpoint: Endpoint, options: ToolOptions, *, probe: bool) -> AccessRule:
    """
    Return who may see a tool: whom the mark and the view's permission classes let in.

    Classes of Django REST framework become a user, staff or permissions, which cost a list nothing;
    any others are asked with an empty request. The view decides at the call in any case.
    """
    needs = _compiled(endpoint)
    predicate: Callable[[Context], object] | None = None
    if needs is None:
        needs, predicate = _Needs(), _Probe(endpoint).lets_in if probe else None
    elif needs.staff:
        predicate = is_staff
    public = options.public and not (needs.user or needs.staff or needs.permissions)
    needed = tuple(dict.fromkeys((*options.permissions, *needs.permissions)))
    return AccessRule.of(public, needed, predicate, None, options.scopes)


def is_staff(context: Context) -> bool:
    """Return whether DRF's IsAdminUser lets the caller in."""
    return bool(context.user.is_staff)


def authenticates(endpoint: Endpoint) -> bool | None:
    """Return whether a view looks at who calls; None where it decides that request by request."""
    kind = endpoint.route.kind
    if kind.get_authenticators is not APIView.get_authenticators:
        return None
    classes = endpoint.route.initkwargs.get("authentication_classes", kind.authentication_classes)
    return bool(classes) if isinstance(classes, list | tuple) else None


def make_view(endpoint: Endpoint, request: InProcessRequest) -> Any:
    """Return the view of an endpoint as it stands before its checks; it has no arguments."""
    route = endpoint.route
    view: Any = route.kind(**route.initkwargs)
    view.args, view.kwargs, view.format_kwarg = (), {}, None
    if route.actions is not None:
        view.action_map = route.actions
    view.request = request
    view.request = view.initialize_request(request)
    return view


def may_authenticate(endpoint: Endpoint, request: InProcessRequest) -> bool:
    """Return whether the view would look at who calls: an anonymous view stays anonymous."""
    known = authenticates(endpoint)
    if known is None:
        try:
            known = bool(make_view(endpoint, request).get_authenticators())
        except Exception:
            # Its call will say why.
            known = True
    return known


def log_in(endpoint: Endpoint, request: InProcessRequest) -> None:
    """Have a view take the caller for authenticated, where it looks at who calls."""
    user: Any = request.mcp_context.user
    if user is not None and user.is_authenticated and may_authenticate(endpoint, request):
        # As DRF's force_authenticate() does it. There is no request.auth: what is the site's own
        # there may be deleted by a view that logs out, and the caller's must not be.
        vars(request)["_force_auth_user"] = user


def _compiled(endpoint: Endpoint) -> _Needs | None:
    """Return what the permission classes ask; None where one of them has to be asked."""
    route = endpoint.route
    kind = route.kind
    for method in (kind.get_permissions, kind.check_permissions):
        # adrf's do the same with classes that are coroutine functions, none of which is known here.
        if method.__module__ not in ("rest_framework.views", "adrf.views"):
            return None
    classes = route.initkwargs.get("permission_classes", kind.permission_classes)
    if not isinstance(classes, list | tuple):
        # A property, which reads the request.
        return None
    needs = _Needs()
    for each in classes:
        is_safe = endpoint.method in permissions.SAFE_METHODS
        if each is permissions.AllowAny:
            continue
        if not authenticates(endpoint):
            return None
        if each is permissions.IsAuthenticated:
            needs.user = True
        elif each is permissions.IsAuthenticatedOrReadOnly:
            needs.user = needs.user or not is_safe
        elif each is permissions.IsAdminUser:
            needs.staff = True
        elif (
            each in _BY_MODEL
            and endpoint.model is not None
            and not hasattr(kind, "_ignore_model_permissions")
        ):
            asked = each().get_required_permissions(endpoint.method, endpoint.model)
            needs.user = needs.user or each.authenticated_users_only or bool(asked)
            needs.permissions += tuple(asked)
        else:
            return None
    return needs


class _Probe:
    """Asks the permission classes of a view with a request that has no arguments and no body."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._version = version_of(endpoint, None)

    def lets_in(self, context: Context) -> bool:
        """Return whether the view would let the caller in, or cannot tell without arguments."""
        endpoint = self._endpoint
        request = InProcessRequest(context, endpoint.method, endpoint.route.template)
        request.resolver_match = endpoint.route.match()
        log_in(endpoint, request)
        try:
            view = make_view(endpoint, request)
            view.request.version = None if self._version is None else self._version.value
            view.check_permissions(view.request)
        except _REFUSED:
            return False
        except (DatabaseError, InterfaceError):
            raise
        except Exception:
            # Such as a class that reads an argument of the path: the call will tell.
            return True
        return True
