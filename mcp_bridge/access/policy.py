"""Who may see and call a tool: one decision for both."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Iterator
from typing import Final, cast

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.http import HttpRequest
from django.utils.module_loading import import_string
from django.utils.translation import get_language

from mcp_bridge.conf import conf
from mcp_bridge.features import AccessRule, Client, Context, Tool
from mcp_bridge.protocol import LATEST, Revision
from mcp_bridge.registry.registry import registry

logger = logging.getLogger("mcp_bridge.access")

# The key of the user's groups in a context's scratch space.
_GROUPS: Final[Hashable] = object()


def lacking(user: object, permissions: Iterable[str]) -> Iterator[str]:
    """Yield those of the permissions that the user does not have."""
    # A user model without permissions has no has_perm(), and one of its own no has_perms().
    has_perm = getattr(user, "has_perm", None)
    return (name for name in permissions if not (has_perm and has_perm(name)))


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
        decided = context.scratch.get(tool.access)
        if decided is None:
            decided = context.scratch[tool.access] = self.grants(tool.access, context)
        return bool(decided)

    def grants(self, rule: AccessRule, context: Context) -> bool:
        """Return whether the caller meets the rule: not if a predicate raises, which is logged."""
        user = context.user
        if not rule.public:
            if user is None or not user.is_authenticated or not user.is_active:
                return False
            if rule.groups is not None:
                if _GROUPS not in context.scratch:
                    # Asked for once a request; a user model may have none.
                    groups = getattr(user, "groups", None)
                    keys = () if groups is None else groups.values_list("pk", flat=True)
                    context.scratch[_GROUPS] = frozenset(keys)
                if rule.groups.isdisjoint(context.scratch[_GROUPS]):
                    return False
            if next(lacking(user, rule.permissions), None) is not None:
                return False
        try:
            return rule.predicate is None or bool(rule.predicate(context))
        except Exception:
            logger.warning("An access predicate raised, which counts as a no", exc_info=True)
            return False

    def filter(self, tools: Iterable[Tool], context: Context) -> Iterator[Tool]:
        """Return those of the tools that are allowed, in their order."""
        return (tool for tool in tools if self.allows(tool, context))


def load_policy() -> AccessPolicy:
    """Make the policy that the setting ACCESS_POLICY names."""
    return cast("AccessPolicy", import_string(conf.ACCESS_POLICY)())


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
