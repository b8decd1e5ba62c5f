"""Mail addresses and public IP addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from jprep.corpus.normalizers.pii.match import Match, after

_MAIL = re.compile(
    r"(?<![A-Za-z0-9._%+\-])(?:[A-Za-z0-9][A-Za-z0-9._%+'\-]{0,63}|\"[^\s\"]{1,62}\")"
    r" ?(?:@|[(\[](?:at|アットマーク)[)\]]) ?"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?(?:\.| ?[(\[]dot[)\]] ?)){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9@:])",
    re.IGNORECASE,
)
_SERVICE = re.compile(r"(?:git|hg|svn|ssh)@|[^@]*@[0-9]+x\.png$", re.IGNORECASE)


def mail_addresses(text: str) -> Iterator[Match]:
    """Yield mail addresses, also written with (at)."""
    if "@" in text or "at)" in text or "at]" in text or "AT" in text or "アットマーク" in text:
        for found in _MAIL.finditer(text):
            if not _SERVICE.match(found[0]):
                yield Match(found.start(), found.end())


_IP4 = re.compile(r"[0-9]{1,3}\.(?:[0-9]{1,3}\.){2}[0-9]{1,3}(?![0-9A-Za-z]|\.[0-9])")
_IP6 = re.compile(r"[23][0-9A-Fa-f]{3}(?::[0-9A-Fa-f]{0,4}){2,7}(?![0-9A-Za-z:])")
_INSIDE = re.compile(r"[0-9A-Za-z.\-]$|(?<![A-Za-z])[0-9A-Fa-f]{1,4}:$|::$")
_VERSION = re.compile(r"(?:\bEC|version|ver\.?|バージョン|第|版|v|節|章|項|§) ?$", re.IGNORECASE)


def ip_addresses(text: str) -> Iterator[Match]:
    """Yield public addresses of IPv4 and IPv6. Private, reserved and documentation addresses identify nobody."""
    for pattern in (_IP4, _IP6) if text.count(":") > 1 else (_IP4,):
        for found in pattern.finditer(text):
            if _is_public(found[0]) and not _is_outline(found[0]) and not _is_other(text, found.start()):
                yield Match(found.start(), found.end())


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
