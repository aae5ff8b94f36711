"""Which network addresses are public, so that a URL may be fetched from them."""

from __future__ import annotations

import ipaddress

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
# Not left to the standard library alone: its lists grew between the Python versions we support.
_NEVER = tuple(
    ipaddress.ip_network(network)
    for network in (
        "100.64.0.0/10",  # shared by providers' customers (CGNAT)
        "192.0.0.0/24",  # protocol assignments
        "192.88.99.0/24",  # old 6to4 relays
        "198.18.0.0/15",  # benchmarks
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)


def is_public(text: str) -> bool:
    """Tell whether an IP address in text form is reachable for everybody on the internet.

    An IPv6 address that carries an IPv4 address (mapped, 6to4, NAT64) is judged by that one.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        carried = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            carried = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if carried is None and (address.scope_id or address not in _GLOBAL_UNICAST):
            return False
        address = carried or address
    return (
        address.is_global
        and not (address.is_multicast or address.is_reserved)
        and not any(address.version == net.version and address in net for net in _NEVER)
    )
