"""Judge addresses: the network of a caller, and allowed targets of secrets and connections."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias
from urllib.parse import urlsplit

Address: TypeAlias = IPv4Address | IPv6Address

# Other names of this machine may resolve elsewhere.
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
# The last four bytes are an IPv4 address (RFC 6052; RFC 4291, section 2.5.5.1).
_NAT64: Final = IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = IPv6Network("::/96")
# Not on the public internet, or not hosts there, though some versions of Python say so: networks
# of the IANA registries of special addresses, site-local ones, and the host of Azure's machines.
_LOCAL: Final = tuple(
    map(
        ip_network,
        (
            *("64:ff9b:1::/48", "fec0::/10", "::ffff:0:0:0/96", "3fff::/20", "5f00::/16"),
            *("100:0:0:1::/64", "192.88.99.0/24", "168.63.129.16/32"),
        ),
    )
)
# The third quarter of an address with an IPv4 address in the last one (RFC 5214).
_ISATAP: Final = (0x00005EFE, 0x02005EFE)


def network_of(address: str) -> str:
    """
    Return the network that counts as one caller: an IPv4 address or an IPv6 /64 (RFC 6177).

    An IPv4-mapped address (``::ffff:192.0.2.1``) is unwrapped and a port is removed; other text is
    returned unchanged.
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
    """Return whether data sent to a URL cannot be read in transit."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    return (parts.scheme == "https" and bool(host)) or (parts.scheme == "http" and host in LOOPBACK)


def is_redirect_uri(uri: str) -> bool:
    """Return whether clients may register a URI: all parsers must agree on its host and port."""
    try:
        parts = urlsplit(uri)
        has_port = parts.port != 0
    except ValueError:
        return False
    # Some parsers decode a character in the host, such as "@".
    return has_port and not {"@", "%"} & {*parts.netloc} and is_https_or_loopback(uri)


def is_global(text: str) -> bool:
    """
    Return whether an address, and any IPv4 address embedded in it, is on the public internet.

    For addresses from outside the site. Raises ValueError if it is not an address.
    """
    return all(
        each.is_global and not each.is_multicast and not any(each in local for local in _LOCAL)
        for each in _meant(text)
    )


def is_host(text: str) -> bool:
    """
    Return whether an address is that of a host, in a private network or on the internet.

    For addresses that the site configures, which may be private. Link-local ones, where clouds
    serve credentials, are refused. Raises ValueError if it is not an address.
    """
    # In IPv6, unassigned addresses and the loopback address are reserved too.
    return not any(
        (each.is_link_local or each.is_multicast or each.is_unspecified)
        or (each.is_reserved and not (each.is_loopback or each.is_global))
        for each in _meant(text)
    )


def _meant(text: str) -> Iterator[Address]:
    """Yield an address and the IPv4 addresses embedded in it."""
    # Without the interface name, which is not part of the address.
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        is_isatap = int(address) >> 32 & 0xFFFFFFFF in _ISATAP
        if is_isatap or address in _NAT64 or address in _COMPATIBLE and int(address) > 1:
            inner.append(IPv4Address(address.packed[-4:]))
        yield from (each for each in inner if each is not None)
        if address.ipv4_mapped is not None or address in _NAT64:
            # Only another spelling of the IPv4 address.
            return
    yield address
