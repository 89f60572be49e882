"""Fetch the tools of remote servers into rows, and verify that a server can be reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from django.db import router, transaction
from django.utils import timezone

from mcp_bridge.models import Generation
from mcp_bridge.outbound.client import OutboundError
from mcp_bridge.protocol import jsonrpc, without_unprintable
from mcp_bridge.protocol.text import cut
from mcp_bridge.registry.registry import registry
from mcp_bridge.remote.client import Client, Exchange, RemoteError
from mcp_bridge.remote.definitions import check_definition, local_name
from mcp_bridge.remote.gateway import Gateway, Unsendable
from mcp_bridge.remote.models import RemoteServer, RemoteTool

MAX_PAGES: Final = 50
MAX_TOOLS: Final = 500
# Seconds for all pages of a list.
MAX_SECONDS: Final = 120
# The fields of a row that fetching may change.
_FETCHED: Final = ("name", "definition", "reason", "gone")


class SyncError(Exception):
    """The server cannot be used; the text is a phrase, such as "did not answer in time"."""


@dataclass(frozen=True)
class Synced:
    """The numbers of tools by what fetching them came to; ``is_whole``: none was beyond a bound."""

    offered: int
    left_out: int
    new: int
    changed: int
    gone: int
    is_whole: bool


def verify(server: RemoteServer) -> str:
    """Return what a handshake shows, as a sentence. Raises SyncError if it fails."""
    with _connected(server) as client:
        client.meet()
    info = client.info.get("serverInfo")
    name = info.get("name") if isinstance(info, Mapping) else None
    return f"It was reached: {cut(str(name or 'a server'), 100)}, MCP {client.version}."


def sync(server: RemoteServer) -> Synced:
    """
    Fetch the server's tools into rows, all or none.

    Raises SyncError, which is kept in ``last_error``, if they cannot be fetched; the rows then stay
    as they are.
    """
    using = router.db_for_write(RemoteServer)
    try:
        with _connected(server) as client:
            definitions, is_whole = _fetch(client)
    except SyncError as why:
        _note(server, using, last_error=cut(without_unprintable(str(why)), 500))
        raise
    with transaction.atomic(using):
        # Others wait here, and then see these rows.
        Generation.lock(using)
        stored = RemoteServer.objects.using(using).filter(pk=server.pk).first()
        if _identity(stored) != _identity(server):
            raise SyncError("was changed or deleted while its tools were fetched: fetch them again")
        found = _store(server, definitions, is_whole, using)
        if found.new or found.changed or found.gone or server.version != client.version:
            Generation.renew(using, Generation.SOURCES)
        _note(server, using, version=client.version, last_sync=timezone.now(), last_error="")
    return found


def _text(why: OutboundError | RemoteError, server: RemoteServer) -> str:
    """Return an error as a phrase for administrators, with why it could not connect."""
    if isinstance(why, RemoteError):
        return f"answered with an error: {cut(str(why), 300)}"
    status = getattr(why, "status", 0)
    if status in (401, 403, 407) and server.auth == server.Auth.NONE:
        return f"requires a credential or header that it was not sent (HTTP {status})"
    return f"{why} ({why.cause})" if why.cause else str(why)


def _identity(server: RemoteServer | None) -> object:
    """Return what decides which tools a server offers, and their names."""
    return server and (server.url, server.slug, server.auth, server.credential)


def _note(server: RemoteServer, using: str, **values: object) -> None:
    """Set these fields alone, in the row and in the object: others may be edited meanwhile."""
    vars(server).update(values)
    RemoteServer.objects.using(using).filter(pk=server.pk).update(**values)


@contextmanager
def _connected(server: RemoteServer) -> Iterator[Client]:
    """Yield a new client, whose session ends with this work. Raises SyncError for its errors."""
    gateway = Gateway(server, list(server.headers.all()))
    try:
        headers = gateway.headers(None)
    except Unsendable as why:
        raise SyncError(str(why)) from why
    client = gateway.client(headers)
    try:
        yield client
    except (OutboundError, RemoteError) as why:
        raise SyncError(_text(why, server)) from why
    finally:
        client.close()


def _fetch(client: Client) -> tuple[list[Mapping[str, Any]], bool]:
    """Return the definitions of all tools, and whether no bound has cut them off."""
    found: list[Mapping[str, Any]] = []
    cursor, seen = None, set[str]()
    until = monotonic() + MAX_SECONDS

    def check() -> None:
        if monotonic() > until:
            raise SyncError("did not send its list in time")

    for _ in range(MAX_PAGES):
        params: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        page = client.request(Exchange(method="tools/list", params=params, check=check))
        tools = page.get("tools")
        if not isinstance(tools, list):
            raise SyncError("answered with a list without tools")
        found += [each for each in tools if isinstance(each, dict)]
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str):
            return found[:MAX_TOOLS], len(found) <= MAX_TOOLS
        if cursor in seen or len(found) >= MAX_TOOLS:
            return found[:MAX_TOOLS], False
        seen.add(cursor)
    return found, False


def _store(
    server: RemoteServer, definitions: list[Mapping[str, Any]], is_whole: bool, using: str
) -> Synced:
    """Write the rows of the tools of a server; those beyond a bound stay as they are."""
    rows = RemoteTool.objects.using(using)
    known = {each.remote_name: each for each in rows.filter(server=server)}
    by_name = {_shown(each): each for each in definitions}
    unseen = [each for name, each in known.items() if name not in by_name and not each.gone]
    gone = unseen if is_whole else []
    for each in gone:
        each.gone, each.name = True, None
    taken = set(rows.exclude(server=server).values_list("name", flat=True))
    taken |= {each.name for each in unseen}
    taken |= {each.name for each in registry.discovered.tools.values() if not each.is_foreign}
    times = Counter(map(_shown, definitions))
    now, new, changed = timezone.now(), list[RemoteTool](), list[RemoteTool]()
    for name, definition in by_name.items():
        values = {"gone": False, **_read(server, definition, times[name] > 1, taken)}
        row = known.get(name)
        if row is None:
            new.append(RemoteTool(server=server, remote_name=name, seen_at=now, **values))
        elif any(getattr(row, each) != values[each] for each in _FETCHED):
            vars(row).update(values)
            changed.append(row)
    # A name may move from one row to another.
    rows.filter(pk__in=[each.pk for each in changed]).update(name=None)
    rows.bulk_update([*changed, *gone], _FETCHED)
    rows.bulk_create(new)
    rows.filter(server=server, remote_name__in=by_name).update(seen_at=now)
    left_out = sum(bool(each.reason) for each in [*new, *known.values()] if not each.gone)
    return Synced(
        offered=len(by_name) - left_out,
        left_out=left_out,
        new=len(new),
        changed=len(changed),
        gone=len(gone),
        is_whole=is_whole,
    )


def _shown(definition: Mapping[str, Any]) -> str:
    """Return the name of a tool as a row has it: databases refuse some characters."""
    return without_unprintable(str(definition.get("name")))[:300]


def _read(
    server: RemoteServer, definition: Mapping[str, Any], is_repeated: bool, taken: set[str | None]
) -> dict[str, Any]:
    """Return the values of a tool's row, with its name here, which is then ``taken``."""
    try:
        check_definition(definition)
        if is_repeated:
            raise ValueError("the server offers several tools of this name")
        name = local_name(server.slug, definition["name"])
        if name in taken:
            raise ValueError(f"another tool of this site has the name {name}")
        text = jsonrpc.encode(definition).decode()
    except ValueError as why:
        reason = cut(without_unprintable(str(why)), 500)
        return {"name": None, "definition": "", "reason": reason}
    taken.add(name)
    return {"name": name, "definition": text, "reason": ""}
