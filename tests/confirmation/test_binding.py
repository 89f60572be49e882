"""Which spellings of a call are the same one, for the yes of a person and for the no."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from django.utils import timezone
from pydantic import (
    BaseModel,
    Field,
    PlainValidator,
    PrivateAttr,
    SecretStr,
    model_validator,
)

from mcp_bridge.models import PendingCall
from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.support.confirming import RUNS, YES, call, refused, state_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("wiping")]


def keep(value: Any, more: int = 0) -> None:
    """Keep a value."""
    RUNS.append(value)


@pytest.mark.parametrize(
    ("sent", "other"),
    [
        (1, True),
        (0, False),
        (1, [0, "1", 0]),
        (None, {}),
        ("1", 1),
        ("caf\u00e9", "cafe\u0301"),
        ("\ufb01", "fi"),
        ("a", "a "),
        (["a", "b"], ["b", "a"]),
        ({"a": 1}, {"a": 1, "b": None}),
        (10**30, 10**30 + 1),
    ],
)
def test_what_only_looks_equal_is_another_call(
    sent: Any, other: Any, asker: CheckedClient, settings: Any
) -> None:
    serve(settings, keep, confirm=True)
    state = state_of(asker, name="keep", arguments={"value": sent})
    assert "another call" in refused(asker, state, name="keep", arguments={"value": other})


class Kind(Enum):
    PAPER = "paper"


UNSET: Any = object()


@dataclass(frozen=True)
class Size:
    width: Decimal
    unit: str = "cm"


class Letter(BaseModel):
    text: str
    copies: int = 1


def send(
    count: int = 1,
    price: float = 2,
    cost: Decimal = Decimal("1.50"),
    at: datetime = datetime(2026, 7, 28, 12, tzinfo=UTC),
    kind: Kind = Kind.PAPER,
    sizes: frozenset[Size] = frozenset(),
    letter: Letter | None = None,
    word: SecretStr | None = None,
    value: Any = None,
    most: Decimal = Decimal("Infinity"),
    choice: Literal["a", "b"] | None = None,
    cover: Literal[Kind.PAPER] = Kind.PAPER,
    note: str = UNSET,
    letters: list[Letter] | None = None,
) -> None:
    """Send a letter."""
    RUNS.append("sent")


SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"count": 1}),
    ({}, {"count": 1.0, "price": 2, "cost": "1.5", "sizes": []}),
    ({}, {"at": "2026-07-28T14:00:00+02:00", "cost": 1.5, "price": 2.0, "value": None}),
    ({"at": "2026-07-28T12:00:00Z"}, {"at": "2026-07-28T12:00:00.000+00:00"}),
    ({"letter": {"text": "a", "copies": 1}}, {"letter": {"copies": 1, "text": "a"}, "count": 1}),
    ({"value": "a", "choice": "a"}, {"choice": "a", "value": "a", "count": 1}),
    ({"letter": {"text": "a", "copies": 2}}, {"letter": {"copies": 2.0, "text": "\u0061"}}),
    (
        {"sizes": [{"width": 1}, {"width": 2}]},
        {"sizes": [{"width": "2.0", "unit": "cm"}, {"width": 1.0}]},
    ),
    (
        {"value": {"b": [1e2], "a": {"d": "é", "c": 1}}},
        {"value": {"a": {"c": 1, "d": "é"}, "b": [100.0]}},
    ),
    ({"value": [1, 0.0]}, {"value": [1.0, -0.0]}),
    ({"value": [0, 100, -7]}, {"value": [0.0, 1e2, -7.0]}),
    ({"value": [10**17, 10**18, 10**30]}, {"value": [1e17, 1e18, 1e30]}),
    ({"value": [-(10**18), 999_999_999_999_999_999]}, {"value": [-1e18, 999_999_999_999_999_999]}),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_call_in_another_spelling_is_the_same_call(
    one: Any, other: Any, asker: CheckedClient, user: Any, settings: Any
) -> None:
    serve(settings, send, confirm=True)
    state = state_of(asker, name="send", arguments=one)
    call(CheckedClient(user=user), "send", arguments=one)
    PendingCall.objects.get().decide(using="default", status="refused", reason="Never.")
    # A no holds against each of its spellings, and in the form as well.
    for params in ({}, {"inputResponses": YES, "requestState": state}):
        assert "The reason: Never." in text_of(call(asker, "send", arguments=other, **params))
    assert RUNS == []
    PendingCall.objects.all().delete()
    state = state_of(asker, name="send", arguments=one)
    answer = {"inputResponses": YES, "requestState": state}
    assert not call(asker, "send", arguments=other, **answer)["isError"]
    assert RUNS == ["sent"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"count": 2}),
        ({}, {"most": 0}),
        ({}, {"note": "object"}),
        ({"value": ["0"]}, {"value": 0}),
        ({"value": 7.0}, {"value": -7.0}),
        ({"value": 10**18}, {"value": 10**18 + 1}),
        ({"value": 1e30}, {"value": 1e-30}),
        ({}, {"cost": "1.51"}),
        ({}, {"cost": "15.0"}),
        ({}, {"at": "2026-07-28T12:00:00.000001Z"}),
        ({}, {"value": "None"}),
        ({"word": "a"}, {"word": "b"}),
        ({"letter": {"text": "a"}}, {"letter": {"text": "a", "copies": 2}}),
        ({"letter": {"text": "a"}}, {"letter": {"text": "b"}}),
        ({"sizes": [{"width": 1}]}, {"sizes": [{"width": 1, "unit": "m"}]}),
    ],
)
def test_what_the_tool_would_receive_otherwise_is_another_call(
    one: Any, other: Any, asker: CheckedClient, settings: Any
) -> None:
    serve(settings, send, confirm=True)
    state = state_of(asker, name="send", arguments=one)
    assert "another call" in refused(asker, state, name="send", arguments=other)


def test_a_schema_by_hand_says_nothing_of_what_the_tool_receives(
    asker: CheckedClient, settings: Any
) -> None:
    members = {"value": {}, "more": {"type": "integer", "default": 5}}
    serve(settings, keep, confirm=True, input_schema={"type": "object", "properties": members})
    state = state_of(asker, name="keep", arguments={"value": 1})
    another = {"value": 1, "more": 5}
    assert "another call" in refused(asker, state, name="keep", arguments=another)
    same = {"value": 1, "more": 0}
    answer = {"inputResponses": YES, "requestState": state}
    assert not call(asker, "keep", arguments=same, **answer)["isError"]


class Parcel(BaseModel):
    width: Decimal
    at: datetime = datetime(2026, 7, 28, 12, tzinfo=UTC)
    inner: Letter | None = None
    tags: set[str] = set()


class Numbered(Letter):
    """A letter whose default is another one each time."""

    number: int = Field(default_factory=time.perf_counter_ns)


class Kept(Letter):
    """A letter that keeps what was sent beside its fields."""

    _sent: str = PrivateAttr(default="")

    @model_validator(mode="wrap")
    @classmethod
    def keep(cls, value: Any, handler: Any) -> Any:
        made = handler(value)
        made._sent = value.get("beside", "")
        return made


class Strange:
    """What only the site's own code can compare."""

    def __init__(self, value: str) -> None:
        self.value = value


