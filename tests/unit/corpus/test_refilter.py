"""A finished corpus is filtered into a new one."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jprep import Corpus
from jprep.corpus.document import Document, Reject
from jprep.corpus.refilter.request import FilterRequest, parse_condition
from jprep.corpus.refilter.run import refilter
from jprep.corpus.signals.characters import CharacterSignals
from jprep.corpus.signals.perplexity.model import PerplexityModel
from jprep.engine.executors.local import Local
from jprep.engine.runner import SilentProgress
from jprep.errors import ConfigError, DamagedError, MismatchError
from tests.conftest import digests
from tests.fakes.small_corpus import GOOD, build_corpus, posts

HIRAGANA = {"signal": "hiragana_share", "min": 0.4, "reason": "few_hiragana"}
PLAIN: dict[str, Any] = {"filters": [], "dedup": {"documents": False}}
RECORDS = [
    *posts(),
    {"title": "片仮名", "text": "カタカナダケデカイタブンショウ。\nフタツメノギョウ。"},
    {"title": "混ぜた", "text": f"{GOOD}\nメニュー\n{GOOD}"},
]


COUNTING = """
import numpy as np
from jprep.corpus.step import Signal


class Counting(Signal):
    columns = ("counted",)

    def measure(self, batch):
        self.tally["documents"] += len(batch)
        return {"counted": np.ones(len(batch))}
