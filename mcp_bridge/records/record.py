"""A record before it becomes a row, also as a log line from which it can be restored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from random import getrandbits
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.core.signing import BadSignature, Signer

from mcp_bridge.models.keys import TAIL_BITS, uuid7
from mcp_bridge.protocol import without_unprintable

# The member of a logged record that holds its signature, and the salt of the signature.
SIGNATURE: Final = "signature"
_SALT: Final = "mcp_bridge.records.lost"


# Returns the random part of a new row's key.
new_tail: Final = partial(getrandbits, TAIL_BITS)


class Caller(NamedTuple):
    """The caller and client of a call: the user's key, and texts."""

    user_id: Any = None
    user_name: str = ""
    credential: str = ""
    client_name: str = ""
    client_version: str = ""
    revision: str = ""
    remote_address: str = ""


class Began(NamedTuple):
    """
    The part of a record that is known when a call starts or is refused.

    ``started`` is in microseconds since 1970; with ``tail`` it makes the row's key, so that the row
    can be written again. Texts are cut, but not yet cleaned.
    """

    started: int
    tail: int
    tool: str
    caller: Caller
    arguments_bytes: int | None = None
    arguments: str = ""
    pending_call_id: Any = None
    kind: str = "tool"


class Record(NamedTuple):
    """The values of a row; ``is_begun`` says that the row may exist already."""

    began: Began
    outcome: str
    error_code: str = ""
    duration_ms: float | None = None
    result_bytes: int | None = None
    reference: str = ""
    error_text: str = ""
    invalid_arguments: str = ""
    times: int = 1
    upstream: str = ""
    upstream_status: str = ""
    is_begun: bool = False

    @property
    def key(self) -> UUID:
        """The primary key of the row."""
        return uuid7(self.began.started, self.began.tail)

    def values(self) -> tuple[Any, ...]:
        """Return the values in the order of COLUMNS; texts are on one line and printable."""
        seconds, zone = self.began.started / 1e6, UTC if settings.USE_TZ else None
        user_id = self.began.caller.user_id
        return self.key, datetime.fromtimestamp(seconds, zone), user_id, *self.others()

    def others(self) -> tuple[Any, ...]:
        """Return the values except the first three, which depend on the database."""
        began, texts = self.began, _texts(self.began.caller)
        # Plain strings: some drivers do not accept enum members.
        ended = self.outcome[:], self.error_code[:], *self[3:11]
        return printable(began.tool), *texts, *began[4:], *ended


# The columns in the order of a record's values, and the index of the first that changes.
COLUMNS: Final = (
    *("id", "started_at", "user_id", "tool", *Caller._fields[1:]),
    *(*Began._fields[4:], *Record._fields[1:11]),
)
CHANGING: Final = COLUMNS.index("outcome")


def printable(text: str) -> str:
    """Return a text on one line, without characters that hide or reverse what follows."""
    # Most texts are printable ASCII and need no call.
    return text if text.isascii() and text.isprintable() else without_unprintable(text)


@lru_cache(maxsize=256)
def _texts(caller: Caller) -> tuple[str, ...]:
    return tuple(map(printable, caller[1:]))


def as_json(record: Record) -> str:
    """Return a record as one signed line of ASCII, for ``from_json``."""
    row = dict(zip(COLUMNS, record.values(), strict=True))
    return signed({**row, "started_at": datetime.fromtimestamp(record.began.started / 1e6, UTC)})


def signed(row: Mapping[str, Any]) -> str:
    """Return a JSON object with its signature as the last member."""
    text = json.dumps(row, default=str)
    signature = Signer(salt=_SALT).signature(text)
    return json.dumps({**json.loads(text), SIGNATURE: signature})


def from_json(line: str) -> Record:
    """
    Return the record in a line of ``as_json``, which may have a prefix from the log.

    Raises ValueError unless the line was signed with SECRET_KEY or a key of
    SECRET_KEY_FALLBACKS: other log lines may contain text from attackers.
    """
    try:
        row = json.loads(line[line.index("{") :])
        signature = row.pop(SIGNATURE, None)
        Signer(salt=_SALT).unsign(f"{json.dumps(row)}:{signature}")
        # Lines from versions before kinds.
        row.setdefault("kind", "tool")
        key, began = UUID(row.pop("id")), datetime.fromisoformat(row.pop("started_at"))
        started, tail = round(began.timestamp() * 1e6), key.int & (1 << TAIL_BITS) - 1
        caller = Caller(*(row.pop(name) for name in Caller._fields))
        others = (row.pop(name) for name in Began._fields[4:])
        record = Record(Began(started, tail, row.pop("tool"), caller, *others), **row)
    except RecursionError as error:
        raise ValueError("it is not readable JSON") from error
    except BadSignature as error:
        raise ValueError("it was not signed by this site") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("it does not hold a record") from error
    if record.key != key:
        raise ValueError("its key does not match its time")
    return record._replace(is_begun=True)
