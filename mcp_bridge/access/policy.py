"""The decision whether a caller may see and call a tool."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, Final, Literal, TypeVar, cast
from urllib.parse import urljoin

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
from mcp_bridge.features import AnyFeature, Client, Context, Feature
from mcp_bridge.outbound.addresses import network_of
from mcp_bridge.protocol import LATEST, CallToolResult, Revision, errors
from mcp_bridge.protocol.logs import get_logger
from mcp_bridge.registry.registry import registry

logger = get_logger("mcp_bridge.access")

T = TypeVar("T")

# The default of ACCESS_POLICY.
DEFAULT_POLICY: Final = "mcp_bridge.access.AccessPolicy"

# The parts of a rule, in the order in which they are checked.
Need = Literal["authenticated", "active", "groups", "permissions", "scopes", "predicate"]
# Why a caller may not use a served tool: a part of its rule, or the site's policy.
Refusal = Need | Literal["policy"]


def lacking(user: object, permissions: Iterable[str]) -> Iterator[str]:
    """Yield the permissions that the user lacks."""
    granted = permissions_of(user)
    return (name for name in permissions if not granted.issuperset((name,)))


def unmet(tool: Feature, context: Context) -> Need | None:
    """Return the first part of a tool's rule that the caller does not meet, or None."""
    any(_met([tool], context))
    need: Need | None = context.scratch[tool.access]
    return need


def _met(features: Iterable[AnyFeature], context: Context) -> Iterator[AnyFeature]:
    """Yield the features whose rule the caller meets; each rule is checked once per request."""
    user, decided = context.user, context.scratch
    # Resolved lazily: each of 1,000 tools may have its own rule.
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
                # If the user can grant more scopes, the call itself reports the missing ones.
                if need is None and rule.scopes and not could_be_granted(context.auth):
                    need = "scopes" if missing_scopes(rule.scopes, context.auth) else None
            if need is None and rule.predicate is not None:
                try:
                    need = None if rule.predicate(context) else "predicate"
                except Exception:
                    text = "An access predicate raised an exception; access is denied"
                    logger.warning(text, exc_info=True)
                    need = "predicate"
            decided[rule] = need
        if decided[rule] is None:
            yield feature


def _once(context: Context, read: Callable[[Any], T]) -> T:
    """Return ``read`` of the caller, computed once per request."""
    scratch = context.scratch
    if read not in scratch:
        scratch[read] = read(context.user)
    value: T = scratch[read]
    return value


def read_caller(context: Context, needs: Container[str]) -> None:
    """Load the caller's groups and permissions, so that refusals take as many queries."""
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
    """Return the kind and key of the caller: a user, else a credential, else an address."""
    user = context.user
    if user is not None and user.is_authenticated and user.pk is not None:
        return "user", str(user.pk)
    if context.auth is not None:
        return "credential", identify(context.auth)
    return "address", get_ident(context.request)


def identify(auth: object) -> str:
    """Return a stable identifier of a credential that does not reveal it."""
    kind, key = type(auth), getattr(auth, "pk", None)
    # The default text of an object contains its memory address, which changes.
    unnamed = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
    known = key if key is not None else "" if unnamed else auth
    return f"{kind.__qualname__} {hashlib.sha256(str(known).encode()).hexdigest()}"


def may_discover(context: Context) -> bool:
    """Return whether the caller may list tools, by DISCOVERY_PERMISSION."""
    name = conf.DISCOVERY_PERMISSION
    return name is None or _once(context, permissions_of).issuperset((name,))


def check_scopes(tool: Feature, context: Context) -> None:
    """Raise InsufficientScopeError if the caller's credential lacks scopes of the tool."""
    scopes = tool.access.scopes
    if missing := missing_scopes(scopes, context.auth):
        text = (
            f"Nothing was run: {tool.name} requires the scopes {' '.join(scopes)}, and the "
            f"credential lacks {' '.join(missing)}. The user can grant them by reconnecting."
        )
        request, error = context.request, "insufficient_scope"
        challenge = bearer_challenge(request, error=error, scopes=scopes)
        raise errors.InsufficientScopeError(text, challenge, CallToolResult.error(text))


