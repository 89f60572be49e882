"""System checks of remote servers: the settings, and rows that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from django.core import checks
from django.db import DatabaseError, router

from mcp_bridge.checks.settings import check_settings
from mcp_bridge.conf import DOCUMENTATION, conf, imported
from mcp_bridge.remote.encryption import SecretUnavailable, cipher_of, opened
from mcp_bridge.remote.models import RemoteHeader, RemoteServer

_KEY = (
    'Make one with: python -c "from cryptography.fernet import Fernet; '
    'print(Fernet.generate_key().decode())". Put a new key first, and keep the old ones.'
)
_TOKEN_FOR = "Set the dotted path of a function that takes a user and a remote server."


def check_remote(**options: Any) -> Sequence[checks.CheckMessage]:
    """Check the packages and settings of remote servers."""
    missing = [name for name in ("httpcore2", "cryptography") if find_spec(name) is None]
    if missing:
        text = f"mcp_bridge.remote requires packages that are missing: {', '.join(missing)}."
        hint = 'Run pip install "django-mcp-bridge[remote]".'
        return [checks.Error(text, hint=hint, id="mcp_bridge.E100")]
    if check_settings():
        return []
    found: list[checks.CheckMessage] = []
    if conf.REMOTE_SECRET_KEYS:
        try:
            cipher_of(conf.REMOTE_SECRET_KEYS)
        except (TypeError, ValueError):
            text = "MCP_BRIDGE['REMOTE_SECRET_KEYS'] has a key that is not a Fernet key."
            found.append(checks.Error(text, hint=_KEY, id="mcp_bridge.E101"))
    if conf.REMOTE_TOKEN_FOR is not None:
        try:
            imported(conf.REMOTE_TOKEN_FOR)
        except Exception as why:
            text = f"MCP_BRIDGE['REMOTE_TOKEN_FOR'] cannot be imported: {why}."
            found.append(checks.Error(text, hint=_TOKEN_FOR, id="mcp_bridge.E102"))
    return found


def check_remote_rows(**options: Any) -> Sequence[checks.CheckMessage]:
    """Check the rows of remote servers: their secrets, and the way of their credentials."""
    if check_settings():
        return []
    found: list[checks.CheckMessage] = []
    using = router.db_for_write(RemoteServer)
    try:
        servers = list(RemoteServer.objects.using(using).filter(enabled=True))
        headers = list(RemoteHeader.objects.using(using).filter(is_secret=True, server__in=servers))
    except DatabaseError:
        # Reported by the checks of tables.
        return []
    secrets = [(each.slug, "its credential", each.credential) for each in servers]
    secrets += [(each.server.slug, f"its header {each.name}", each.value) for each in headers]
    for slug, what, stored in secrets:
        if not stored:
            continue
        try:
            opened(stored)
        except SecretUnavailable as why:
            text = f"The remote server {slug!r} cannot be used: {what}: {why}."
            hint = "Enter it again in the admin, or restore the key or the variable."
            found.append(checks.Warning(text, hint=hint, id="mcp_bridge.W100"))
    for each in servers:
        if each.auth == RemoteServer.Auth.PASSTHROUGH:
            found.append(
                checks.Warning(
                    f"The remote server {each.slug!r} receives the callers' own tokens.",
                    hint="It can act on this site as each caller. Choose another credential unless "
                    "both are one service "
                    f"({DOCUMENTATION}sources/remote/#credentials).",
                    id="mcp_bridge.W101",
                )
            )
        elif each.auth == RemoteServer.Auth.PER_USER and conf.REMOTE_TOKEN_FOR is None:
            text = f"The remote server {each.slug!r} needs MCP_BRIDGE['REMOTE_TOKEN_FOR']."
            found.append(checks.Warning(text, hint=_TOKEN_FOR, id="mcp_bridge.W102"))
    return found
