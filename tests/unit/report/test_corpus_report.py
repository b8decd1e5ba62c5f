"""Reports on corpora: the figures, the page, hostile texts and damage."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jprep.corpus.refilter.request import FilterRequest
from jprep.corpus.refilter.run import refilter
from jprep.corpus.store import REJECTS, read_manifest
from jprep.engine.executors.local import Local
from jprep.engine.runner import SilentProgress
from jprep.errors import DamagedError
from jprep.report.build import Report, build_report
from jprep.report.corpus import pages, reject_scan
from jprep.report.corpus.provenance import steps
from jprep.report.page import MAX_BYTES
from tests.fakes.small_corpus import GOOD, READER, UNSAFE, Page, build_corpus, posts

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e</details>&amp;'\""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    build_corpus(folder, posts())
    return folder


@pytest.fixture(scope="module")
def made(small: Path) -> Report:
    return build_report([small / "corpus"])


def figures(made: Report) -> dict[str, Any]:
    [section] = made.figures()["sections"]
    return section


def test_the_funnel_counts_every_record(made: Report) -> None:
    found = {step["step"]: step for step in figures(made)["funnel"]}
    assert list(found) == [
        "reader.jsonl", "normalizer", "filter.length", "filter.japanese", "filter.symbols", "filter.urls",
        "filter.sentence_end", "filter.repeated_lines", "dedup.documents",
    ]  # fmt: skip
    assert found["reader.jsonl"]["before"] == 8
    assert found["filter.length"]["reasons"] == {"too_short": 1}
    assert found["filter.japanese"]["reasons"] == {"foreign": 1}
    assert found["dedup.documents"] == found["dedup.documents"] | {"before": 6, "dropped": 1, "after": 5}


def test_figures(made: Report) -> None:
    shown = figures(made)
    assert shown["sources"]["posts"]["documents"] == shown["sample"] == shown["totals"]["documents"] == 5
    assert shown["sources"]["posts"]["characters"] == shown["totals"]["characters"]
    assert sum(shown["lengths"]["counts"]) == 5
    assert shown["measures"]["japanese: kana"]["thresholds"] == [(0.05, None)]
    assert shown["duplicates"] == {"1": 1}
    assert {"before": "Ｗ", "after": "W", "name": "fullwidth latin capital letter w", "times": 5} in shown[
        "replacements"
    ]


def test_the_page_is_whole(made: Report) -> None:
    page = Page(made.html()).check()
    for text in ("shorter than 10 characters", "This text is in another", "日記", "捨てる1", "CC0", "posts.jsonl"):
        assert text in page.text, text
    assert '{"title": ' in page.text  # the record of a page as it stands in the input
    assert page.tags["svg"] > 8


def test_the_same_corpus_gives_the_same_bytes(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small)
    first = build_report(["corpus"]).html()
    shutil.copytree(small, tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert build_report(["corpus"]).html() == first


def test_without_the_inputs_the_page_says_so(small: Path, tmp_path: Path) -> None:
    shutil.copytree(small / "corpus", tmp_path / "corpus")
    page = Page(build_report([tmp_path / "corpus"]).html()).check()
    assert "the input posts.jsonl was not found" in page.text and "with --inputs" in page.text
    found = Page(build_report([tmp_path / "corpus"], places=[small / "inputs"]).html()).check()
    assert "not found" not in found.text and '{"title": ' in found.text


def test_words_are_shown(corpus: Path, sample: Path) -> None:
    made = build_report([corpus], places=[sample])
    page = Page(made.html()).check()
    assert "Words" in page.text and "disambiguation" in page.text
    assert "'''" in page.text, "the wikitext of a page"


def test_hostile_texts_are_text(tmp_path: Path) -> None:
    records = [
        {"title": HOSTILE, "text": HOSTILE + GOOD + str(number), "id": f"{HOSTILE}{number}"} for number in range(3)
    ]
    records += [{"title": HOSTILE, "text": HOSTILE, "id": HOSTILE}] * 2
    path = tmp_path / "<b>ファイル"
    made = build_corpus(path, records)
    html = build_report([made.folder]).html()
    page = Page(html).check()
    assert "<script>alert(1)</script>" in page.text and "\\u202e" in page.text
    assert not UNSAFE.search(html) and "<b>ファイル" in page.text


def test_long_lines_are_cut(tmp_path: Path) -> None:
    lines = [{"title": "長" * 100_000, "text": "とても長い行です。" * 300_000}, {"title": "", "text": GOOD}]
    made = build_corpus(tmp_path, lines, filters=[{"use": "length", "max_chars": 100}])
    html = build_report([made.folder]).html()
    assert len(html.encode()) < 500_000
    assert "more characters" in html and "2,700,000" not in html
    kept = build_corpus(tmp_path / "kept", lines, filters=[])
    html = build_report([kept.folder]).html()
    assert len(html.encode()) < 500_000 and "2,700,000" in html


def test_an_empty_corpus_has_a_report(tmp_path: Path) -> None:
    page = Page(build_report([build_corpus(tmp_path, []).folder]).html()).check()
    assert "There are no documents." in page.text and "Nothing was dropped." in page.text
    assert "There are no documents to measure." in page.text and "no filter that measures" not in page.text


def test_a_recipe_without_filters_says_so(tmp_path: Path) -> None:
    made = build_corpus(tmp_path, posts(), filters=[])
    assert "The recipe has no filter that measures" in Page(build_report([made.folder]).html()).text


@pytest.mark.parametrize("kind", ["documents", REJECTS])
def test_a_damaged_file_is_named(small: Path, tmp_path: Path, kind: str) -> None:
    copy = Path(shutil.copytree(small / "corpus", tmp_path / "copy"))
    part = sorted((copy / kind).iterdir())[0]
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    with pytest.raises(DamagedError, match="was changed or damaged") as caught:
        build_report([copy])
    assert part.name in caught.value.where
    part.unlink()
    with pytest.raises(DamagedError, match="is missing"):
        build_report([copy])


def test_examples_do_not_depend_on_the_size_of_batches(
    small: Path, made: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reject_scan, "_ROWS", 1)
    assert build_report([small / "corpus"]).html() == made.html()


def test_a_section_that_does_not_fit_is_replaced(made: Report) -> None:
    whole, html = made.html(), made.html(limit=210_000)
    assert len(html) < len(whole) < MAX_BYTES
    assert "This section is left out" in Page(html).check().text


def test_the_duplicates_of_one_id_are_told_apart(tmp_path: Path) -> None:
    records = [{"id": "same", "text": f"{number}番目の文章です。{GOOD}"} for number in range(30)]
    path = tmp_path / "inputs" / "posts.jsonl"
    source = {"name": "posts", "paths": [str(path)], "reader": READER | {"id": "id"}}
    text = Page(build_report([build_corpus(tmp_path, records, sources=[source]).folder]).html()).check().text
    assert "20 of 30 documents" in text


def test_sources_with_different_limits_show_both(tmp_path: Path) -> None:
    path = str(tmp_path / "inputs" / "posts.jsonl")
    sources = [
        {"name": name, "paths": [path], "reader": READER, "filters": [{"use": "length", "min_chars": least}]}
        for name, least in (("first", 20), ("second", 40))
    ]
    made = build_report([build_corpus(tmp_path, posts(), sources=sources, dedup={"documents": False}).folder])
    assert "shorter than 20 or 40 characters" in Page(made.html()).text
    assert figures(made)["sources"].keys() == {"first", "second"}


def test_deleted_characters_are_named(tmp_path: Path) -> None:
    normalizers = [{"use": "characters", "delete": "館"}]
    page = Page(build_report([build_corpus(tmp_path, posts(), normalizers=normalizers).folder]).html()).check()
    assert "deleted: U+9928" in page.text


def test_corpora_of_the_same_name_have_different_titles(small: Path, tmp_path: Path) -> None:
    shutil.copytree(small / "corpus", tmp_path / "other")
    titles = [section.title for section in build_report([small / "corpus", tmp_path / "other"]).sections]
    assert titles == [f"Corpus small ({folder.as_posix()})" for folder in (small / "corpus", tmp_path / "other")]


def test_large_inputs_are_read_only_if_they_are_named(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "with --inputs" not in Page(build_report([small / "corpus"]).html()).text
    monkeypatch.setattr(pages, "_UNASKED_BYTES", 1)
    assert "with --inputs" in Page(build_report([small / "corpus"]).html()).text
    assert "with --inputs" not in Page(build_report([small / "corpus"], places=[small / "inputs"]).html()).text


LINK = """
import numpy as np
from jprep.corpus.step import Signal


