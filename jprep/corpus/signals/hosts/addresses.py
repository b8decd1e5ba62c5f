"""Hosts and paths of addresses in one form, so that an address and an entry of a list can be compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

MAX_HOST = 253
"""Characters of a host name, by RFC 1035."""

_SCHEME = re.compile(r"\A[a-z][a-z0-9+.-]*://|\A//")
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?\Z|\[[0-9a-f:.]+\]\Z")
_PORT = re.compile(r":\d*\Z")


class Address(NamedTuple):
    """An address without scheme, user, port, query and fragment, in lower case.

    Attributes:
        host: the host, international names as `xn--…`; "" if there is none.
        path: what follows it, from its slash on, or "".
    """

    host: str
    path: str


def parse_address(text: str) -> Address:
    """Return the host and the path of an address, or of an entry of a list, which has no scheme."""
    rest = re.split("[?#]", _SCHEME.sub("", text.strip().lower()), maxsplit=1)[0].replace("\\", "/")
    authority, slash, path = rest.partition("/")
    host = _PORT.sub("", authority.rpartition("@")[2]).rstrip(".")
    return Address(_ascii(host), slash + unquote(path).lower().rstrip("/") if path else "")


def _ascii(host: str) -> str:
    """Return a host in ASCII; "" if it cannot be one."""
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii").lower()
        except UnicodeError:
            return ""
    return host if _HOST.match(host) and ".." not in host and len(host) <= MAX_HOST else ""


def _weights() -> NDArray[np.uint64]:
    """Return a random odd number for each place of a host, the same on every machine."""
    state = np.arange(1, MAX_HOST + 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return (state ^ (state >> np.uint64(31))) | np.uint64(1)


_WEIGHTS = _weights()


def hash_hosts(hosts: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return a hash of each host, shape [hosts], uint64.

    Multilinear hashing of the characters from the end: a host hashes to one of 2^57 values at least, so that the odds
    of a wrong hit on a list of ten million are below one in a billion for an address with up to ten labels.
    """
    return suffix_hashes(hosts)[2][_firsts(hosts)] if hosts else np.zeros(0, np.uint64)


def suffix_hashes(hosts: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.uint64]]:
    """Return the hashes of all endings of some hosts, each at most `MAX_HOST` characters long.

    Returns:
        for each character of the joined hosts: the index of its host, whether a domain begins there, and the hash of
        what begins there.
    """
    lengths = np.fromiter(map(len, hosts), np.int64, len(hosts))
    codes = np.frombuffer(b"".join(hosts), np.uint8)
    ends = np.cumsum(lengths)
    host_of = np.repeat(np.arange(len(hosts)), lengths)
    products = (codes.astype(np.uint64) + np.uint64(1)) * _WEIGHTS[ends[host_of] - 1 - np.arange(len(codes))]
    # Sums from the end of each host: sums from the end of all, less what follows the host.
    sums = np.zeros(len(codes) + 1, np.uint64)
    sums[:-1] = np.cumsum(products[::-1], dtype=np.uint64)[::-1]
    begins = np.ones(len(codes), bool)
    begins[1:] = (codes[:-1] == ord(".")) | (host_of[1:] != host_of[:-1])
    return host_of, begins, sums[:-1] - sums[ends[host_of]]


def _firsts(hosts: Sequence[bytes]) -> NDArray[np.int64]:
    lengths = np.fromiter(map(len, hosts), np.int64, len(hosts))
    return np.cumsum(lengths) - lengths
