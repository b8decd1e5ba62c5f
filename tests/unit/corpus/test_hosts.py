"""The signal `hosts`: addresses in every form, lists in UT1's form, hashes, filters."""

from __future__ import annotations

import gzip
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.config import make_step
from jprep.corpus.document import Document
from jprep.corpus.filters.presets.preset import PresetFilter
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.hosts.addresses import Address, hash_hosts, parse_address, suffix_hashes
from jprep.corpus.signals.hosts.signal import HostsSignal
from jprep.corpus.step import describe_step
from jprep.errors import ConfigError, InputError
from tests.fakes.small_corpus import build_corpus

LABEL = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=1, max_size=12)
HOST = st.lists(LABEL, min_size=1, max_size=5).map(".".join)


@pytest.fixture
def adult(tmp_path: Path) -> Path:
    folder = tmp_path / "adult"
    folder.mkdir()
    (folder / "domains").write_text("# made for this test\nbad.example\r\nBAD2.example.\n192.0.2.7\n日本語.example\n\n")
    (folder / "urls").write_text("mixed.example/~user/spam\nother.example/a%20b/\n")
    (folder / "expressions").write_text(r"(casino|slot)[0-9]+\.example" + "\n" + r"(q)\d\.example/\w+\W\d\Z" + "\n")
    return folder


def measured(urls: list[str], **options: object) -> dict[str, list[float]]:
    signal = HostsSignal(HostsSignal.Config(**options))  # type: ignore[arg-type]
    docs = [Document(str(number), "s", "", url, "text") for number, url in enumerate(urls)]
    return {name: values.tolist() for name, values in signal.measure(TextBatch(docs)).items()}


@pytest.mark.parametrize(
    ("address", "listed"),
    [
        ("https://bad.example", 1),
        ("https://www.bad.example/page?q=1#top", 1),
        ("http://a.b.bad.example:8080/", 1),
        ("HTTPS://USER:PASS@BAD.EXAMPLE./", 1),
        ("bad.example/page", 1),
        ("//bad.example/page", 1),
        ("https://bad2.example?x", 1),
        ("https://notbad.example/", 0),
        ("https://bad.example.org/", 0),
        ("https://example/", 0),
        ("https://good.example/?u=https://bad.example/", 0),
        ("https://bad.example@good.example/", 0),
        ("http://192.0.2.7/x", 1),
        ("http://192.0.2.8/x", 0),
        ("https://日本語.example/", 1),
        ("https://www.xn--wgv71a119e.example/", 1),
        ("https://mixed.example/~user/spam", 1),
        ("https://www.mixed.example/%7Euser/spam/page.html", 1),
        ("https://mixed.example/~user/spammer", 0),
        ("https://mixed.example/", 0),
        ("https://other.example/a b/c", 1),
        ("https://casino77.example/", 1),
        ("https://casino.example/", 0),
        ("https://Q1.example/PAGE-7", 1),
        ("https://good.example?q=x@bad.example/y", 0),
        ("https://good.example#@bad.example/", 0),
        ("https://good.example?u=https://bad.example/x", 0),
        ("", math.nan),
        ("mailto", 0),
        ("https://", math.nan),
        ("https://..../", math.nan),
        ("https://" + "a" * 300 + ".example/", math.nan),
        ("https://[2001:db8::1]:80/", 0),
        ("https://\ud800.example/", math.nan),
    ],
)
def test_addresses(address: str, listed: float, adult: Path) -> None:
    np.testing.assert_equal(measured([address], lists=(str(adult),)), {"listed_adult": [listed]})


def test_an_address_of_many_parts_takes_little_memory(adult: Path) -> None:
    address = "https://mixed.example" + "/part" * 5_000
    tracemalloc.start()
    try:
        measured([address], lists=(str(adult),))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000  # the paths of all parts have 60 million characters
    finally:
        tracemalloc.stop()


def test_documents_without_an_address_are_counted(adult: Path) -> None:
    signal = HostsSignal(HostsSignal.Config(lists=(str(adult),)))
    signal.measure(
        TextBatch([Document(str(n), "s", "", url, "") for n, url in enumerate(["", "https://a.example", ""])])
    )
    assert signal.tally == {"without_address": 2}


def test_documents_that_are_shortened_are_counted_once(adult: Path, tmp_path: Path) -> None:
    lists = {"use": "hosts", "lists": [str(adult)]}
    texts = [{"text": f"これは{number}番の文です。\nmenu\nどの本にもある文です。"} for number in range(5)]
    filters = [
        {"signal": "listed_adult", "max": 0},
        {"signal": "latin_share", "max": 0.5, "per": "line"},
        {"signal": "hiragana_share", "min": 0.1},
    ]
    dedup = {"documents": True, "sentences": {"max_count": 1, "min_chars": 5}}
    corpus = build_corpus(tmp_path, texts, signals=[lists], filters=filters, dedup=dedup)
    counts = corpus.manifest.counts
    assert (len(corpus), counts["filter.line_threshold.lines_dropped"]) == (5, 5)
    assert counts["dedup.sentences.sentences_dropped"] > 0
    assert counts["signal.hosts.without_address"] == 5


