"""Channels to a gRPC service, one for each process, and the metadata of calls."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Any, Final

import grpc

from mcp_bridge.features import ToolCall
from mcp_bridge.sources.secrets import check_credential

# gRPC over HTTP/2, "Requests", "Custom-Metadata"; the prefix grpc- is reserved.
_KEY: Final = re.compile(r"(?!grpc-)[0-9a-z_.-]+")
_VALUE: Final = re.compile(r"[ -~]*")
# The scheme before the addresses of a target (gRPC Name Resolution).
_SCHEME: Final = re.compile(r"(?:dns:(?:///)?|ipv4:|ipv6:)?")
_ADDRESS: Final = re.compile(r"\[(?P<ipv6>[^\]]*)\](?::\d+)?|(?P<host>[^:]*)(?::\w+)?|(?P<bare>.*)")


class ServiceChannel:
    """
    A channel to a target, created on first use, and again in a forked process.

    It is closed with the process, or when it is no longer referenced.
    """

    def __init__(self, target: str, credentials: Callable[[], Any] | None, max_bytes: int) -> None:
        self._target = target
        self._credentials = credentials
        self._options: list[tuple[str, Any]] = [("grpc.max_receive_message_length", max_bytes)]
        # By process id: the parent's channel must not be used, since its threads are not forked.
        self._channels: dict[int, grpc.Channel] = {}
        weakref.finalize(self, _close, self._channels)

    def get(self) -> grpc.Channel:
        """Return the channel of this process."""
        pid = os.getpid()
        if pid not in self._channels:
            if self._credentials is None:
                # A proxy from the environment could read the traffic.
                options = [*self._options, ("grpc.enable_http_proxy", 0)]
                made = grpc.insecure_channel(self._target, options)
            else:
                made = grpc.secure_channel(self._target, self._credentials(), self._options)
            # Without a lock, which a fork could leave locked forever.
            if self._channels.setdefault(pid, made) is not made:
                made.close()
        return self._channels[pid]


def _close(channels: dict[int, grpc.Channel]) -> None:
    channel = channels.pop(os.getpid(), None)
    if channel is not None:
        channel.close()


def is_local(target: str) -> bool:
    """Return whether a target is this machine, so that TLS is not needed."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    addresses = target[_SCHEME.match(target).end() :].split(",")  # type: ignore[union-attr]
    found = (_ADDRESS.fullmatch(each).groupdict("") for each in addresses)  # type: ignore[union-attr]
    hosts = (each["ipv6"] or each["host"] or each["bare"] for each in found)
    try:
        return all(each == "localhost" or ip_address(each).is_loopback for each in hosts)
    except ValueError:
        return False


def checked_metadata(pairs: Iterable[tuple[str, str | bytes]], call: ToolCall) -> list[Any]:
    """
    Return the metadata of a call from the site's function, after checking it.

    Raises ValueError, without the value, for metadata that gRPC cannot send, and for the caller's
    own credential (check_credential).
    """
    checked = []
    for key, value in pairs:
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise ValueError(f"the metadata key {key!r} must consist of 0-9 a-z _ . and -")
        is_text = isinstance(value, str) and _VALUE.fullmatch(value)
        if not (isinstance(value, bytes) if key.endswith("-bin") else is_text):
            raise ValueError(
                f"the metadata value of {key!r} is not printable ASCII: send other text as bytes "
                "under a key that ends in -bin, and use bytes only for such keys"
            )
        check_credential(call.context, key, value)
        checked.append((key, value))
    return checked
