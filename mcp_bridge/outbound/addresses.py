"""Addresses: the network of a caller, and those that secrets and connections may go to."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias
from urllib.parse import urlsplit

Address: TypeAlias = IPv4Address | IPv6Address

# Other names of this machine may lead elsewhere.
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
# Addresses of IPv4 in the last four bytes (RFC 6052).
_NAT64: Final = IPv6Network("64:ff9b::/96")


def network_of(address: str) -> str:
    """
    Return the network that counts as one caller: an IPv4 address or an IPv6 /64 (RFC 6177).

    An IPv4 address inside IPv6 (``::ffff:192.0.2.1``) is unwrapped, and a port is left out; other
    text is unchanged.
    """
    if address.startswith("["):
        address = address[1:].partition("]")[0]
    elif "." in address and address.count(":") == 1:
        address = address.partition(":")[0]
    if ":" not in address:
        return address
    try:
        number = IPv6Address(address)
    except ValueError:
        return address
    return str(number.ipv4_mapped or IPv6Address(int(number) >> 64 << 64))


def is_https_or_loopback(url: str) -> bool:
    """Return whether nobody on the way reads what is sent to an address."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    return (parts.scheme == "https" and bool(host)) or (parts.scheme == "http" and host in LOOPBACK)


def is_redirect_uri(uri: str) -> bool:
    """Return whether clients may register an address: every parser reads one host and port."""
    try:
        parts = urlsplit(uri)
        has_port = parts.port != 0
    except ValueError:
        return False
    # Some parsers decode a character in the host, such as "@".
    return has_port and not {"@", "%"} & {*parts.netloc} and is_https_or_loopback(uri)


def is_global(text: str) -> bool:
    """
    Return whether an address is one of the public internet, and all that it holds are.

    For addresses that somebody else names. Raises ValueError for what is no address.
    """
    return all(each.is_global and not each.is_multicast for each in _meant(text))


def is_host(text: str) -> bool:
    """
    Return whether an address is that of a host, of a private network or of the internet.

    For addresses that the site itself names: those of its own networks are meant. The ones of the
    link alone, at which clouds give away credentials, never are. Raises ValueError for no address.
    """
    # IPv6 calls reserved what has no use yet, and the loopback address as well.
    return not any(
        (each.is_link_local or each.is_multicast or each.is_unspecified)
        or (each.is_reserved and not (each.is_loopback or each.is_global))
        for each in _meant(text)
    )


def _meant(text: str) -> Iterator[Address]:
    """Yield an address, and those of IPv4 that stand in it."""
    # Without the name of an interface, which is no part of the address.
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64:
            inner.append(IPv4Address(address.packed[-4:]))
        embedded = [each for each in inner if each is not None]
        yield from embedded
        if address.ipv4_mapped is not None or address in _NAT64:
            # Nothing but another way to write that one.
            return
    yield address
