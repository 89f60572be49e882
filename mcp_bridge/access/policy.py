"""Who may see and call a tool: one decision for both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, Final, Literal, TypeVar, cast

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.http import HttpRequest
from django.http.request import split_domain_port
from django.utils.translation import get_language
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle

from mcp_bridge.access.permissions import groups_of, permissions_of
from mcp_bridge.access.scopes import bearer_challenge, could_be_granted, missing_scopes
from mcp_bridge.concurrency.places import never_blocks
from mcp_bridge.conf import conf, imported
from mcp_bridge.features import AnyFeature, Client, Context, Feature, Tool
from mcp_bridge.outbound.addresses import network_of
from mcp_bridge.protocol import LATEST, CallToolResult, Revision, errors
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.registry.registry import registry

logger = get_logger("mcp_bridge.access")

T = TypeVar("T")

# What ACCESS_POLICY names where it is not set.
DEFAULT_POLICY: Final = "mcp_bridge.access.AccessPolicy"

# The parts of a rule, in the order in which they are asked.
Need = Literal["authenticated", "active", "groups", "permissions", "scopes", "predicate"]
# Why a caller may not use a tool that is served: a part of its rule, or the site's own policy.
Refusal = Need | Literal["policy"]


def lacking(user: object, permissions: Iterable[str]) -> Iterator[str]:
    """Yield those of the permissions that the user does not have."""
    granted = permissions_of(user)
    return (name for name in permissions if not granted.issuperset((name,)))


def unmet(tool: Tool, context: Context) -> Need | None:
    """Return the first part of a tool's rule that the caller does not meet, or None."""
    any(_met([tool], context))
    need: Need | None = context.scratch[tool.access]
    return need


def _met(features: Iterable[AnyFeature], context: Context) -> Iterator[AnyFeature]:
    """Yield the features whose rule the caller meets; a rule is decided once a request."""
    user, decided = context.user, context.scratch
    # Looked up for the first rule that asks, since a thousand tools may each have their own.
    is_authenticated = has_all = None
    is_active = False
    for feature in features:
        rule = feature.access
        if rule not in decided:
            need: Need | None = None
            if not rule.public:
                if is_authenticated is None:
                    is_authenticated = user is not None and user.is_authenticated
                    is_active = getattr(user, "is_active", False)
                if not is_authenticated:
                    need = "authenticated"
                elif not is_active:
                    need = "active"
                elif rule.groups is not None and rule.groups.isdisjoint(_once(context, groups_of)):
                    need = "groups"
                elif rule.permissions:
                    has_all = has_all or _once(context, permissions_of).issuperset
                    need = None if has_all(rule.permissions) else "permissions"
                # Where its user can grant more, a call says what is missing.
                if need is None and rule.scopes and not could_be_granted(context.auth):
                    need = "scopes" if missing_scopes(rule.scopes, context.auth) else None
            if need is None and rule.predicate is not None:
                try:
                    need = None if rule.predicate(context) else "predicate"
                except Exception:
                    text = "An access predicate raised, which counts as a no"
                    logger.warning(text, exc_info=True)
                    need = "predicate"
            decided[rule] = need
        if decided[rule] is None:
            yield feature


def _once(context: Context, read: Callable[[Any], T]) -> T:
    """Return what a function reads of the caller, which it does once a request."""
    scratch = context.scratch
    if read not in scratch:
        scratch[read] = read(context.user)
    value: T = scratch[read]
    return value


def read_caller(context: Context, needs: Container[str]) -> None:
    """Read "groups" and "permissions" of a caller, so that no refusal takes fewer queries."""
    user = context.user
    if user is not None and user.is_authenticated and getattr(user, "is_active", False):
        if "groups" in needs:
            _once(context, groups_of)
        if "permissions" in needs:
            _once(context, permissions_of)


def address_of(request: HttpRequest | None) -> str:
    """Return the caller's network; X-Forwarded-For counts only if DRF's NUM_PROXIES is set."""
    if request is None or api_settings.NUM_PROXIES is None:
        return network_of(str(getattr(request, "META", {}).get("REMOTE_ADDR")))
    return network_of(str(BaseThrottle().get_ident(cast("Request", request))))


def caller_of(context: Context, get_ident: Callable[[Any], str] = address_of) -> tuple[str, str]:
    """Return the kind and the key of the caller: a user, or else a credential or an address."""
    user = context.user
    if user is not None and user.is_authenticated and user.pk is not None:
        return "user", str(user.pk)
    if context.auth is not None:
        return "credential", identify(context.auth)
    return "address", get_ident(context.request)


