"""Who may see and call a tool: one decision for both."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from django.http import HttpRequest
from django.utils.module_loading import import_string

from mcp_bridge.conf import conf
from mcp_bridge.features.context import Context
from mcp_bridge.features.tools import AccessRule, Tool
from mcp_bridge.protocol import LATEST
from mcp_bridge.registry.registry import registry

logger = logging.getLogger("mcp_bridge.access")

# Where a context keeps the groups of its user.
_GROUPS: Final = object()


class AccessPolicy:
    """
    A tool is allowed for an authenticated, active user who has its permissions.

    All of them, and the source's own predicate must pass as well; a public tool needs only the
    predicate. Where the site's owner has limited the tool to groups, the user must be in one.
    Subclass, override ``allows()``, and name the subclass in ACCESS_POLICY for a rule of your own:
    the same answer decides what is listed and what is called.
    """

    def allows(self, tool: Tool, context: Context) -> bool:
        """Whether the caller may see and call the tool."""
        decided = context.scratch.get(tool.access)
        if decided is None:
            decided = context.scratch[tool.access] = self.grants(tool.access, context)
        return bool(decided)

    def grants(self, rule: AccessRule, context: Context) -> bool:
        """Whether the caller meets the rule. A predicate that raises is a no, and is logged."""
        if not rule.public and not self._is_permitted(rule, context):
            return False
        if rule.predicate is None:
            return True
        try:
            return bool(rule.predicate(context))
        except Exception:
            logger.warning("An access predicate raised, which counts as a no", exc_info=True)
            return False

    def filter(self, tools: Iterable[Tool], context: Context) -> Iterator[Tool]:
        """Those of the tools that are allowed, in their order."""
        return (tool for tool in tools if self.allows(tool, context))

    def _is_permitted(self, rule: AccessRule, context: Context) -> bool:
        user = context.user
        if user is None or not user.is_authenticated or not user.is_active:
            return False
        if rule.groups is not None and rule.groups.isdisjoint(self._groups(context)):
            return False
        return not rule.permissions or bool(user.has_perms(rule.permissions))

    def _groups(self, context: Context) -> frozenset[Any]:
        """The groups of the caller, asked for once a request; a user model may have none."""
        known = context.scratch.get(_GROUPS)
        if known is None:
            groups = getattr(context.user, "groups", None)
            keys = () if groups is None else groups.values_list("pk", flat=True)
            known = context.scratch[_GROUPS] = frozenset(keys)
        return cast("frozenset[Any]", known)


def load_policy() -> AccessPolicy:
    """Make the policy that the setting ACCESS_POLICY names."""
    policy: AccessPolicy = import_string(conf.ACCESS_POLICY)()
    return policy


def visible(user: Any) -> list[Tool]:
    """
    Return the tools that a user may see and call, in the order of their names.

    Predicates that ask the request for more than its user (a session, an address) find none.
    """
    request = HttpRequest()
    request.method = "POST"
    request.user = user
    context = Context(user=user, request=request, revision=LATEST)
    return list(load_policy().filter(registry.snapshot, context))
