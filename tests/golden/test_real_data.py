"""Properties of real dumps; skipped if the dumps are not available."""

from __future__ import annotations

import gzip
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jprep import Corpus
from jprep.corpus.config import CorpusRecipe, decode_recipe
from jprep.corpus.document import UNMARK, Document
from tests.conftest import SHARED

DUMPS = {
    "jawiki-20220720-head-A": (110, 2_500_000),
    "jawiki-country-2015-A": (107, 2_500_000),
    "jawiki-shinto-A": (1_350, 4_300_000),
    "jawiki-20060803-export0.3-noClosingTag": (45, 550_000),
    "jawiki-20190601-TRUNCATED": (35, 900_000),
    "dbpedia-minidump-ja-berlin": (1, 50_000),
}
"""Minimum number of documents and bytes of text."""

MARKUP = re.compile(
    r"\[\[|\]\]|\{\{|\}\}|^\{\||\|\}(?!\})|<ref|thumb\||\d+px\||Category:|カテゴリ:", re.IGNORECASE | re.MULTILINE
)
EMPTY_BRACKETS = re.compile(r"（[\s、，,;；:：]*）|\([\s、，,;；:：]*\)|（英: ）")
ABOUT_MARKUP = "たとえば[[eauxx]]"
"""Mark-up that a page shows on purpose, in a nowiki element."""


READER = {"use": "wikipedia", "on_truncated": "keep", "shard_mb": 2}


def recipe(dump: Path, reader: dict[str, Any]) -> CorpusRecipe:
    source = {"name": "jawiki", "paths": [str(dump)], "reader": reader}
    return decode_recipe({"name": "real", "corpus": {"sources": [source], "segmenter": "none"}})


@pytest.fixture(scope="module", params=DUMPS)
def built(
    request: pytest.FixtureRequest, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Corpus]:
    dump = shared_data / f"wikitext/{request.param}.xml.bz2"
    if not dump.exists():
        pytest.skip(f"{dump.name} is not there")
    return request.param, Corpus.build(recipe(dump, READER), tmp_path_factory.mktemp("real") / "corpus")


def lines_with(pattern: re.Pattern[str], corpus: Corpus) -> Iterator[tuple[str, str]]:
    for document in corpus:
        for line in document.text.split("\n"):
            if found := pattern.search(line):
                yield document.title, line[max(0, found.start() - 60) : found.end() + 60]


def test_minimum_number_of_documents(built: tuple[str, Corpus]) -> None:
    name, corpus = built
    documents, size = DUMPS[name]
    assert corpus.manifest.totals["documents"] >= documents
    assert corpus.manifest.totals["bytes"] >= size
    assert corpus.manifest.counts.get("reader.wikipedia.files.truncated", 0) == ("TRUNCATED" in name)


DISAMBIGUATION = {
    "jawiki-20220720-head-A": {"EU (曖昧さ回避)", "地理", "タイ", "サンバ", "フォスター", "ゴスペル"},
    "jawiki-country-2015-A": set(),
    "jawiki-20060803-export0.3-noClosingTag": {"EU (曖昧さ回避)"},
    "jawiki-20190601-TRUNCATED": {"EU (曖昧さ回避)", "地理"},
    "dbpedia-minidump-ja-berlin": set(),
}
"""Disambiguation pages, told apart from articles by reading them; of the shinto dump's 80 only the number is below."""


def test_only_disambiguation_pages_are_dropped_as_such(built: tuple[str, Corpus]) -> None:
    name, corpus = built
    rejects = [reject for reject in corpus.rejects() if reject.reason == "disambiguation"]
    if name in DISAMBIGUATION:
        assert {reject.title for reject in rejects} == DISAMBIGUATION[name]
    else:
        assert len(rejects) == 80
        assert {"那須氏", "天文方", "志摩市歴史民俗資料館", "子守神社"} <= {doc.title for doc in corpus}
    assert not any("要曖昧さ回避" in reject.excerpt for reject in rejects)


def test_no_markup_remains_outside_code(built: tuple[str, Corpus]) -> None:
    assert [found for found in lines_with(MARKUP, built[1]) if ABOUT_MARKUP not in found[1]] == []


def test_no_brackets_are_empty(built: tuple[str, Corpus]) -> None:
    assert list(lines_with(EMPTY_BRACKETS, built[1])) == []


def test_words_match_the_text(built: tuple[str, Corpus]) -> None:
    def lawful(document: Document) -> bool:
        return bool(document.text) and document.words.translate(UNMARK) == document.text

    assert all(lawful(document) for document in built[1])
    assert list(built[1].verify()) == []


def test_sentence_score_matches_the_docs(shared_data: Path) -> None:
    script, gold = SHARED / "tools/sentence_f1.py", shared_data / "gold/kyoto_wiki-A.jsonl.gz"
    if not script.exists() or not gold.exists():
        pytest.skip("the scorer or its gold is not there")
    done = subprocess.run([sys.executable, str(script), str(gold)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_gold_sentences_are_found(shared_data: Path, tmp_path: Path) -> None:
    """The gold shows now a link's target, now its label: the scorer marks both in the source and takes either."""
    script, pairs = SHARED / "tools/extraction_recall.py", shared_data / "wikitext/extraction_pairs-A.jsonl.gz"
    if not script.exists() or not pairs.exists():
        pytest.skip("the scorer or its gold is not there")
    scorer = runpy.run_path(str(script))
    with gzip.open(pairs, "rt", encoding="utf-8") as lines:
        articles = [json.loads(line) for line in lines]
    scorer["write_dump"](articles, tmp_path / "pairs.xml")
    corpus = Corpus.build(recipe(tmp_path / "pairs.xml", {"use": "wikipedia"}), tmp_path / "corpus")
    bare = scorer["bare"]
    for change, least in ((str, 0.92), (scorer["unbracketed"], 0.925)):
        texts = {document.title: scorer["pieces"](change(bare(document.text))) for document in corpus}
        found = [scorer["found"](change(bare(text)), texts.get(title, [])) for title, text in gold(articles)]
        assert sum(found) / len(found) >= least


def gold(articles: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for article in articles:
        for block in article["gold_blocks"]:
            yield from ((article["title"], sentence) for sentence in block.get("p", []) if len(sentence) >= 15)
