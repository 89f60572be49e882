"""Connections to a gRPC service: one a process, and what is sent beside each call."""

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

# gRPC over HTTP/2, "Requests", "Custom-Metadata"; what begins with grpc- is gRPC's own.
_KEY: Final = re.compile(r"(?!grpc-)[0-9a-z_.-]+")
_VALUE: Final = re.compile(r"[ -~]*")
# What stands before the addresses of a target (gRPC Name Resolution).
_SCHEME: Final = re.compile(r"(?:dns:(?:///)?|ipv4:|ipv6:)?")
_ADDRESS: Final = re.compile(r"\[(?P<ipv6>[^\]]*)\](?::\d+)?|(?P<host>[^:]*)(?::\w+)?|(?P<bare>.*)")


class ServiceChannel:
    """
    A channel to a target, made when it is first used, and anew in a process that was forked.

    It is closed with the process, or when nothing refers to it any more.
    """

    def __init__(self, target: str, credentials: Callable[[], Any] | None, max_bytes: int) -> None:
        self._target = target
        self._credentials = credentials
        self._options: list[tuple[str, Any]] = [("grpc.max_receive_message_length", max_bytes)]
        # By process: the channel of a parent is never touched, since its threads are not here.
        self._channels: dict[int, grpc.Channel] = {}
        weakref.finalize(self, _close, self._channels)

    def get(self) -> grpc.Channel:
        """Return the channel of this process."""
        pid = os.getpid()
        if pid not in self._channels:
            if self._credentials is None:
                # A proxy that the environment names would read along.
                options = [*self._options, ("grpc.enable_http_proxy", 0)]
                made = grpc.insecure_channel(self._target, options)
            else:
                made = grpc.secure_channel(self._target, self._credentials(), self._options)
            # Without a lock, which a fork might leave locked for ever.
            if self._channels.setdefault(pid, made) is not made:
                made.close()
        return self._channels[pid]


def _close(channels: dict[int, grpc.Channel]) -> None:
    channel = channels.pop(os.getpid(), None)
    if channel is not None:
        channel.close()


def is_local(target: str) -> bool:
    """Return whether a target is this machine, so that nobody reads along without TLS."""
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
    Return what a site's function gives to be sent beside a call.

    Raises ValueError, without the value, for what gRPC cannot send, and for the very credential of
    the caller (check_credential).
    """
    checked = []
    for key, value in pairs:
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise ValueError(f"the key {key!r} of its metadata is not of 0-9 a-z _ . and -")
        is_text = isinstance(value, str) and _VALUE.fullmatch(value)
        if not (isinstance(value, bytes) if key.endswith("-bin") else is_text):
            raise ValueError(
                f"the value of {key!r} in its metadata is not a string of ASCII that shows: give "
                "other text as bytes, under a key that ends in -bin (and under such a key only)"
            )
        check_credential(call, key, value)
        checked.append((key, value))
    return checked
