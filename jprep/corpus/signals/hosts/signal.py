"""The signal `hosts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.hosts.addresses import Address, parse_address, suffix_hashes
from jprep.corpus.signals.hosts.lists import HostList, ListFiles, find_list, list_category, read_lists
from jprep.corpus.step import Signal, StepConfig
from jprep.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class HostsSignal(Signal):
    """Whether the address of a document is on lists of hosts and URLs.

    Columns: for each category `listed_CATEGORY`, 1 if the document's host is one of its domains or below one, if its
    address is one of its URLs or below one, or has one of its patterns, else 0. They do not apply to a document without
    an address, which is counted.
    """

    name = "hosts"
    version = 1
    local = frozenset({"lists"})

    class Config(StepConfig, frozen=True):
        """Options of the signal `hosts`.

        Attributes:
            lists: paths of lists: folders with files `domains`, `urls` and `expressions`, or files of domains. The name
                of a folder or file is its category.
            name: category of all lists together.
        """

        lists: tuple[str, ...] = ()
        name: Annotated[str, msgspec.Meta(pattern="^([a-z][a-z0-9_]{0,63})?$")] = ""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        if not self.config.lists:
            fix = '{ use = "hosts", lists = ["blacklists/adult"] }'
            raise ConfigError("the signal needs lists", where="signal 'hosts'", fix=fix)

    @cached_property
    def _paths(self) -> dict[str, list[str]]:
        """The paths of the lists of each category."""
        paths = dict[str, list[str]]()
        for path in self.config.lists:
            paths.setdefault(self.config.name or list_category(path), []).append(path)
        return paths

    @cached_property
    def _files(self) -> dict[str, list[ListFiles]]:
        return {category: list(map(find_list, paths)) for category, paths in self._paths.items()}

    @cached_property
    def _lists(self) -> dict[str, HostList]:
        return {category: read_lists(found) for category, found in self._files.items()}

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return tuple(f"listed_{category}" for category in self._paths)

    def provenance(self) -> dict[str, str]:
        """Return the hash of each list."""
        return {
            f"{category}.{place}": each.digest()
            for category, found in self._files.items()
            for place, each in enumerate(found)
        }

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        addresses = [parse_address(doc.url) for doc in batch.docs]
        hosts = [address.host.encode() for address in addresses]
        measured = {
            f"listed_{category}": _listed(addresses, hosts, found).astype(float)
            for category, found in self._lists.items()
        }
        unknown = np.array([not host for host in hosts], bool)
        if unknown.any():
            self.tally["without_address"] += int(unknown.sum())
        return {column: np.where(unknown, np.nan, values) for column, values in measured.items()}


def _listed(addresses: Sequence[Address], hosts: Sequence[bytes], found: HostList) -> NDArray[np.bool_]:
    """Return whether each address is on a list."""
    host_of, begins, hashes = suffix_hashes(hosts)
    listed = np.zeros(len(hosts), bool)
    listed[host_of[begins][_contains(found.domains, hashes[begins])]] = True
    with_urls = set(host_of[begins][_contains(found.url_hosts, hashes[begins])].tolist())
    for index, address in enumerate(addresses):
        if not listed[index] and (index in with_urls or found.expressions) and address.host:
            listed[index] = (index in with_urls and _has_url(address, found)) or _has_pattern(address, found)
    return listed


def _has_url(address: Address, found: HostList) -> bool:
    """Return whether an address is one of the URLs or below one, also with `www.` before the host of the URL."""
    ends = [place for place, character in enumerate(address.path) if character == "/" and place]
    for host in {address.host, address.host.removeprefix("www.")}:
        # Only paths of a known length are copied: a hostile address can have thousands of parts.
        paths = (address.path[:end] for end in [*ends, len(address.path)] if len(host) + end in found.url_lengths)
        if any(host + path in found.urls for path in paths):
            return True
    return False


def _has_pattern(address: Address, found: HostList) -> bool:
    return any(pattern.search(address.host + address.path) for pattern in found.expressions)


def _contains(values: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return whether each number is one of some sorted ones."""
    if not len(values):
        return np.zeros(len(wanted), bool)
    places = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return np.equal(values[places], wanted)