class Tagged(BaseModel):
    tag: Annotated[Strange, PlainValidator(Strange)]
    copies: int = 1


def post(
    letter: Letter | None = None,
    letters: list[Letter] | None = None,
    either: Letter | Parcel | None = None,
    mixed: list[Letter | Parcel] | None = None,
    named: dict[str, Letter] | None = None,
    parcel: Parcel | None = None,
    numbered: Numbered | None = None,
    first: Letter = Letter(text="a"),  # noqa: B008
    strange: Annotated[Strange, PlainValidator(Strange)] | None = None,
    word: SecretStr | None = None,
    kept: Kept | None = None,
    tagged: list[Tagged] | None = None,
) -> None:
    """Post letters, as far as they are given."""
    RUNS.append("sent")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"letter": {"text": "a"}}, {"letter": {"text": "a", "copies": 1}}),
        ({"letters": [{"text": "a"}]}, {"letters": [{"text": "a", "copies": 1}]}),
        ({"either": {"text": "a"}}, {"either": {"text": "a", "copies": 1}}),
        ({"mixed": [{"text": "a"}]}, {"mixed": [{"copies": 1.0, "text": "a"}]}),
        ({"named": {"x": {"text": "a"}}}, {"named": {"x": {"text": "a", "copies": 1}}}),
        ({"parcel": {"width": "1.1"}}, {"parcel": {"width": "1.10", "inner": None}}),
        ({"parcel": {"width": 1}}, {"parcel": {"width": 1, "at": "2026-07-28T14:00:00+02:00"}}),
        (
            {"parcel": {"width": 1, "tags": ["a", "b"]}},
            {"parcel": {"width": 1, "tags": ["b", "a"]}},
        ),
        ({"parcel": {"width": 1}}, {"parcel": {"width": 1, "unknown": "ignored"}}),
        ({"numbered": {"text": "a"}}, {"numbered": {"text": "a", "copies": 1}}),
        ({}, {"first": {"text": "a"}}),
        ({"first": {"text": "a"}}, {"first": {"text": "a", "copies": 1}}),
        ({"strange": "a"}, {"strange": "a", "letter": None}),
        ({"kept": {"text": "a"}}, {"kept": {"text": "a", "copies": 1}}),
        ({"tagged": [{"tag": "a"}]}, {"tagged": [{"tag": "a", "copies": 1}]}),
    ],
)
def test_a_no_holds_for_each_spelling_of_an_object_and_a_yes_for_that_which_was_shown(
    one: Any, other: Any, asker: CheckedClient, user: Any, settings: Any
) -> None:
    serve(settings, post, confirm=True)
    queue = CheckedClient(user=user)
    state = state_of(asker, name="post", arguments=one)
    # A tool can tell a default that was sent from one that was not: of a change, it sets a value.
    assert "another call" in refused(asker, state, name="post", arguments=other)
    call(queue, "post", arguments=one)
    PendingCall.objects.get().decide(using="default", status="approved")
    assert "The call waits" in text_of(call(queue, "post", arguments=other))
    shown = PendingCall.objects.filter(status="waiting")
    assert shown.get().decide(using="default", status="refused", reason="Never.")
    # Of two people who decide otherwise, the no counts.
    state = state_of(asker, name="post", arguments={**one, "word": "another"})
    for arguments in (one, other):
        assert "The reason: Never." in text_of(call(queue, "post", arguments=arguments))
    assert RUNS == []
    # Another call is none of it.
    arguments = {**one, "word": "another"}
    answer = {"inputResponses": YES, "requestState": state}
    assert not call(asker, "post", arguments=arguments, **answer)["isError"]
    assert RUNS == ["sent"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"either": {"text": "a"}}, {"either": {"width": 1}}),
        ({"mixed": [{"text": "a"}, {"width": 1}]}, {"mixed": [{"width": 1}, {"text": "a"}]}),
        ({"named": {"x": {"text": "a"}}}, {"named": {"y": {"text": "a"}}}),
        ({"parcel": {"width": "1.1"}}, {"parcel": {"width": "1.11"}}),
        ({"strange": "a"}, {"strange": "b"}),
        ({"kept": {"text": "a", "beside": "a"}}, {"kept": {"text": "a", "beside": "b"}}),
        ({"tagged": [{"tag": "a"}]}, {"tagged": [{"tag": "b"}]}),
        ({"word": "a"}, {"word": "b"}),
        ({"letter": {"text": "1"}}, {"letters": [{"text": "1"}]}),
    ],
)
def test_a_no_is_not_for_another_call(one: Any, other: Any, user: Any, settings: Any) -> None:
    serve(settings, post, confirm=True)
    client = CheckedClient(user=user)
    call(client, "post", arguments=one)
    PendingCall.objects.get().decide(using="default", status="refused", reason="Never.")
    assert "The call waits" in text_of(call(client, "post", arguments=other))


