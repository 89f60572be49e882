"""What the commands have in common: they tell who forgot to migrate."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connections, router
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Model


class TablesCommand(BaseCommand):
    """
    A command that reads or writes the tables of this app.

    Raises CommandError instead of a DatabaseError where migrations were not run; other errors of
    the database stay as they are.
    """

    def execute(self, *args: Any, **options: Any) -> Any:
        try:
            return super().execute(*args, **options)
        except DatabaseError as exception:
            if not _is_behind():
                raise
            raise CommandError(
                f"The database has not all tables of this site ({exception}): run `manage.py "
                "migrate` first."
            ) from exception


def _is_behind() -> bool:
    """Whether a migration of this app, of its tokens or of users has not been run."""
    models: list[type[Model]] = [get_user_model()]
    for label in ("mcp_bridge", "mcp_bridge_tokens"):
        if label in apps.app_configs:
            models += apps.get_app_config(label).get_models()
    wanted = {(router.db_for_write(model), model._meta.app_label) for model in models}
    try:
        return any(_has_plan(alias, label) for alias, label in wanted)
    except DatabaseError:
        # Something else is wrong with it.
        return False


def _has_plan(alias: str, label: str) -> bool:
    executor = MigrationExecutor(connections[alias])
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes(label)))
