"""
What is known of callers, kept in this process for PRINCIPAL_MAX_AGE seconds.

Nothing is kept unless that is set. What is kept never changes: whoever takes it makes objects of
their own of it. A change of a user, a group, a permission or a token in this process drops it at
once, by the signals that Django sends; ``QuerySet.update()`` sends none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from itertools import chain
from threading import Lock
from time import monotonic
from typing import Any, Final, NamedTuple

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.contrib.auth.signals import user_logged_out
from django.contrib.contenttypes.models import ContentType
from django.core.signals import setting_changed
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.models import Model
from django.db.models.signals import ModelSignal, m2m_changed, post_delete, post_save

from mcp_bridge.conf import conf

MOST_KEPT: Final = 2_000


class Reading(NamedTuple):
    """That something is being read: since when, and before which change."""

    since: float
    change: object


class Principals:
    """A bounded cache by key of what was read of callers, the one used last kept longest."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        # Another object after each change.
        self._change = object()
        self._watched: set[type[Model]] = set()
        self._connected: list[tuple[ModelSignal, type[Any]]] = []

    def get(self, key: Hashable) -> Any:
        """Return what is kept under a key, if it is young enough, or None."""
        max_age = conf.PRINCIPAL_MAX_AGE
        if not max_age:
            return None
        with self._lock:
            since, value = self._kept.get(key, (None, None))
            if since is None or monotonic() - since >= max_age:
                return None
            self._kept.move_to_end(key)
            return value

    def read(self, alias: str, *models: type[Model]) -> Reading | None:
        """
        Return what ``keep`` takes, before reading objects of the models from a database.

        None where nothing is kept: a transaction may see what is never committed.
        """
        if not conf.PRINCIPAL_MAX_AGE:
            return None
        connection = connections[alias]
        if connection.in_atomic_block or not connection.settings_dict["AUTOCOMMIT"]:
            return None
        self._watch(models)
        return Reading(monotonic(), self._change)

    def keep(self, key: Hashable, value: Any, reading: Reading | None) -> None:
        """Keep what was read, unless something has changed since."""
        if reading is None:
            return
        with self._lock:
            if reading.change is self._change:
                self._kept[key] = (reading.since, value)
                self._kept.move_to_end(key)
                while len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)

    def drop(self, key: Hashable) -> None:
        """Keep one thing no longer."""
        with self._lock:
            self._kept.pop(key, None)

    def clear(self, **kwargs: object) -> None:
        """Keep nothing of what was read until now. Receives signals."""
        with self._lock:
            self._change = object()
            self._kept.clear()

    def _changed(self, *, using: str = DEFAULT_DB_ALIAS, **kwargs: object) -> None:
        """Drop what is kept, now and when the change is committed. Receives signals of models."""
        self.clear()
        # Until then, others may read what was before.
        if connections[using].in_atomic_block:
            transaction.on_commit(self.clear, using=using)

    def unwatch(self, **kwargs: object) -> None:
        """Keep nothing, and listen to no model. Receives the signal that settings have changed."""
        while self._connected:
            signal, sender = self._connected.pop()
            signal.disconnect(sender=sender, dispatch_uid=self)
        self._watched = set()
        self.clear()

    def _watch(self, models: Iterable[type[Model]]) -> None:
        """Have changes of the models, and of users and their rights, drop what is kept."""
        # Only now: with a receiver for it, Django has to load what it deletes.
        if self._watched and self._watched.issuperset(models):
            return
        ours: tuple[type[Any], ...] = (get_user_model(), Group, Permission, ContentType)
        watched = self._watched.union(models, ours)
        # The signals of a proxy or a subclass are its own.
        senders: list[type[Any]] = [
            model
            for model in apps.get_models(include_auto_created=True)
            if issubclass(model, tuple(watched))
        ]
        joining = list(_relations())
        for signal, all_senders in (
            (post_save, senders + joining),
            (post_delete, senders + joining),
            (m2m_changed, joining),
        ):
            for sender in all_senders:
                signal.connect(self._changed, sender=sender, dispatch_uid=self)
                self._connected.append((signal, sender))
        user_logged_out.connect(self.clear, dispatch_uid=self)
        self._watched = watched


def _relations() -> Iterator[type[Any]]:
    """Return the tables that join users, groups and permissions, and users with others."""
    for field in chain(get_user_model()._meta.many_to_many, Group._meta.many_to_many):
        # Every relation has such a table once the models are loaded.
        yield field.remote_field.through  # type: ignore[misc]


principals = Principals()
# Only tests change settings while a process runs.
setting_changed.connect(principals.unwatch, dispatch_uid="mcp_bridge.principals")