@pytest.mark.parametrize("which", ["older", "newer"])
def test_a_no_to_one_spelling_counts_before_a_yes_to_another_one(
    which: str, user: Any, settings: Any
) -> None:
    serve(settings, post, confirm=True)
    client = CheckedClient(user=user)
    for copies in ({}, {"copies": 1}):
        call(client, "post", arguments={"letter": {"text": "a", **copies}})
        row = PendingCall.objects.get(status="waiting")
        # Both wait before anybody decides.
        PendingCall.objects.filter(pk=row.pk).update(status="done")
    rows = dict(zip(("older", "newer"), PendingCall.objects.order_by("pk"), strict=True))
    PendingCall.objects.update(decided_at=timezone.now(), status="approved")
    PendingCall.objects.filter(pk=rows[which].pk).update(status="refused", reason="Never.")
    for copies in ({}, {"copies": 1}):
        result = call(client, "post", arguments={"letter": {"text": "a", **copies}})
        assert "The reason: Never." in text_of(result)
    assert RUNS == []


def test_a_no_to_a_tool_with_a_schema_by_hand_is_to_what_was_sent(user: Any, settings: Any) -> None:
    members = {"value": {}, "more": {"type": "integer", "default": 5}}
    serve(settings, keep, confirm=True, input_schema={"type": "object", "properties": members})
    client = CheckedClient(user=user)
    call(client, "keep", arguments={"value": 1})
    PendingCall.objects.get().decide(using="default", status="refused", reason="Never.")
    # The default of the schema is not the function's.
    assert "The call waits" in text_of(call(client, "keep", arguments={"value": 1, "more": 5}))
