"""Extremely long lines, pages and depths are handled in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.benchmarks.measure import MIB
from tests.hostile.conftest import HEAD, Build, Put, article, dump, page, reader

SENTENCE = "これは終わりのない行の中の、ごくふつうの文である。"
LONG = 50 * MIB
TEXT = SENTENCE * (LONG // len(SENTENCE.encode()))
BOUND = 15 * LONG
"""For one line or page. Every step holds its text at once; docs/benchmarks.md has what was measured."""

LINES: dict[str, Callable[[str], str]] = {
    "--cc100": lambda text: text,
    "--text": lambda text: text,
    "--jsonl": lambda text: json.dumps({"text": text}, ensure_ascii=False),
}


@pytest.mark.parametrize("option", LINES)
def test_a_line_of_50_mb(option: str, build: Build, put: Put) -> None:
    done = build(option, put("line", LINES[option](TEXT).encode()), measured=True)
    assert done.manifest.totals["characters"] == len(TEXT)
    assert done.manifest.totals["sentences"] == TEXT.count("。")
    assert done.run.peak < BOUND


def test_a_page_of_50_mb(build: Build, put: Put) -> None:
    text = f"{SENTENCE}\n\n" * (LONG // len(f"{SENTENCE}\n\n".encode()))
    done = build("--wikipedia", put("page.xml", dump([article(1), text, article(3)])), measured=True)
    assert done.manifest.totals["documents"] == 3
    assert done.manifest.totals["characters"] > len(TEXT) * 0.9
    assert done.run.peak < BOUND


def test_a_larger_page_than_is_allowed(build: Build, put: Put) -> None:
    path = put("page.xml", dump([article(1), SENTENCE * 40_000]))
    more = reader("wikipedia", max_page_mb=1)
    build("--wikipedia", path, code=4, more=more, says=["larger than 1 MiB", "max_page_mb"])


@pytest.mark.parametrize("option", ["--cc100", "--text", "--jsonl"])
def test_a_larger_record_than_is_allowed(option: str, build: Build, put: Put) -> None:
    path = put("record.txt", (SENTENCE * 40_000).encode())
    more = reader(option[2:], max_record_mb=1)
    build(option, path, code=4, more=more, says=["larger than 1 MB", "record.txt", "max_record_mb"])


def test_a_history_of_many_revisions_in_a_page(build: Build, put: Put) -> None:
    revision = "<revision><timestamp>{:04}-01-01T00:00:00Z</timestamp><text>{}</text></revision>"
    revisions = "".join(revision.format(number, f"第{number}版。{SENTENCE * 1000}") for number in range(400))
    history = f"<page><title>歴史</title><ns>0</ns><id>1</id>{revisions}</page>"
    data = f"{HEAD}{history}{page(2, article(2))}</mediawiki>"
    done = build(
        "--wikipedia", put("history.xml", data.encode()), more=reader("wikipedia", max_page_mb=1), measured=True
    )
    assert done.texts()[0].startswith("第399版。")
    assert done.run.peak < 250 * MIB


N = 100_000
"""Quadratic time at this depth would be hours."""

NESTS = {
    "templates": "{{a|" * N + "}}" * N,
    "open templates": "{{" * N,
    "closed templates": "}}" * N,
    "links": "[[a|" * N + "]]" * N,
    "open links": "[[" * N,
    "files": "[[ファイル:a.png|" * (N // 10) + "]]" * (N // 10),
    "tables": "\n{|\n|" * (N // 10) + "\n|}" * (N // 10),
    "open tables": "\n{|" * N,
    "refs": "<ref>" * N,
    "closed refs": "<ref>a</ref>" * N,
    "comments": "<!--" * N,
    "nowiki": "<nowiki>" * N,
    "divs": "<div>" * N + "</div>" * N,
    "language links": "-{" * N + "}-" * N,
    "headings": "=" * N,
    "quotes": "'" * N,
    "lists": "*" * N,
    "round brackets": "（" * N + "）" * N,
    "empty brackets": "（）" * N,
    "quotation brackets": "「" * N + "。" * N,
    "arguments": "{{{" * N + "}}}" * N,
    "urls": "[http://" * N,
    "pipes": "{{a" + "|" * N + "}}",
    "entities": "&amp;" * N,
    "lang": "{{lang|en|" * (N // 10) + "a" + "}}" * (N // 10),
    "million": "".join(pair for _ in range(N // 3) for pair in ("[[", "（", "{{")) + "]]}}）" * (N // 9),
}


def nested(name: str) -> str:
    return f"始まりの文である。{name}。{SENTENCE}\n\n{NESTS[name]}\n\n終わりの文である。{SENTENCE}"


def assert_read(pages: list[str], build: Build, put: Put) -> None:
    """The whole way; a run that took quadratic time would not end within the command's patience."""
    done = build("--wikipedia", put("deep.xml", dump([article(1), *pages, article(3)])), measured=True)
    texts = done.texts()
    assert done.manifest.totals["documents"] == len(texts) >= 2
    assert done.run.peak < 300 * MIB
    assert done.run.cpu_s < 60


@pytest.mark.soak
def test_any_depth_of_markup(build: Build, put: Put) -> None:
    assert_read([nested(name) for name in NESTS], build, put)


@pytest.mark.soak
@pytest.mark.parametrize("name", NESTS)
def test_any_depth_of_one_kind_of_markup(name: str, build: Build, put: Put) -> None:
    assert_read([nested(name)], build, put)