class AccessPolicy:
    """
    A tool is allowed for an authenticated, active user who has all of its permissions.

    If the tool has groups, the user must be in one of them, and the source's predicate must pass;
    a public tool needs only the predicate. To change the rule, for lists and calls alike, override
    ``allows()`` in a subclass and name it in ACCESS_POLICY.
    """

    # Anonymous callers and open tools do not cause queries.
    @never_blocks
    def allows(self, feature: Feature, context: Context) -> bool:
        """Return whether the caller may see and call a feature, such as a tool."""
        return any(_met([feature], context))

    @never_blocks
    def filter(self, features: Iterable[AnyFeature], context: Context) -> Iterator[AnyFeature]:
        """Return the allowed features, in their order."""
        if type(self).allows is not AccessPolicy.allows:
            return (each for each in features if self.allows(each, context))
        return _met(features, context)


def is_limited(auth: object) -> bool:
    """Return whether a credential allows only some features, by ``opened_by``."""
    named = getattr(auth, "allowed_tools", None)
    return named is not None or bool(getattr(auth, "read_only", False))


def opened_by(auth: object, features: Iterable[AnyFeature]) -> Iterable[AnyFeature]:
    """
    Return the features that a credential allows: all, or those in its ``allowed_tools``.

    ``allowed_tools`` is a string of labels separated by spaces, or any container of labels: names
    of tools, and "prompt:review". With ``read_only`` it allows only those that change nothing.
    """
    # Checked outside the policy, so that a site's policy cannot widen a credential.
    if getattr(auth, "read_only", False):
        features = [each for each in features if each.is_read_only]
    named = getattr(auth, "allowed_tools", None)
    if named is None:
        return features
    names = named.split() if isinstance(named, str) else named
    return [each for each in features if each.label in names]


def may_use(policy: AccessPolicy, feature: Feature | None, context: Context) -> bool:
    """Return whether the credential and a policy allow the caller a feature, if there is one."""
    return (
        feature is not None
        and any(opened_by(context.auth, [feature]))
        and policy.allows(feature, context)
    )


def load_policy() -> AccessPolicy:
    """Return an instance of the policy that ACCESS_POLICY names."""
    policy: AccessPolicy = imported(conf.ACCESS_POLICY)()
    return policy


def has_own_policy() -> bool:
    """Return whether ACCESS_POLICY is not the default."""
    return imported(conf.ACCESS_POLICY) is not AccessPolicy


def served_host() -> str:
    """Return a host that ALLOWED_HOSTS accepts, or "localhost" if it does not name one."""
    # The host of Django's test runner first, domains with subdomains last.
    hosts = sorted(settings.ALLOWED_HOSTS, key=lambda host: (host != "testserver", host[:1] == "."))
    named = (host.removeprefix(".").lower() for host in hosts)
    return next(
        (host for host in named if host and split_domain_port(host)[0] == host), "localhost"
    )


class LocalRequest(HttpRequest):
    """A request without headers and session; URLs are those of RESOURCE, or paths."""

    def __init__(self) -> None:
        super().__init__()
        # For code that reads the host, such as django.contrib.sites.
        self.META |= {"SERVER_NAME": served_host(), "SERVER_PORT": "80"}

    def build_absolute_uri(self, location: str | None = None) -> str:
        return urljoin(conf.RESOURCE or "", location or self.get_full_path())


def context_for(
    user: AbstractBaseUser | AnonymousUser,
    *,
    revision: Revision = LATEST,
    client: Client = Client(),  # noqa: B008
) -> Context:
    """Return the context of calls by a user in this process, as from a command."""
    # Access predicates and django-modern-rpc procedures receive a request.
    request, language = LocalRequest(), get_language() or ""
    request.method, request.user = "POST", cast("User", user)
    return Context(user=user, request=request, revision=revision, client=client, language=language)


def refusals(features: Iterable[Feature], context: Context) -> dict[str, Refusal | None]:
    """Return by label why the caller may not use each feature; None if it is allowed."""
    features = list(features)
    allowed = {each.label for each in load_policy().filter(features, context)}
    return {
        each.label: None if each.label in allowed else unmet(each, context) or "policy"
        for each in features
    }


def visible(user: AbstractBaseUser | AnonymousUser) -> list[Feature]:
    """Return the features, tools first, that a user may use without a session or address."""
    return list(load_policy().filter(registry.snapshot.by_label.values(), context_for(user)))
