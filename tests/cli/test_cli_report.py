"""`jprep report`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.conftest import Run
from tests.fakes.small_corpus import Page


def test_a_report_of_a_corpus(corpus: Path, sample: Path, tmp_path: Path, jprep: Run) -> None:
    done = jprep("report", corpus, "--inputs", sample / "recipe.toml", cwd=sample, code=0)
    assert done.stdout.startswith("report.html  1 section") and done.stderr == ""
    page = (sample / "report.html").read_text()
    assert "disambiguation" in Page(page).check().text and "was not found" not in page
    other = jprep("report", corpus, "--inputs", sample / "recipe.toml", "-o", tmp_path / "a b.html", cwd=sample)
    assert (tmp_path / "a b.html").read_text() == page and f"{tmp_path / 'a b.html'}" in other.stdout
    (sample / "report.html").unlink()


def test_figures_as_json(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    done = jprep("report", corpus, "--json", cwd=tmp_path)
    [section] = json.loads(done.stdout)["sections"]
    assert section["kind"] == "corpus" and section["funnel"][0]["step"] == "reader.wikipedia"
    assert not list(tmp_path.iterdir())


def test_a_file_of_the_users_is_not_replaced_unasked(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    (tmp_path / "report.html").write_text("mine")
    refused = jprep("report", corpus, cwd=tmp_path, code=2)
    assert "not a report of jprep" in refused.stderr and (tmp_path / "report.html").read_text() == "mine"
    inside = jprep("report", corpus, "-o", corpus / "corpus.json", cwd=tmp_path, code=2)
    assert "expected a file" in inside.stderr


def test_a_work_directory_with_unfinished_work(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    shutil.copytree(corpus, tmp_path / "work" / "jawiki" / "corpus")
    (tmp_path / "work" / "jawiki" / "tokenizer" / ".state").mkdir(parents=True)
    (tmp_path / "work" / "jawiki" / "tokenizer" / ".state" / "training.json").write_text("{}")
    jprep("report", "work/jawiki", cwd=tmp_path)
    page = Page((tmp_path / "report.html").read_text()).check()
    assert "Overview" in page.text and "jprep tokenizer train … -o work/jawiki/tokenizer" in page.text


def test_errors_name_the_fix(tmp_path: Path, jprep: Run) -> None:
    assert "check the path" in jprep("report", tmp_path / "nowhere", code=2).stderr
    assert "nothing to report on" in jprep("report", tmp_path, code=2).stderr
