"""What `jprep corpus signals` shows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jprep.corpus.refilter import survey as surveys
from jprep.corpus.refilter.request import parse_condition
from jprep.corpus.signals.perplexity.model import PerplexityModel
from jprep.errors import ConfigError
from tests.conftest import Run
from tests.fakes.small_corpus import GOOD, build_corpus, posts

HOSTILE = {"title": "t", "text": "\x1b[31mABC\u202e" + "あ" * 20}
KEYS = {"filters": [], "normalizers": [], "dedup": {"documents": False}}


def test_distributions_and_drops(tmp_path: Path) -> None:
    corpus = build_corpus(tmp_path, [*posts(10), HOSTILE], signals=["urls"], **KEYS)
    names = ["characters", "url_share"]
    found = surveys.survey(corpus.folder, corpus.manifest, names, [parse_condition("characters>=10")])
    assert (found.documents, found.measured) == (len(corpus), len(corpus))
    columns = {each.column: each for each in found.signals}
    lengths = sorted(len(doc.text) for doc in corpus)
    assert columns["characters"].quantiles["0"] == lengths[0]
    assert columns["characters"].quantiles["1"] == lengths[-1]
    assert sum(columns["characters"].counts) == len(corpus)
    assert columns["url_share"].documents == len(corpus)
    [drops] = found.filters
    assert (drops.documents, drops.reasons) == (1, {"characters": 1})
    assert (drops.examples[0].excerpt, drops.examples[0].measures) == ("短い", {"characters": 2})


def test_examples_of_a_preset_show_the_measures_that_are_outside(tmp_path: Path) -> None:
    corpus = build_corpus(tmp_path, [{"text": "ああ" * 60}], **KEYS)
    [drops] = surveys.survey(corpus.folder, corpus.manifest, [], [{"preset": "uzushio-03a"}]).filters
    assert drops.examples[0].measures == {"uzushio_length": 120}


def test_a_kept_signal_whose_model_is_not_named(tmp_path: Path) -> None:
    model = PerplexityModel(2, 8)
    model.train([GOOD])
    model.write(tmp_path / "model.npz")
    signals = [{"use": "perplexity", "model": str(tmp_path / "model.npz")}]
    corpus = build_corpus(tmp_path, posts(10), signals=signals, **KEYS)
    (tmp_path / "model.npz").unlink()
    found = surveys.survey(corpus.folder, corpus.manifest, [], [parse_condition("perplexity_bits<=0")])
    [drops] = found.filters
    assert drops.documents == len(corpus)
    kept = [doc.signals for doc in corpus][:3]
    assert [each.measures for each in drops.examples] == kept


def test_lines_of_a_corpus_that_keeps_a_signal_whose_model_is_not_named(tmp_path: Path) -> None:
    model = PerplexityModel(2, 8)
    model.train([GOOD])
    model.write(tmp_path / "model.npz")
    signals: list[object] = [{"use": "perplexity", "model": str(tmp_path / "model.npz")}, "urls"]
    corpus = build_corpus(tmp_path, posts(10), signals=signals, **KEYS)
    lines = sum(doc.text.count("\n") + 1 for doc in corpus)
    one = surveys.survey(corpus.folder, corpus.manifest, ["latin_share"], [parse_condition("latin_share<=1")], "line")
    assert (one.measured, [each.column for each in one.signals]) == (lines, ["latin_share"])
    every = surveys.survey(corpus.folder, corpus.manifest, [], [], "line")
    assert [each.column for each in every.signals] == ["url_share", "urls_per_1000"]


@pytest.mark.parametrize("kept", [[], ["characters"]])
def test_a_column_is_shown_alone(tmp_path: Path, kept: list[str]) -> None:
    corpus = build_corpus(tmp_path, posts(10), signals=kept, **KEYS)
    found = surveys.survey(corpus.folder, corpus.manifest, ["hiragana_share"], [])
    assert [each.column for each in found.signals] == ["hiragana_share"]
    with pytest.raises(ConfigError, match="no signal that works here has the column 'hiragana'"):
        surveys.survey(corpus.folder, corpus.manifest, ["hiragana"], [])


def test_lines_are_measured_as_documents_are(tmp_path: Path) -> None:
    keys = KEYS | {"splitter": "none"}
    corpus = build_corpus(
        tmp_path, [*posts(3), {"title": "t", "text": f"{GOOD}\nABC\n{GOOD}"}], signals=["urls"], **keys
    )
    lines = [line for doc in corpus for line in doc.text.split("\n")]
    found = surveys.survey(corpus.folder, corpus.manifest, ["characters"], [parse_condition("characters>3")], "line")
    assert (found.documents, found.measured) == (len(corpus), len(lines))
    assert found.signals[0].quantiles["1"] == max(map(len, lines))
    [drops] = found.filters
    assert drops.documents == sum(len(line) <= 3 for line in lines)
    assert "ABC" in [example.excerpt for example in drops.examples]
    kept = surveys.survey(corpus.folder, corpus.manifest, [], [], "line")
    assert [each.column for each in kept.signals] == ["url_share", "urls_per_1000"]


def test_every_nth_document_of_a_large_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = build_corpus(tmp_path, posts(10), **KEYS)
    monkeypatch.setattr(surveys, "SAMPLE", 5)
    assert surveys.survey(corpus.folder, corpus.manifest, ["characters"], []).measured == 5


def test_the_command(tmp_path: Path, jprep: Run) -> None:
    corpus = build_corpus(tmp_path, [*posts(), HOSTILE], signals=["characters"], **KEYS)
    shown = jprep("corpus", "signals", corpus.folder, "--threshold", "japanese_share>=0.9").stdout
    assert "hiragana_share: 9 documents" in shown
    assert "█" in shown and "would drop" in shown
    assert "\x1b" not in shown and "\u202e" not in shown
    data = json.loads(jprep("corpus", "signals", corpus.folder, "--json").stdout)
    assert data["measured"] == 9
    assert "9 lines measured" in jprep("corpus", "signals", corpus.folder, "--per", "line").stdout


def test_without_kept_signals_the_command_tells_how_to_measure_some(tmp_path: Path, jprep: Run) -> None:
    corpus = build_corpus(tmp_path, posts(), **KEYS)
    assert "e.g. --signal characters" in jprep("corpus", "signals", corpus.folder).stderr
    assert jprep("corpus", "signals", corpus.folder, "--signal", "characters").stderr == ""


def test_what_a_preset_does_not_run_is_named_once(tmp_path: Path) -> None:
    corpus = build_corpus(tmp_path, posts())
    program = [sys.executable, "-c", "from jprep.cli.main import main; main()"]
    options = ["--preset", "swallow-v1", "--workers", "2", "-o", tmp_path / "filtered"]
    command = [*program, "corpus", "filter", corpus.folder, *options]
    filtering = subprocess.run(command, check=True, capture_output=True, text=True)
    assert [line for line in filtering.stderr.split("\n") if "does not run" in line] == [
        "warning: the preset swallow-v1 does not run footers, language, ng_hosts, ng_words of the original: "
        "see docs/presets.md"
    ]
