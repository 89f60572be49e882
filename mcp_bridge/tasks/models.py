"""The tasks: each row is the truth about its task, and the queue only runs it."""

from __future__ import annotations

import json
import secrets
from datetime import UTC, timedelta
from typing import Any, Final

import django
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models, router
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcp_bridge.features import Feature
from mcp_bridge.models.users import optional_user
from mcp_bridge.registry.fingerprints import canonical_definition, fingerprint

# The package of tasks (django.tasks, built in since Django 6.0), and the queue of its backend.
PACKAGE: Final = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"
QUEUE: Final = "mcp"
# Seconds between two signs of life of a worker, and without one until its task has failed.
HEARTBEAT: Final = 30
DEAD: Final = 300
# The milliseconds after which clients should ask again.
POLL: Final = 1000
# The statuses of tasks that are not over.
_OPEN: Final = ("working", "input_required")


def new_id() -> str:
    """Return an unguessable identifier of 24 random bytes, which commands take: without dashes."""
    return secrets.token_urlsafe(24).replace("-", "_")


class TaskKey(models.CharField[Any, Any]):
    """The key of a task. No task has one with NUL, which PostgreSQL refuses."""

    def get_prep_value(self, value: Any) -> Any:
        return str(value).replace("\0", "\ufffd")


class JSONText(models.TextField[Any, Any]):
    """A JSON value as ASCII text: databases refuse some texts that JSON has, such as NUL."""

    _pyi_private_set_type: Any

    def from_db_value(self, value: str | None, *others: object) -> Any:
        return None if value is None else json.loads(value)

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else json.dumps(value, cls=DjangoJSONEncoder)


