"""`jprep.tokenizer.train`: which directories it writes to, and what it leaves there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jprep.corpus.config import default_recipe
from jprep.engine.executors.local import Local
from jprep.engine.output_kinds import HASH_CACHE, STATE
from jprep.engine.runner import SilentProgress
from jprep.errors import ConfigError, MismatchError
from jprep.tokenizer.card import TokenizerCard
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.train import _differing, train
from jprep.tokenizer.training_data import InputTrainingData, TrainingData, WordCountTrainingData

LINES = "".join(f"{word}\t{count}\n" for word, count in {"東京都": 9, "東京": 7, "京都": 5, " a": 3}.items())


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    """Write a file of word counts."""
    path = tmp_path / "words.tsv"
    path.write_text(LINES, encoding="utf-8")
    return path


def trained(data: TrainingData, folder: Path, *, restart: bool = False, **options: Any) -> TokenizerCard:
    config = TokenizerConfig(**({"vocab_size": 269} | options))
    return train(data, config, folder, Local(1), SilentProgress(), restart=restart)


def held(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["README.md", "tokenizer.json", ".state/documents/stage.json", "corpus.json"])
@pytest.mark.parametrize("inputs", [False, True])
@pytest.mark.parametrize("restart", [False, True])
def test_other_directories_are_left_unchanged(
    name: str, inputs: bool, restart: bool, counts: Path, tmp_path: Path
) -> None:
    """A corpus also has a state directory; and inputs are only read once the directory is known to be usable."""
    folder = tmp_path / "mine"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("mine")
    data = (
        InputTrainingData(default_recipe({"text": [str(counts)]}), folder / HASH_CACHE)
        if inputs
        else WordCountTrainingData(counts)
    )
    found = "a finished corpus" if name == "corpus.json" else "an unfinished corpus" if "/" in name else name
    with pytest.raises(ConfigError, match=found):
        trained(data, folder, restart=restart)
    assert held(folder) == {name: b"mine"}


def test_barely_started_directory_is_reused(counts: Path, tmp_path: Path) -> None:
    for number, name in enumerate(["LOCK", "inputs.json", "training.json.tmp-99999999", "inputs.json.tmp-99999999"]):
        (tmp_path / str(number) / STATE).mkdir(parents=True)
        (tmp_path / str(number) / STATE / name).touch()
        trained(WordCountTrainingData(counts), tmp_path / str(number))
        assert set(held(tmp_path / str(number) / STATE)) == {"LOCK"}


def test_restart_with_another_model_removes_old_files(counts: Path, tmp_path: Path) -> None:
    folder, fresh = tmp_path / "t", tmp_path / "fresh"
    trained(WordCountTrainingData(counts), folder)
    assert (folder / "spm.model").exists()
    options: dict[str, Any] = {"model": "wordpiece", "vocab_size": 14}
    with pytest.raises(MismatchError, match="model: was"):
        trained(WordCountTrainingData(counts), folder, **options)
    trained(WordCountTrainingData(counts), folder, restart=True, **options)
    trained(WordCountTrainingData(counts), fresh, **options)
    assert held(folder) == held(fresh)


def test_added_files_are_kept(counts: Path, tmp_path: Path) -> None:
    trained(WordCountTrainingData(counts), tmp_path / "t")
    (tmp_path / "t/LICENSE").write_text("mine")
    trained(WordCountTrainingData(counts), tmp_path / "t")
    trained(WordCountTrainingData(counts), tmp_path / "t", restart=True)
    assert (tmp_path / "t/LICENSE").read_text() == "mine"


def test_word_counts_must_be_a_file(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path, Path("-")):
        with pytest.raises(ConfigError, match="no such file of word counts"):
            trained(WordCountTrainingData(path), tmp_path / "t")


def test_card_records_the_inputs(counts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained(WordCountTrainingData(counts), tmp_path / "t")
    made_from = json.loads((tmp_path / "t/card.json").read_bytes())["made_from"]
    assert made_from["config"]["vocab_size"] == 269 and set(made_from["material"]) == {"counts"}
    monkeypatch.setattr("jprep.tokenizer.learning.VERSION", -1)
    with pytest.raises(MismatchError, match=r"versions\.learning"):
        trained(WordCountTrainingData(counts), tmp_path / "t")


@pytest.mark.parametrize(("boundaries", "newline"), [("train", "token"), ("hard", "space")])
def test_readme_statements_are_true(boundaries: str, newline: str, counts: Path, tmp_path: Path) -> None:
    trained(WordCountTrainingData(counts), tmp_path / "t", boundaries=boundaries, newline=newline)
    readme = (tmp_path / "t/README.md").read_text(encoding="utf-8")
    assert ("nothing has to be done to raw text" in readme) == (boundaries == "train")
    assert ("A newline comes back as a space." in readme) == (newline == "space")


def test_single_word_needs_no_segmenter(counts: Path, tmp_path: Path) -> None:
    """A paragraph of one word has no mark; the machine that trains may have no analyser."""
    trained(WordCountTrainingData(counts), tmp_path / "t", boundaries="hard")
    assert _differing(Tokenizer(tmp_path / "t"), ["東京", "東京都\x1fa"]) == 0


def test_unfinished_directory_is_rejected(counts: Path, tmp_path: Path) -> None:
    trained(WordCountTrainingData(counts), tmp_path / "t")
    (tmp_path / "t/spm.model").unlink()
    with pytest.raises(ConfigError, match=r"is missing"):
        Tokenizer(tmp_path / "t")