class Link(Signal):
    columns = ("link_length",)

    def measure(self, batch):
        return {"link_length": np.array([float(len(doc.url)) or np.nan for doc in batch.docs])}
"""


def test_a_filtered_corpus_names_its_filters_and_signals(tmp_path: Path) -> None:
    (tmp_path / "link.py").write_text(LINK, encoding="utf-8")
    records = [each | {"url": "https://example.com/"} for each in posts()]
    link = {"signal": "link_length", "min": 1, "of": f"{tmp_path}/link.py:Link"}
    reader = {"use": "jsonl", "title": "title", "url": "url"}
    source = {"name": "posts", "paths": [str(tmp_path / "inputs" / "posts.jsonl")], "reader": reader}
    corpus = build_corpus(tmp_path, records, signals=["urls"], filters=[link], sources=[source])
    with closing(Local(1)) as executor:
        request = FilterRequest([{"use": "length", "min_chars": 1}], {}, ["lines"])
        refilter(corpus.folder, request, tmp_path / "filtered", executor, SilentProgress())
    made = build_report([tmp_path / "filtered"])
    assert [each["step"] for each in figures(made)["funnel"]][-1] == "filter.length"
    manifest = read_manifest(tmp_path / "filtered")
    named = [(step.kind, step.name) for step in steps(manifest)]
    assert named[-4:] == [("signal", "urls"), ("segmenter", "none"), ("filter", "length"), ("signal", "lines")]
    assert sum(figures(made)["measures"]["threshold: link_length"]["counts"]) == len(corpus)


def test_kept_signals_are_shown(tmp_path: Path) -> None:
    filters = ["length", {"signal": "hiragana_share", "min": 0.05}]
    made = build_report([build_corpus(tmp_path, posts(), signals=["characters"], filters=filters).folder])
    shown = figures(made)["measures"]
    assert sum(shown["signal: katakana_share"]["counts"]) == figures(made)["sample"]
    assert "signal: hiragana_share" not in shown  # the plot of the filter shows it with its threshold
    [limits] = [each["thresholds"] for name, each in shown.items() if "hiragana_share" in name]
    assert limits == [(0.05, None)]


def test_personal_data_is_masked_as_in_the_corpus(tmp_path: Path) -> None:
    text = f"連絡は taro@example.co.jp へ。{GOOD}"
    private = {"id": "taro@example.co.jp", "title": "電話 090-1234-5678", "text": text}
    records = [private, private | {"id": "1"}, private | {"text": "電話は03-1234-5678。"}]
    source = {
        "name": "posts",
        "paths": [str(tmp_path / "posts.jsonl")],
        "reader": {"use": "jsonl", "id": "id", "title": "title", "max_bad": 1.0},
    }
    lines = [json.dumps(record) for record in records]
    (tmp_path / "posts.jsonl").write_text("\n".join([*lines, lines[0][:80]]), encoding="utf-8")
    made = build_corpus(tmp_path, [], sources=[source], normalizers=["pii"])
    page = Page(build_report([made.folder]).html()).check()
    assert "1234-5678" not in page.text and "taro@" not in page.text
    assert "電話 <PHONE>" in page.text and "left out, since" in page.text and "Names of people" in page.text
    assert "telephone numbers, masked" in page.text and "malformed_json" in page.text
    plain = build_corpus(tmp_path / "plain", records, normalizers=[])
    page = Page(build_report([plain.folder]).html()).check()
    assert "090-1234-5678" in page.text and "Names of people" not in page.text
