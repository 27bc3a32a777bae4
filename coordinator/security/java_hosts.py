"""Addresses of clients as Java writes them, and so as ACLs name them (A8)."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

REMEMBERED_HOSTS: Final = 4_096
"""Addresses whose text is kept: clients bring them, and making one takes some microseconds."""


@lru_cache(REMEMBERED_HOSTS)
def java_host(address: str) -> str:
    """Return the text of an address as Java's InetAddress has it: `::1` is `0:0:0:0:0:0:0:1`.

    An IPv4 address in IPv6's clothes is that IPv4 address. A zone stays. Raises ValueError for what is no address.
    """
    if ":" not in address:
        return address
    plain, percent, zone = address.partition("%")
    parsed = IPv6Address(plain)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    groups = (f"{int(group, 16):x}" for group in parsed.exploded.split(":"))
    return ":".join(groups) + percent + zone