class McpTask(models.Model):
    """
    A call that runs in a worker.

    ``caller`` is its owner (access.policy.caller_of). ``arguments`` are kept until it is over, as
    the client sent them. ``origin`` is what the worker has of the request (tasks.origins).
    ``questions`` are the requests to the client by key, ``answers`` the responses by the tool's own
    keys, ``tool_state`` the tool's state between its runs. ``pending_call`` is the approval that it
    waits for. ``result`` is a CallToolResult, ``error`` a JSON-RPC error. ``record`` is the key of
    the record of its last run.
    """

    # Results have up to MAX_RESULT_BYTES.
    LARGE = ("arguments", "answers", "origin", "questions", "result", "tool_state")

    class Status(models.TextChoices):
        WORKING = "working", _("working")
        INPUT_REQUIRED = "input_required", _("input required")
        COMPLETED = "completed", _("completed")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    id = TaskKey(primary_key=True, max_length=32, default=new_id, editable=False)
    caller = models.CharField(max_length=160, editable=False)
    user = optional_user(_("user"))
    tool = models.CharField(_("tool"), max_length=128)
    fingerprint = models.CharField(max_length=64, editable=False)
    arguments = JSONText(_("arguments"), null=True)
    origin = JSONText(default=dict, editable=False)
    status = models.CharField(
        _("status"), max_length=16, choices=Status.choices, default=Status.WORKING, db_index=True
    )
    message = models.CharField(_("message"), max_length=500, blank=True)
    questions = JSONText(default=dict, editable=False)
    answers = JSONText(default=dict, editable=False)
    tool_state = JSONText(null=True, editable=False)
    round = models.PositiveIntegerField(default=1, editable=False)
    confirmed_at = models.DateTimeField(_("confirmed"), null=True)
    pending_call = models.ForeignKey(
        "mcp_bridge.PendingCall",
        models.SET_NULL,
        verbose_name=_("pending call"),
        related_name="+",
        null=True,
        db_constraint=False,
    )
    result = JSONText(_("result"), null=True)
    is_error = models.BooleanField(default=False, editable=False)
    error = JSONText(_("error"), null=True)
    record = models.UUIDField(null=True, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now)
    updated_at = models.DateTimeField(_("changed"), default=timezone.now)
    # When it was given to the queue: a held call is so once a person has decided.
    queued_at = models.DateTimeField(null=True, editable=False)
    # When a worker began its run, and gave its last sign of life.
    started_at = models.DateTimeField(_("started"), null=True)
    seen_at = models.DateTimeField(_("last heartbeat"), null=True)
    expires_at = models.DateTimeField(_("expires"), db_index=True)

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        ordering = ["-created_at", "-pk"]
        default_permissions = ("view", "change")
        indexes = [models.Index(fields=["caller", "status"], name="mcp_task_caller")]

    def __str__(self) -> str:
        return f"{self.tool} ({self.pk[:6]}…)"

    @classmethod
    def rows(cls) -> models.QuerySet[McpTask]:
        """Return all tasks, in the database for writes."""
        return cls._default_manager.using(router.db_for_write(cls))

    @classmethod
    def open(cls) -> Q:
        """Return the condition that a task is not over."""
        return Q(status__in=_OPEN, expires_at__gt=timezone.now())

    @classmethod
    def running(cls) -> Q:
        """Return the condition that a worker runs a task."""
        return Q(status=cls.Status.WORKING, started_at__isnull=False)

    @classmethod
    def waiting(cls) -> models.QuerySet[McpTask]:
        """Return the tasks that have waited for a worker since ``updated_at``."""
        rows = cls.rows().filter(cls.open(), status=cls.Status.WORKING, started_at=None)
        return rows.filter(queued_at__isnull=False)

    @property
    def is_over(self) -> bool:
        """Whether it will not change any more."""
        return self.status not in _OPEN

    @property
    def is_expired(self) -> bool:
        """Whether its time to live has passed."""
        return self.expires_at <= timezone.now()

    @property
    def is_dead(self) -> bool:
        """Whether its worker has died."""
        silent = timezone.now() - timedelta(seconds=DEAD)
        is_running = self.status == self.Status.WORKING and self.started_at is not None
        return is_running and self.seen_at is not None and self.seen_at < silent

    @property
    def is_lost(self) -> bool:
        """Whether it has been in the queue for DEAD seconds; queued again, it still runs once."""
        if self.status != self.Status.WORKING or self.started_at or self.queued_at is None:
            return False
        return max(self.queued_at, self.updated_at) < timezone.now() - timedelta(seconds=DEAD)

    @property
    def members(self) -> dict[str, Any]:
        """The members that every result about the task has (MCP's extension Tasks, ``Task``)."""
        found: dict[str, Any] = {
            "taskId": self.pk,
            "status": self.status,
            "createdAt": self.created_at.astimezone(UTC).isoformat(),
            "lastUpdatedAt": self.updated_at.astimezone(UTC).isoformat(),
            "ttlMs": (self.expires_at - self.created_at) // timedelta(milliseconds=1),
            "pollIntervalMs": POLL,
        }
        return found | ({"statusMessage": self.message} if self.message else {})

    @property
    def details(self) -> dict[str, Any]:
        """Its members, with its result, its error or its questions (``DetailedTask``)."""
        found = self.members
        match self.status:
            case self.Status.COMPLETED:
                found["result"] = self.result
            case self.Status.FAILED:
                found["error"] = self.error
            case self.Status.INPUT_REQUIRED:
                found["inputRequests"] = self.questions
        return found

    def is_of(self, tool: Feature | None) -> bool:
        """Return whether a tool still has the definition that was called."""
        return tool is not None and fingerprint(canonical_definition(tool)) == self.fingerprint

    def become(self, status: str, condition: Q | None = None, **values: Any) -> bool:
        """
        Save a status and other values, by column, if a condition holds; return whether it did.

        By default the task must not be over. A task that is over keeps nothing of the request.
        """
        rows = McpTask.rows().filter(McpTask.open() if condition is None else condition, pk=self.pk)
        values |= {"status": status, "updated_at": timezone.now()}
        values["is_error"] = bool((values.get("result") or {}).get("isError"))
        if status not in _OPEN:
            values |= {"arguments": None, "origin": {}, "tool_state": None}
            values |= {"answers": {}, "questions": {}}
        is_saved = bool(rows.update(**values))
        if is_saved:
            for name, value in values.items():
                setattr(self, name, value)
        return is_saved
