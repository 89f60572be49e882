"""The transactions of one call: all that it wrote is committed with its result, or nothing is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache, partial
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from mcp_bridge.features import Tool, ToolCall
from mcp_bridge.protocol import CallToolResult

_NO_DATABASE: Final = "django.db.backends.dummy"


@lru_cache(maxsize=4096)
def may_need_transactions(tool: Tool) -> bool:
    """Return whether calls of the tool may have transactions of their own; kept for each tool."""
    read_only = tool.annotations.get("readOnlyHint", False)
    atomic = any(each["ATOMIC_REQUESTS"] for each in connections.settings.values())
    return tool.may_elicit or atomic or not read_only


class CallTransactions(ExitStack):
    """
    Transactions around a call, or savepoints where a transaction is open.

    They are in the default database for a tool that is not read-only, in those with
    ATOMIC_REQUESTS (the endpoint's views are in no transaction), and in every one that is in a
    transaction already. A tool that may ask its client has one in each other database from its
    first query there on, since what was written before the question has to be undone. The
    databases of ``Tool.non_atomic`` have none. Begin and exit them in the thread of the tool's
    queries.
    """

    def __init__(self, call: ToolCall) -> None:
        super().__init__()
        tool = call.tool
        configured = {
            alias: each
            for alias, each in connections.settings.items()
            if each["ENGINE"] != _NO_DATABASE and alias not in tool.non_atomic
        }
        self._aliases = {alias for alias, each in configured.items() if each["ATOMIC_REQUESTS"]}
        if not tool.annotations.get("readOnlyHint", False) and DEFAULT_DB_ALIAS in configured:
            self._aliases.add(DEFAULT_DB_ALIAS)
        self._on_first_query: set[str] = set()
        if tool.may_elicit and call.context.client.capabilities:
            self._on_first_query = configured.keys() - self._aliases
        self._raised_before: dict[str, BaseException | None] = {}

    @property
    def are_needed(self) -> bool:
        """Whether the call has transactions of its own."""
        return bool(self._aliases or self._on_first_query)

    def begin(self) -> None:
        """Begin those that do not wait for a first query."""
        open_now = {
            each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block
        }
        for alias in sorted(self._aliases | open_now):
            self._begin_in(alias)
        for alias in self._on_first_query - open_now:
            self.enter_context(connections[alias].execute_wrapper(partial(self._used, alias)))

    def _begin_in(self, alias: str) -> None:
        self.enter_context(transaction.atomic(using=alias))
        self._raised_before[alias] = _database_error(alias)

    def _used(self, alias: str, execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        """Begin the transaction at a first query (Django, "Database instrumentation")."""
        # A transaction that the tool itself begins is undone by a question that leaves it.
        is_own = connections[alias].in_atomic_block or sql.startswith("BEGIN")
        if alias in self._on_first_query and not is_own:
            self._on_first_query.discard(alias)
            self._begin_in(alias)
        return execute(sql, *rest)

    def settle(self, result: CallToolResult) -> None:
        """
        Decide what becomes of the transactions of a call that returned a result.

        An error result undoes what the tool wrote. Raises TransactionManagementError where an error
        of the database, which the tool has not passed on, has undone it.
        """
        for alias, before in self._raised_before.items():
            connection = connections[alias]
            if result.is_error:
                transaction.set_rollback(True, using=alias)
            elif connection.needs_rollback and _database_error(alias) not in (None, before):
                raise transaction.TransactionManagementError(
                    "The tool went on after an error of the database, which has undone all that it "
                    "wrote: what may fail belongs in a transaction.atomic() of its own, or the "
                    "tool under transaction.non_atomic_requests()."
                )
            elif not connection.savepoint_ids:
                # What on_commit() calls cannot fail a call that is committed: Django logs its
                # errors. In a savepoint the hooks are those of an outer transaction as well.
                hooks: list[Any] = connection.run_on_commit
                hooks[:] = [(*hook[:2], True) for hook in hooks]

    def finish(self, result: CallToolResult) -> CallToolResult:
        """Settle and exit them, and return the result."""
        with self:
            self.settle(result)
        return result


def _database_error(alias: str) -> BaseException | None:
    """Return the error because of which a transaction can only be rolled back, or was before."""
    error: BaseException | None = getattr(connections[alias], "rollback_exc", None)
    return error
