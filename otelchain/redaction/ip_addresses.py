"""Public IP addresses: they lead to a person, so the default policy takes them out.

An address of a private network, of the machine itself or of a group (RFC 1918, 3927, 4193, 4291,
5735, 6598, netmasks included) leads to nobody outside and is what errors are understood by: it
stays. What documentation uses (RFC 5737, 3849) counts as public, because it stands for that.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from functools import lru_cache

from otelchain.redaction.rules import Match, Rule, Span

_KEPT = [
    ipaddress.ip_network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.168.0.0/16", "224.0.0.0/3"),
    )
]
# 1.2.3.4 is a version after these, 64.5.6.7 too
_VERSION_BEFORE = re.compile(
    r"(?i)(?:\bv|\bver\.?|version|release|build|\brev\.?|revision|firmware|driver|upgrade to|"
    r"update to|section|chapter|clause|appendix|版本|章节?|バージョン|버전|версия|§|"
    r"[=~<>!^]=|\^|~|@|\b(?:chrome|chromium|crios|edge?|edga?|opr|opera|safari|firefox|electron|vivaldi|brave|"
    r"yabrowser|samsungbrowser|headlesschrome|whale|ucbrowser)/|[a-z]-)[\"'\s:=]{0,4}\Z"
)
_IN_NUMBERS_BEFORE = re.compile(r"[0-9A-Za-z_.]\Z|[0-9]-\Z", re.ASCII)
_IN_NUMBERS_AFTER = re.compile(r"\.?[0-9A-Za-z_]|-[a-z]|\+[0-9a-z]", re.ASCII)
# 1.2.3.4 alone may be anything; beside these, with a port or a prefix length it is an address
_ADDRESS_BEFORE = re.compile(
    r"(?i)(?:\bip(?:v4)?|addr\w*|address|host|client|server|peer|remote|gateway|router|dns|"
    r"nameserver|from|ping|connect(?:ed)? to|://|forwarded-for|地址|アドレス|адрес)\W{0,4}\Z"
)
_ADDRESS_AFTER = re.compile(r":[0-9]{2,5}\b|/[0-9]{1,2}\b")
_CONTEXT_CHARS = 24


@lru_cache(maxsize=4096)
def is_public_ipv4(value: str) -> bool:
    """Tell an address that somebody outside can be found by.

    >>> is_public_ipv4("203.0.113.7"), is_public_ipv4("192.168.0.7"), is_public_ipv4("300.1.1.1")
    (True, False, False)
    """
    try:
        address = ipaddress.IPv4Address(value)
    except ValueError:
        return False
    return not any(address in network for network in _KEPT)


@lru_cache(maxsize=4096)
def is_public_ipv6(value: str) -> bool:
    """Tell a global unicast address (RFC 4291, 2000::/3).

    >>> is_public_ipv6("2001:db8::7"), is_public_ipv6("fe80::7"), is_public_ipv6("2026:11:30")
    (True, False, False)
    """
    try:
        return ipaddress.IPv6Address(value) in _GLOBAL_UNICAST
    except ValueError:
        return False


_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")


def find_ipv4(match: Match) -> Iterator[Span]:
    """Find a public address that is no version, section or object identifier."""
    text, start, end = match.string, match.start(), match.end()
    before, after = text[max(0, start - _CONTEXT_CHARS) : start], text[end : end + 6]
    if _IN_NUMBERS_BEFORE.search(before) or _IN_NUMBERS_AFTER.match(after):
        return
    value = text[start:end]
    if not is_public_ipv4(value):
        return
    is_named = _ADDRESS_BEFORE.search(before) or _ADDRESS_AFTER.match(after)
    is_small = all(len(octet) == 1 for octet in value.split("."))
    if is_named or not (is_small or _VERSION_BEFORE.search(before)):
        yield Span(start, end)


def find_ipv6(match: Match) -> Iterator[Span]:
    """Find a public address; a colon behind it is the sentence's, and its zone is not told."""
    text, start, end = match.string, match.start(), match.end()
    if text[start - 1 : start] in {":", "."}:
        return
    value = match.group()
    if not value.endswith("::"):
        value = value.rstrip(":")
    end = start + len(value)
    if is_public_ipv6(value) and not re.match(r"[0-9A-Za-z_]", text[end : end + 1], re.ASCII):
        yield Span(start, end)


IP_RULES = [
    Rule("ipv4", "ip", r"\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b", find_ipv4),
    Rule(
        "ipv6",
        "ip",
        r"\b[23][0-9A-Fa-f]{3}(?::[0-9A-Fa-f]{0,4}){2,7}",
        find_ipv6,
        canonical=lambda value: ipaddress.IPv6Address(value).compressed,
    ),
]