def identify(auth: object) -> str:
    """Return a stable identifier of a credential, which reveals nothing of it."""
    kind, key = type(auth), getattr(auth, "pk", None)
    # The text that Python makes of an object is its place in memory, another one each time.
    unnamed = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
    known = key if key is not None else "" if unnamed else auth
    return f"{kind.__qualname__} {hashlib.sha256(str(known).encode()).hexdigest()}"


def check_scopes(tool: Tool, context: Context) -> None:
    """Raise InsufficientScopeError where the caller's credential lacks scopes of the tool."""
    scopes = tool.access.scopes
    if missing := missing_scopes(scopes, context.auth):
        text = (
            f"Nothing was run: {tool.name} needs the scopes {' '.join(scopes)}, and the credential "
            f"was not granted {' '.join(missing)}. Its user can grant them by connecting anew."
        )
        request, error = context.request, "insufficient_scope"
        challenge = bearer_challenge(request, error=error, scopes=scopes)
        raise errors.InsufficientScopeError(text, challenge, CallToolResult.error(text))


class AccessPolicy:
    """
    A tool is allowed for an authenticated, active user who has all of its permissions.

    The user must also be in one of its groups, if it has any, and its source's predicate must pass,
    which is all that a public tool needs. For another rule, for lists and calls alike, override
    ``allows()`` in a subclass, and name that in ACCESS_POLICY.
    """

    # Of nobody, and of what is open, the database is not asked.
    @never_blocks
    def allows(self, feature: Feature, context: Context) -> bool:
        """Return whether the caller may see and call the tool, or another feature."""
        return any(_met([feature], context))

    @never_blocks
    def filter(self, features: Iterable[AnyFeature], context: Context) -> Iterator[AnyFeature]:
        """Return those of the features that are allowed, in their order."""
        if type(self).allows is not AccessPolicy.allows:
            return (each for each in features if self.allows(each, context))
        return _met(features, context)


def opened_by(auth: object, features: Iterable[AnyFeature]) -> Iterable[AnyFeature]:
    """
    Return what a credential opens: all, or the tools that its ``allowed_tools`` names.

    That is a text of names with spaces between them, or any other container of names.
    """
    # Asked beside the policy, so that none of the site's own widens a credential.
    named = getattr(auth, "allowed_tools", None)
    if named is None:
        return features
    names = named.split() if isinstance(named, str) else named
    return [each for each in features if each.kind == Tool.kind and each.name in names]


def load_policy() -> AccessPolicy:
    """Make the policy that the setting ACCESS_POLICY names."""
    policy: AccessPolicy = imported(conf.ACCESS_POLICY)()
    return policy


def has_own_policy() -> bool:
    """Return whether the site has another policy than the default one."""
    return imported(conf.ACCESS_POLICY) is not AccessPolicy


def served_host() -> str:
    """Return a host that a request may have by ALLOWED_HOSTS, or "localhost" if none is named."""
    # That of Django's test runner comes first, and a domain with its subdomains last.
    hosts = sorted(settings.ALLOWED_HOSTS, key=lambda host: (host != "testserver", host[:1] == "."))
    named = (host.removeprefix(".").lower() for host in hosts)
    return next(
        (host for host in named if host and split_domain_port(host)[0] == host), "localhost"
    )


class LocalRequest(HttpRequest):
    """A request without headers and session: addresses of this site are paths to it."""

    def __init__(self) -> None:
        super().__init__()
        # For code that asks which host was called, such as that of django.contrib.sites.
        self.META |= {"SERVER_NAME": served_host(), "SERVER_PORT": "80"}

    def build_absolute_uri(self, location: str | None = None) -> str:
        return location or self.get_full_path()


def context_for(
    user: AbstractBaseUser | AnonymousUser,
    *,
    revision: Revision = LATEST,
    client: Client = Client(),  # noqa: B008
) -> Context:
    """Return the context of calls by a user in this process, such as those of a command."""
    # Access predicates and procedures of django-modern-rpc are given one.
    request, language = LocalRequest(), get_language() or ""
    request.method, request.user = "POST", cast("User", user)
    return Context(user=user, request=request, revision=revision, client=client, language=language)


def refusals(tools: Iterable[Tool], context: Context) -> dict[str, Refusal | None]:
    """Return by name why the caller may not use each of the tools; None for one that is allowed."""
    tools = list(tools)
    allowed = {tool.name for tool in load_policy().filter(tools, context)}
    return {
        tool.name: None if tool.name in allowed else unmet(tool, context) or "policy"
        for tool in tools
    }


def visible(user: AbstractBaseUser | AnonymousUser) -> list[Tool]:
    """Return the tools, by name, that a user may see and call, with no session or address."""
    return list(load_policy().filter(registry.snapshot.tools.values(), context_for(user)))