"""


def run(corpus: Corpus, folder: Path, *filters: Any, workers: int = 1, **more: Any) -> Corpus:
    with closing(Local(workers)) as executor:
        restart = more.pop("restart", False)
        request = FilterRequest(list(filters), **more)
        refilter(corpus.folder, request, folder, executor, SilentProgress(), restart=restart)
    return Corpus(folder)


def rows(corpus: Corpus) -> tuple[list[Document], list[Reject]]:
    return list(corpus), sorted(corpus.rejects(), key=lambda reject: reject.id)


@pytest.mark.parametrize(
    "filters",
    [
        [HIRAGANA],
        ["length", "japanese", "repeated_lines"],
        [{"use": "sentence_end", "drop_lines": True}, {"signal": "characters", "max": 70}],
        [{"signal": "sentence_end_share", "min": 0.9, "of": {"use": "lines", "min_lines": 1}}, HIRAGANA],
    ],
)
@pytest.mark.parametrize("kept", [[], ["characters"], ["characters", "lines"]])
def test_the_documents_are_those_of_a_build_with_the_filters(tmp_path: Path, filters: Any, kept: list[str]) -> None:
    built = build_corpus(tmp_path / "built", RECORDS, **PLAIN | {"filters": filters, "signals": kept})
    corpus = build_corpus(tmp_path / "all", RECORDS, **PLAIN | {"signals": kept})
    filtered = run(corpus, tmp_path / "filtered", *filters)
    assert repr(rows(filtered)) == repr(rows(built))  # NaN is not equal to itself
    assert filtered.manifest.totals == built.manifest.totals
    assert filtered.manifest.rejects == built.manifest.rejects
    assert filtered.manifest.made_from["filtered"][0]["corpus"] == corpus.manifest.fingerprint
    assert not list(filtered.verify())


def test_kept_columns_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = build_corpus(tmp_path, RECORDS, **PLAIN | {"signals": ["characters"]})
    monkeypatch.setattr(CharacterSignals, "measure", None)
    filtered = run(corpus, tmp_path / "filtered", HIRAGANA)
    assert 0 < len(filtered) < len(corpus)


def test_words_stay(tmp_path: Path) -> None:
    corpus = build_corpus(
        tmp_path, [*RECORDS, {"title": "英", "text": "A b c です。D e です。"}], segmenter="spaces", **PLAIN
    )
    filtered = run(corpus, tmp_path / "filtered", {"signal": "characters", "min": 1})
    assert list(filtered) == list(corpus)
    assert filtered.manifest.totals == corpus.manifest.totals


def test_signals_can_be_added(tmp_path: Path) -> None:
    corpus = build_corpus(tmp_path, RECORDS, **PLAIN | {"signals": ["urls"]})
    added = run(corpus, tmp_path / "added", signals=["urls", "characters"])
    assert added.manifest.signals[:3] == ["url_share", "urls_per_1000", "characters"]
    assert [doc.signals["characters"] for doc in added] == [len(doc.text) for doc in corpus]


def test_a_corpus_is_filtered_twice(tmp_path: Path) -> None:
    corpus = build_corpus(tmp_path, RECORDS, **PLAIN)
    once = run(corpus, tmp_path / "once", HIRAGANA)
    twice = run(once, tmp_path / "twice", {"signal": "characters", "min": 40, "reason": "short"})
    assert [each["corpus"] for each in twice.manifest.made_from["filtered"]] == [
        corpus.manifest.fingerprint,
        once.manifest.fingerprint,
    ]
    assert {reject.reason for reject in twice.rejects()} == {"few_hiragana", "short"}
    assert sum(twice.manifest.rejects.values()) + len(twice) == len(corpus)
    assert not list(twice.verify())


def test_lists_of_test_items_stay(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text(json.dumps({"question": GOOD}, ensure_ascii=False), encoding="utf-8")
    sets = [{"name": "quiz", "paths": [str(tmp_path / "test.jsonl")], "fields": ["question"]}]
    corpus = build_corpus(tmp_path, RECORDS, **PLAIN | {"decontaminate": sets})
    assert corpus.manifest.test_items
    filtered = run(corpus, tmp_path / "filtered", HIRAGANA)
    assert filtered.manifest.test_items == corpus.manifest.test_items
    assert not list(filtered.verify())
    assert not list(run(filtered, tmp_path / "twice", HIRAGANA).verify())


def test_a_signal_with_a_model_is_measured_again_by_the_model_of_the_recipe(tmp_path: Path) -> None:
    model = PerplexityModel(2, 8)
    model.train([GOOD])
    model.write(tmp_path / "model.npz")
    refs = [{"use": "perplexity", "model": str(tmp_path / "model.npz")}]
    lines = {"use": "sentence_end", "drop_lines": True}
    corpus = build_corpus(tmp_path / "all", RECORDS, **PLAIN | {"signals": refs})
    with pytest.raises(ConfigError, match="must be measured again") as caught:
        run(corpus, tmp_path / "failed", lines)
    assert "--recipe" in caught.value.fix
    filtered = run(corpus, tmp_path / "filtered", lines, signals=refs)
    built = build_corpus(tmp_path / "built", RECORDS, **PLAIN | {"signals": refs, "filters": [lines]})
    assert repr(rows(filtered)) == repr(rows(built))


def test_what_signals_count_is_kept(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(COUNTING, encoding="utf-8")
    counting = f"{tmp_path}/steps.py:Counting"
    corpus = build_corpus(tmp_path, RECORDS, **PLAIN)
    judged = run(corpus, tmp_path / "judged", {"signal": "counted", "min": 0, "of": counting})
    assert judged.manifest.counts["filter.threshold.counting.documents"] == len(corpus)
    kept = run(corpus, tmp_path / "kept", {"signal": "counted", "min": 0}, signals=[counting], workers=2)
    assert kept.manifest.counts["signal.counting.documents"] == len(corpus)
    again = run(kept, tmp_path / "again", {"use": "sentence_end", "drop_lines": True})
    assert again.manifest.counts["signal.counting.documents"] == len(corpus)  # once, however often they are measured


def test_filters_of_single_sources(tmp_path: Path) -> None:
    corpus = build_corpus(tmp_path, RECORDS, **PLAIN)
    own = {"posts": [{"signal": "characters", "max": 0}]}
    assert len(run(corpus, tmp_path / "none", source_filters=own)) == 0
    assert len(run(corpus, tmp_path / "others", source_filters={"else": own["posts"]})) == len(corpus)


def test_the_same_again_verifies_and_others_are_refused(tmp_path: Path) -> None:
    corpus = build_corpus(tmp_path, RECORDS, **PLAIN)
    filtered = run(corpus, tmp_path / "filtered", HIRAGANA)
    before = digests(filtered.folder)
    run(corpus, tmp_path / "filtered", HIRAGANA, workers=2)
    assert digests(filtered.folder) == before
    with pytest.raises(MismatchError):
        run(corpus, tmp_path / "filtered", HIRAGANA | {"min": 0.5})
    assert len(run(corpus, tmp_path / "filtered", HIRAGANA | {"min": 1}, restart=True)) == 0
    with pytest.raises(ConfigError, match="its own directory"):
        run(corpus, corpus.folder, HIRAGANA)
    with pytest.raises(ConfigError, match="nothing to filter by"):
        run(corpus, tmp_path / "nothing", source_filters={"posts": []})


def test_a_damaged_corpus_is_not_filtered(tmp_path: Path) -> None:
    corpus = build_corpus(tmp_path, RECORDS, **PLAIN)
    part = corpus.folder / corpus.manifest.parts[0].path
    part.write_bytes(part.read_bytes()[:-1] + b"\0")
    with pytest.raises(DamagedError):
        run(corpus, tmp_path / "filtered", HIRAGANA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hiragana_share>=0.2", {"signal": "hiragana_share", "min": 0.2}),
        ("a<=-1e3", {"signal": "a", "max": -1000}),
        (" a < 1 ", {"signal": "a", "below": 1}),
        ("a>1", {"signal": "a", "above": 1}),
    ],
)
def test_conditions(text: str, expected: dict[str, Any]) -> None:
    assert parse_condition(text) == expected


@pytest.mark.parametrize("text", ["", "a", "a=1", "a>=", ">=1", "a>=1.2.3", "a>=x", "a=>1"])
def test_conditions_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot read the condition"):
        parse_condition(text)
