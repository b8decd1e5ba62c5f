"""Mail addresses and public IP addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from itertools import chain

from jprep.corpus.normalizers.pii.match import Match, after

_AT = re.compile(r"[@(\[](?:(?<=@)|(?:at|At|AT|アットマーク)[)\]])")
_LOCAL_PART = re.compile(
    r"(?<![A-Za-z0-9._%+\-])"
    r"(?:(?=[._%+\-]{0,8}[A-Za-z0-9])[A-Za-z0-9._%+\-][A-Za-z0-9._%+'\-]{0,63}|\"[^\s\"]{1,62}\") ?$"
)
_DOMAIN = re.compile(
    r" ?(?:[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?(?:\.| ?[(\[]dot[)\]] ?)){1,8}[A-Za-z]{2,24}"
    r"(?![A-Za-z0-9@]|\.[A-Za-z0-9]|:(?:[A-Za-z/~]|[0-9]{2,5}(?![0-9時分月日])))",  # a path or port: no mail address
    re.IGNORECASE,
)
_SERVICE = re.compile(
    r"(?:git|hg|svn|ssh)@|[^@]*@(?:[0-9]+x\.(?:png|jpe?g|webp|gif|svg)|(?:[0-9]+\.){2,8}[a-z]+)$", re.IGNORECASE
)


def mail_addresses(text: str) -> Iterator[Match]:
    """Yield mail addresses, also written with (at)."""
    done = 0
    for at in _AT.finditer(text):
        local = after(text, at.start(), _LOCAL_PART, 68)
        domain = _DOMAIN.match(text, at.end()) if local else None
        if local and domain:
            start = at.start() - len(local[0])
            if start >= done and not _SERVICE.match(text, start, domain.end()):
                yield Match(start, domain.end())
                done = domain.end()


_IP4 = re.compile(r"\.[0-9]{1,3}\.[0-9]{1,3}(?![0-9A-Za-z]|\.[0-9])")
_IP4_BEFORE = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}$")
_IP6 = re.compile(r"[23][0-9A-Fa-f]{3}(?::[0-9A-Fa-f]{0,4}){2,7}(?![0-9A-Za-z:])")
_INSIDE = re.compile(r"[0-9A-Za-z.\-](?<![^A-Za-z]IP)$|(?<![A-Za-z])[0-9A-Fa-f]{1,4}:$|::$")
_VERSION = re.compile(r"(?:\bEC|version|ver\.?|バージョン|第|版|v|節|章|項|§) ?$", re.IGNORECASE)


def ip_addresses(text: str) -> Iterator[Match]:
    """Yield public addresses of IPv4 and IPv6. Private, reserved and documentation addresses identify nobody."""
    for start, end in chain(_four_numbers(text), _groups(text)):
        address = text[start:end]
        if _is_public(address) and not _is_outline(address) and not _is_other(text, start):
            yield Match(start, end)


def _four_numbers(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of four numbers with dots between; from the last two, as dots are rarer than digits."""
    for found in _IP4.finditer(text):
        if before := after(text, found.start(), _IP4_BEFORE, 7):
            yield found.start() - len(before[0]), found.end()


def _groups(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of what may be an address of IPv6."""
    if text.count(":") > 1:
        yield from (found.span() for found in _IP6.finditer(text))


def _is_other(text: str, start: int) -> bool:
    return bool(after(text, start, _INSIDE, 6) or after(text, start, _VERSION, 10))


def _is_public(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return parsed.is_global and not parsed.is_multicast


def _is_outline(address: str) -> bool:
    """Return whether four numbers rather count sections or versions: each of them is below 32."""
    return ":" not in address and all(int(part) < 32 for part in address.split("."))
