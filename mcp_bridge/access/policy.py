"""Who may see and call a tool: one decision for both."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Iterator
from typing import Final, Literal, cast

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.http import HttpRequest
from django.utils.translation import get_language

from mcp_bridge.access.permissions import Granted, groups_of, permissions_of
from mcp_bridge.access.scopes import could_be_granted, missing_scopes
from mcp_bridge.conf import conf, imported
from mcp_bridge.features import AccessRule, Client, Context, Tool
from mcp_bridge.protocol import LATEST, Revision
from mcp_bridge.registry.registry import registry

logger = logging.getLogger("mcp_bridge.access")

# What ACCESS_POLICY names where it is not set.
DEFAULT_POLICY: Final = "mcp_bridge.access.AccessPolicy"

# The keys of the user's groups and permissions in a context's scratch space.
_GROUPS: Final[Hashable] = object()
_GRANTED: Final[Hashable] = object()

# The parts of a rule, in the order in which they are asked.
Need = Literal["authenticated", "active", "groups", "permissions", "scopes", "predicate"]


def lacking(user: object, permissions: Iterable[str]) -> Iterator[str]:
    """Yield those of the permissions that the user does not have."""
    granted = permissions_of(user)
    return (name for name in permissions if not granted.issuperset((name,)))


def _granted(context: Context) -> Granted:
    """Return the permissions of the caller, which are read once a request."""
    scratch = context.scratch
    if _GRANTED not in scratch:
        # Not of a user without a credential, such as that of a session or of a command.
        may_be_kept = context.auth is not None
        scratch[_GRANTED] = permissions_of(context.user, may_be_kept=may_be_kept)
    granted: Granted = scratch[_GRANTED]
    return granted


def unmet(rule: AccessRule, context: Context) -> Need | None:
    """
    Return the first part of a rule that the caller does not meet, or None.

    A predicate that raises is not met, which is logged.
    """
    user = context.user
    if not rule.public:
        if user is None or not user.is_authenticated:
            return "authenticated"
        if not user.is_active:
            return "active"
        if rule.groups is not None:
            if _GROUPS not in context.scratch:
                context.scratch[_GROUPS] = groups_of(user)
            if rule.groups.isdisjoint(context.scratch[_GROUPS]):
                return "groups"
        if rule.permissions and not _granted(context).issuperset(rule.permissions):
            return "permissions"
        # Where its user can grant more, a call says what is missing.
        lacks_scopes = rule.scopes and missing_scopes(rule.scopes, context.auth)
        if lacks_scopes and not could_be_granted(context.auth):
            return "scopes"
    try:
        return None if rule.predicate is None or rule.predicate(context) else "predicate"
    except Exception:
        logger.warning("An access predicate raised, which counts as a no", exc_info=True)
        return "predicate"


class AccessPolicy:
    """
    A tool is allowed for an authenticated, active user who has its permissions.

    All of them, and the source's own predicate must pass as well; a public tool needs only the
    predicate. Where an administrator has limited the tool to groups, the user must be in one.
    Subclass, override ``allows()``, and name the subclass in ACCESS_POLICY for a rule of your own:
    the same answer decides what is listed and what is called.
    """

    def allows(self, tool: Tool, context: Context) -> bool:
        """Return whether the caller may see and call the tool."""
        rule, decided = tool.access, context.scratch
        if rule not in decided:
            decided[rule] = unmet(rule, context)
        return decided[rule] is None

    def filter(self, tools: Iterable[Tool], context: Context) -> Iterator[Tool]:
        """Return those of the tools that are allowed, in their order."""
        if type(self).allows is not AccessPolicy.allows:
            return (tool for tool in tools if self.allows(tool, context))
        return self._filter(tools, context)

    def _filter(self, tools: Iterable[Tool], context: Context) -> Iterator[Tool]:
        """Do the same by ``allows`` of this class, asked only of rules that need more than sets."""
        user, issuperset = context.user, None
        is_active = user is not None and user.is_authenticated and user.is_active
        for tool in tools:
            rule = tool.access
            if rule.public or rule.predicate or rule.groups is not None or rule.scopes:
                is_allowed = self.allows(tool, context)
            elif not rule.permissions or not is_active:
                is_allowed = is_active
            else:
                # A thousand tools may each have a permission of its own.
                issuperset = issuperset or _granted(context).issuperset
                is_allowed = issuperset(rule.permissions)
            if is_allowed:
                yield tool


def opened_by(auth: object, tools: Iterable[Tool]) -> Iterable[Tool]:
    """
    Return the tools that a credential opens: all, or those that its ``allowed_tools`` names.

    Asked beside the policy, so that none of the site's own widens a credential.
    """
    named = getattr(auth, "allowed_tools", None)
    return tools if named is None else [tool for tool in tools if tool.name in named]


def load_policy() -> AccessPolicy:
    """Make the policy that the setting ACCESS_POLICY names."""
    policy: AccessPolicy = imported(conf.ACCESS_POLICY)()
    return policy


def served_host() -> str:
    """Return a host that ALLOWED_HOSTS has, that of Django's test runner before others."""
    hosts = settings.ALLOWED_HOSTS
    named = [host.removeprefix(".") for host in hosts if host != "*"]
    return "testserver" if "testserver" in hosts else next(iter(named), "localhost")


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


def visible(user: AbstractBaseUser | AnonymousUser) -> list[Tool]:
    """
    Return the tools that a user may see and call, in the order of their names.

    A predicate that reads more of the request than its user (a session, an address) finds none.
    """
    return list(load_policy().filter(registry.snapshot, context_for(user)))
