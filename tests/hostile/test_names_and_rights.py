"""Names that are not UTF-8, folders that may not be read, directories in place of files: errors, not tracebacks."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from jprep import normalize, samples, segment, split_sentences
from jprep.errors import ConfigError
from jprep.train.models import max_positions
from tests.conftest import COMMAND, environment

WITHOUT = "-dac_override,-dac_read_search"
MORTAL = ["setpriv", f"--bounding-set={WITHOUT}", f"--inh-caps={WITHOUT}"] if os.geteuid() == 0 else []
"""Takes from root the right to read whatever it likes."""


def ended(words: list[bytes | str], cwd: Path, code: int, prefix: list[str] | None = None) -> str:
    """Run a command; return its errors."""
    command = [os.fsencode(word) for word in (*(prefix or []), COMMAND, *words)]
    done = subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, stdin=subprocess.DEVNULL)
    said = done.stderr.decode()
    # Retries may take longer than the interval at which progress is reported.
    assert done.returncode == code and "Traceback" not in said and "\njprep: " in f"\n{said}", said
    assert "where: " in said and "fix: " in said
    return said


@pytest.mark.parametrize(
    "words",
    [
        ["corpus", "build", "--cc100", b"\xff.txt", "-o", "c"],
        ["corpus", "build", "--cc100", "*.tx?", "-o", "c"],
        ["corpus", "build", "--cc100", "cc100.txt", "-o", b"c\xff"],
        ["corpus", "build", b"r\xff.toml"],
        ["corpus", "build", "recipe.toml", "--set", b"corpus.sources.0.licence='\xff'"],
        ["corpus", "stats", b"\xff"],
        ["tokenizer", "train", b"\xff.txt", "-o", "t"],
        ["text", "normalize", "--set", b"a\xff=1"],
        ["quickstart", "-o", b"\xff"],
    ],
)
def test_a_name_that_is_not_utf8_is_shown_and_refused(words: list[bytes | str], tmp_path: Path) -> None:
    samples.write_sample(tmp_path)
    shutil.copy(tmp_path / samples.CRAWL, os.fsencode(tmp_path) + b"/\xff.txt")
    said = ended(words, tmp_path, code=2)
    assert "not UTF-8" in said and r"\xff" in said
    assert not (tmp_path / "c" / "corpus.json").exists()


def test_a_folder_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    samples.write_sample(folder)
    assert r"\xff" in ended(["corpus", "build", "recipe.toml"], folder, code=2)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["corpus", "build", "--cc100", "closed/cc100.txt", "-o", "o/c"], 3),
        (["corpus", "build", "--cc100", "cc100.txt", "-o", "closed/c", "--segmenter", "none"], 3),
        (["corpus", "stats", "closed/corpus"], 3),
        (["corpus", "build", "closed/recipe.toml"], 2),
        (["tokenizer", "evaluate", "closed/t", "cc100.txt"], 3),
        (["dataset", "inspect", "closed/d"], 3),
        (["train", "recipe.toml", "--tokenizer", "closed/t", "--dataset", "closed/d", "--dry-run"], 3),
        pytest.param(["export", "closed/run"], 3, marks=pytest.mark.backends),  # retried for 22 seconds
        (["infer", "closed/run", "a"], 3),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, list) else "",
)
def test_unreadable_files_are_named(words: list[str], code: int, tmp_path: Path) -> None:
    samples.write_sample(tmp_path)
    samples.write_sample(tmp_path / "closed")
    if MORTAL and (not shutil.which("setpriv") or subprocess.run([*MORTAL, "true"], capture_output=True).returncode):
        pytest.skip("root may read everything here")
    (tmp_path / "closed").chmod(0)
    try:
        said = ended(words, tmp_path, code, prefix=MORTAL)
    finally:
        (tmp_path / "closed").chmod(0o755)
    assert "closed" in said


@pytest.mark.parametrize(
    "words",
    [
        ["corpus", "stats", "recipe.toml"],
        ["corpus", "build", "recipe.toml", "-o", "recipe.toml"],
        ["dataset", "pack", "recipe.toml", "--tokenizer", "cc100.txt"],
        ["tokenizer", "export", "cc100.txt", "--format", "fairseq", "-o", "o"],
        ["infer", "cc100.txt", "a"],
        ["export", "cc100.txt"],
        ["train", "."],
        ["corpus", "build", "recipe.toml/x.toml"],
        ["corpus", "stats", "a" * 300],
    ],
)
def test_a_file_in_place_of_a_folder_and_the_reverse(words: list[str], tmp_path: Path) -> None:
    samples.write_sample(tmp_path)
    assert "Errno" not in ended(words, tmp_path, code=2)


@pytest.mark.parametrize("name", ["corpus.json", "dataset.json", "card.json"])
def test_a_manifest_that_is_not_utf8_is_reported(name: str, tmp_path: Path) -> None:
    command = {
        "corpus.json": ["corpus", "stats", "."],
        "dataset.json": ["dataset", "inspect", "."],
        "card.json": ["tokenizer", "export", ".", "--format", "fairseq", "-o", "o"],
    }[name]
    (tmp_path / name).write_bytes(b'{"jprep": "0.1.0", "format": 1, "name": "\xff"}')
    assert name in ended(command, tmp_path, code=2)


@pytest.mark.parametrize(
    "config", [{"model_type": "mamba"}, {}, {"model_type": "gpt2"}, {"model_type": "gpt2", "n_positions": "x"}]
)
def test_a_model_of_another_type_is_reported(config: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="cannot run a model of type"):
        max_positions(config)


@pytest.mark.parametrize("call", [normalize, split_sentences, segment])
@pytest.mark.parametrize("value", [3, None, b"bytes", [1]])
def test_an_argument_that_is_not_text_is_a_type_error(call, value: object) -> None:
    with pytest.raises(TypeError, match="expected a str"):
        call(value)
