"""Regression tests of bugs found in reviews: lost data and untrue messages."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

import jprep
import jprep.corpus.text
from jprep import segment
from tests.conftest import COMMAND, ROOT, Run, digests, environment


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"これは{number}番目の文書である。\n" * 3, encoding="utf-8")
    return folder


def test_restart_throws_nothing_away_before_all_is_checked(texts: Path, tmp_path: Path, jprep: Run) -> None:
    good = tmp_path / "good"
    jprep("corpus", "build", "--text", texts / "0.txt", "--segmenter", "none", "-o", good)
    before = digests(good)
    jprep("corpus", "build", "--text", tmp_path / "none.txt", "--restart", "-o", good, code=2)
    jprep("corpus", "build", "--text", texts / "0.txt", "--segmenter", "nosuch", "--restart", "-o", good, code=2)
    assert digests(good) == before


def test_a_damaged_corpus_is_not_called_whole(texts: Path, tmp_path: Path, jprep: Run) -> None:
    command = ("corpus", "build", "--text", texts / "0.txt", "--segmenter", "none", "-o", tmp_path / "c")
    jprep(*command)
    whole = digests(tmp_path / "c")
    next((tmp_path / "c/documents").iterdir()).unlink()
    assert "--restart" in jprep(*command, code=2).stderr
    jprep(*command, "--restart")
    assert digests(tmp_path / "c") == whole


def test_a_source_may_be_called_as_temporary_files_are(texts: Path, tmp_path: Path, jprep: Run) -> None:
    recipe = tmp_path / "r.toml"
    source = f'[[corpus.sources]]\nname = "a.tmp-b"\nreader = "text"\npaths = ["{texts}/0.txt"]\n'
    recipe.write_text(f'\ufeffname = "r"\n{source}[corpus]\nsegmenter = "none"\n', encoding="utf-8")
    command = ("corpus", "build", recipe, "-o", tmp_path / "c")
    jprep(*command)
    whole = digests(tmp_path / "c")
    jprep(*command)
    assert digests(tmp_path / "c") == whole


def test_workers_import_nothing_from_the_current_folder(texts: Path, tmp_path: Path, jprep: Run) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "queue.py").write_text("raise SystemExit('imported from the current folder')")
    recipe = here / "r.toml"
    source = '[[corpus.sources]]\nname = "{0}"\nreader = "text"\npaths = ["{1}/{0}.txt"]\n'
    sources = "".join(source.format(number, texts) for number in range(3))
    recipe.write_text(f'name = "r"\n{sources}[corpus]\nsegmenter = "none"\n')
    jprep("corpus", "build", recipe, "--workers", 2, "-o", here / "c", cwd=here)
    jprep("corpus", "verify", here / "c")


def test_a_named_pipe_is_read_once(texts: Path, tmp_path: Path, jprep: Run) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_bytes((texts / "0.txt").read_bytes()), daemon=True).start()
    jprep("corpus", "build", "--text", pipe, "--segmenter", "none", "-o", tmp_path / "c")
    assert "0番目" in jprep("corpus", "export", tmp_path / "c").stdout


def test_files_of_an_interrupted_restart_are_deleted(texts: Path, tmp_path: Path, jprep: Run) -> None:
    command = ("corpus", "build", "--text", texts / "0.txt", "--segmenter", "none", "-o", tmp_path / "c")
    jprep(*command)
    whole = digests(tmp_path / "c")
    (tmp_path / "c/corpus.json").unlink()
    shutil.copy(next((tmp_path / "c/documents").iterdir()), tmp_path / "c/documents/9999-other-000000.parquet")
    jprep(*command)
    assert digests(tmp_path / "c") == whole


@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_a_corpus_is_exported_as_utf8_in_any_locale(
    variables: dict[str, str], texts: Path, tmp_path: Path, jprep: Run
) -> None:
    jprep("corpus", "build", "--text", texts / "0.txt", "--segmenter", "none", "-o", tmp_path / "c")
    command = [COMMAND, "corpus", "export", str(tmp_path / "c")]
    done = subprocess.run(command, capture_output=True, env=environment(**variables))
    assert done.returncode == 0 and "これは0番目の文書である。" in done.stdout.decode("utf-8")


def test_a_word_that_ends_inside_a_character_stops_nothing() -> None:
    sentence = "これが解かれるでせうか、そんな事が出來るでせうか。"
    assert "".join(segment(sentence)) == sentence


def test_too_deep_json_is_a_bad_record(tmp_path: Path, jprep: Run) -> None:
    deep = tmp_path / "deep.jsonl"
    deep.write_text('{"text": "こんにちは。", "m": ' + "[" * 100_000 + "]" * 100_000 + "}\n", encoding="utf-8")
    said = jprep("corpus", "build", "--jsonl", deep, "--segmenter", "none", "-o", tmp_path / "c", code=4).stderr
    assert "not a JSON object" in said and f"{deep}, byte 0" in said


def test_docstrings_tell_the_truth() -> None:
    assert doctest.testmod(jprep.corpus.text).failed == 0


def test_the_readme_tells_the_truth() -> None:
    names = {name: getattr(jprep, name) for name in jprep.__all__}
    said = re.findall(r"^(\w+\(.*\))\s+# (['\[].*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(said) == 3
    assert [eval(call, names) for call, _ in said] == [eval(result) for _, result in said]
