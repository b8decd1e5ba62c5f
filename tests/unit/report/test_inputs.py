"""What a path holds is recognized; what is unfinished or nothing is refused with a fix."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jprep.errors import ConfigError
from jprep.report.build import build_report
from jprep.report.inputs import ReportInput, find_inputs
from jprep.report.section import ReportOptions
from tests.fakes.small_corpus import build_corpus, posts


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_corpus(tmp_path_factory.mktemp("small"), posts(1)).folder


def unfinished(folder: Path) -> Path:
    """Write what an interrupted build leaves."""
    (folder / ".state" / "documents").mkdir(parents=True)
    (folder / ".state" / "documents" / "0000-a-000000.json").write_text("{}")
    return folder


def test_a_corpus_is_found_by_its_directory_and_its_manifest(small: Path) -> None:
    assert find_inputs([small]) == [ReportInput("corpus", small)] == find_inputs([small / "corpus.json", small])


def test_an_output_that_is_given_twice_is_shown_once(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.parent)
    assert find_inputs([Path(small.name), small]) == [ReportInput("corpus", Path(small.name))]


@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("--beside", ReportOptions(beside=["t"])),
        ("--text", ReportOptions(texts=[Path("t")])),
        ("--samples", ReportOptions(prompts=["t"])),
    ],
)
def test_options_without_effect_are_refused(small: Path, option: str, options: ReportOptions) -> None:
    with pytest.raises(ConfigError, match=f"{option} has no effect: there is no (tokenizer|run) among the paths"):
        build_report([small], options)


def test_a_work_directory_gives_its_outputs_in_the_order_of_the_steps(small: Path, tmp_path: Path) -> None:
    for name in ("zoo/corpus", "jawiki/runs/torch", "jawiki/another", "jawiki/corpus"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(small, tmp_path / name)
    names = [each.path.relative_to(tmp_path).as_posix() for each in find_inputs([tmp_path])]
    assert names == ["jawiki/corpus", "jawiki/runs/torch", "jawiki/another", "zoo/corpus"]


def test_unfinished_work_is_an_error_alone_and_a_line_among_others(small: Path, tmp_path: Path) -> None:
    shutil.copytree(small, tmp_path / "corpus")
    unfinished(tmp_path / "other")
    with pytest.raises(ConfigError, match="not finished") as caught:
        find_inputs([tmp_path / "other"])
    assert "jprep corpus build" in caught.value.fix
    [finished, other] = find_inputs([tmp_path])
    assert not finished.unfinished and other.unfinished == f"jprep corpus build … -o {tmp_path}/other"


@pytest.mark.parametrize("name", ["nowhere", "empty", "text.txt"])
def test_nothing_to_report_on(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("")
    with pytest.raises(ConfigError) as caught:
        find_inputs([tmp_path / name])
    assert caught.value.fix and str(tmp_path) in caught.value.where


def test_links_are_not_followed(small: Path, tmp_path: Path) -> None:
    shutil.copytree(small, tmp_path / "corpus")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert len(find_inputs([tmp_path])) == 1