def test_a_batch_is_measured_as_its_documents_are(adult: Path) -> None:
    urls = ["", "https://bad.example/", "https://good.example/", "https://mixed.example/~user/spam", "x"] * 3
    together = measured(urls, lists=(str(adult),))["listed_adult"]
    np.testing.assert_equal(together, [measured([url], lists=(str(adult),))["listed_adult"][0] for url in urls])
    assert measured([], lists=(str(adult),)) == {"listed_adult": []}


def test_files_of_domains_compressed_and_several_categories(adult: Path, tmp_path: Path) -> None:
    more = tmp_path / "spam-hosts.txt.gz"
    more.write_bytes(gzip.compress(b"\xef\xbb\xbfspam.example\n*.spam2.example\n"))
    urls = ["http://a.spam2.example/", "http://spam.example/", "http://bad.example/"]
    lists = (str(adult), str(more))
    assert measured(urls, lists=lists) == {"listed_adult": [0, 0, 1], "listed_spam_hosts": [1, 1, 0]}
    assert measured(urls, lists=lists, name="bad") == {"listed_bad": [1, 1, 1]}


def test_the_contents_identify_the_signal_and_not_the_paths(adult: Path, tmp_path: Path) -> None:
    before = describe_step(HostsSignal(HostsSignal.Config(lists=(str(adult),))))
    (tmp_path / "other").mkdir()
    moved = adult.rename(tmp_path / "other" / "adult")
    assert describe_step(HostsSignal(HostsSignal.Config(lists=(str(moved),)))) == before
    (moved / "domains").write_text("new.example\n")
    assert describe_step(HostsSignal(HostsSignal.Config(lists=(str(moved),)))) != before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.txt", b"\x00\x01\x02\xff" * 100, "1 of 1 lines are not hosts, the first is line 1"),
        ("bad.txt", b"a.example\n" + b"no host\n" * 9, "9 of 10 lines are not hosts, the first is line 2"),
        ("bad.txt", b"a" * 3_000_000, "a line of over 65536 bytes"),
        ("bad.txt", b"a." * 150 + b"com\n", "1 of 1 lines are not hosts"),
        ("bad.txt", b"a.example/?blog=7\n", "1 of 1 lines are not hosts"),
        ("x/expressions", b"fine\n([a-z\n", "line 2: "),
        ("x/readme", b"", "none of the files domains, urls, expressions"),
        ("日本.txt", b"a.example\n", "is not a category"),
    ],
)
def test_what_is_no_list_is_an_error(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises((ConfigError, InputError), match=message):
        measured(["https://a.example/"], lists=(str(path if path.suffix else path.parent),))


def test_a_missing_list_is_an_error() -> None:
    with pytest.raises(ConfigError, match="needs lists"):
        HostsSignal()
    with pytest.raises(ConfigError, match="no such file or folder"):
        HostsSignal(HostsSignal.Config(lists=("missing",))).provenance()


@given(st.lists(HOST, min_size=1, max_size=8))
def test_the_hash_of_an_ending_is_that_of_the_host(hosts: list[str]) -> None:
    encoded = [host.encode() for host in hosts]
    host_of, begins, hashes = suffix_hashes(encoded)
    found = [hashes[begins & (host_of == index)].tolist() for index in range(len(hosts))]
    for host, values in zip(hosts, found, strict=True):
        labels = host.split(".")
        endings = [".".join(labels[number:]).encode() for number in range(len(labels))]
        assert values == hash_hosts(endings).tolist()


def test_hashes_of_many_hosts_differ() -> None:
    hosts = [f"{name}{number}.example".encode() for name in ("a", "b", "ab", "ba") for number in range(50_000)]
    assert len(np.unique(hash_hosts(hosts))) == len(hosts)


def test_what_is_parsed_again_stays_the_same() -> None:
    address = parse_address("https://User@日本語.Example.:443/A%20b/?q#f")
    assert address == Address("xn--wgv71a119e.example", "/a b")
    assert parse_address("".join(address)) == address


def test_a_preset_takes_a_list(adult: Path) -> None:
    step = make_step("filter", {"use": "preset", "preset": "swallow-v1", "files": {"ng_hosts": str(adult)}})
    assert isinstance(step, PresetFilter)
    assert "ng_hosts" not in step.not_run
    (rule,) = [rule for rule in step.rules if rule.signal == "listed_ng_hosts"]
    (signal,) = [signal for signal in step.signals() if signal.name == "hosts"]
    docs = [Document("a", "s", "", url, "text") for url in ("https://bad.example/", "https://good.example/", "")]
    values = signal.measure(TextBatch(docs))["listed_ng_hosts"]
    assert [value > rule.limits()[1] for value in values] == [True, False, False]
