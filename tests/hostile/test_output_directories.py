"""Output options with paths of other commands or of the user: nothing changes, and the message names what was found."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jprep.cli.main import cli
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import CORPUS, DATASET, KINDS, STATE, find_outputs
from jprep.errors import ConfigError, JprepError
from jprep.train.launcher import launch
from tests.conftest import COMMAND, environment
from tests.fakes.numpy_backend import Numpy
from tests.fakes.output_places import (
    COMMANDS,
    FOREIGN,
    IMPOSSIBLE,
    OUTPUTS,
    PACK,
    RECIPE,
    SHARED,
    Make,
    call,
    dangling,
    made_of,
    snapshot,
)
from tests.fakes.small_work import small_work
from tests.fakes.trained_run import trained_run


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read; nobody writes there."""
    folder = tmp_path_factory.mktemp("inputs")
    trained_run(folder)
    small_work(folder)
    folder.joinpath("notes.txt").write_text("町の歴史を語る。\n" * 9, encoding="utf-8")
    folder.joinpath("counts.tsv").write_text("東京都\t9\n東京\t7\n", encoding="utf-8")
    folder.joinpath("corpus.toml").write_text(RECIPE.format(folder=folder), encoding="utf-8")
    call("corpus", folder, folder / "made" / "corpus")
    return folder


@pytest.fixture(autouse=True)
def fake_backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use the numpy backend for all names, and restore the working directory afterwards."""
    monkeypatch.setattr(launch, "load_backend", lambda name: Numpy())
    monkeypatch.setattr(launch, "worker_python", lambda backend, options=None: Path("python"))
    monkeypatch.chdir(tmp_path)


def refuses(command: str, inputs: Path, place: tuple[Make, str], tmp_path: Path) -> None:
    make, found = place
    (tmp_path / "mine").mkdir()
    out = make(tmp_path / "mine" / "out")
    before = snapshot(tmp_path)
    said = call(command, inputs, out)
    assert snapshot(tmp_path) == before
    assert found in said, said


@pytest.mark.parametrize("place", FOREIGN)
@pytest.mark.parametrize("command", [each for each in COMMANDS if each not in (*SHARED, "text")])
def test_files_of_others_are_refused(command: str, place: str, inputs: Path, tmp_path: Path) -> None:
    refuses(command, inputs, FOREIGN[place], tmp_path)


@pytest.mark.parametrize("place", FOREIGN)
@pytest.mark.parametrize("command", SHARED)
def test_files_of_others_stay_beside_what_may_lie_there(command: str, place: str, inputs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    out = FOREIGN[place][0](tmp_path / "mine" / "out")
    before = snapshot(tmp_path)
    assert not call(command, inputs, out)
    after = snapshot(tmp_path)
    assert {name: after[name] for name in before} == before and len(after) > len(before)


@pytest.mark.parametrize("place", IMPOSSIBLE)
@pytest.mark.parametrize("command", [each for each in COMMANDS if each != "text"])
def test_a_path_that_is_not_a_directory_is_refused(command: str, place: str, inputs: Path, tmp_path: Path) -> None:
    refuses(command, inputs, IMPOSSIBLE[place], tmp_path)


@pytest.mark.parametrize("place", OUTPUTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_another_kind_of_output_is_refused(command: str, place: str, inputs: Path, tmp_path: Path) -> None:
    if place.endswith(command.removeprefix("training ")):
        pytest.skip("its own kind")
    refuses(command, inputs, OUTPUTS[place], tmp_path)


KILLED = {
    "corpus": ("corpus", "build", "{in}/corpus.toml"),
    "corpus without dedup": ("corpus", "build", "{in}/corpus.toml", "--set", "corpus.dedup.documents=false"),
    "tokenizer": ("tokenizer", "train", "{in}/made/corpus", "--boundaries", "none", "--vocab-size", "300"),
    "dataset": PACK,
}


@pytest.mark.parametrize("kind", KILLED)
def test_unfinished_work_is_recognized(kind: str, inputs: Path, tmp_path: Path) -> None:
    words = [word.replace("{in}", str(inputs)) for word in KILLED[kind]]
    out = tmp_path / "mine" / "out"
    env = environment(JPREP_FAILPOINT="receipt.written")
    done = subprocess.run([COMMAND, *words, "--workers", "1", "-o", out], env=env, process_group=0, capture_output=True)
    assert done.returncode < 0, done.stderr
    assert [(found.kind.name, found.finished) for found in find_outputs(out)] == [(kind.partition(" ")[0], False)]
    (out / ".state" / "LOCK").write_bytes(b"")  # of an earlier version
    before = snapshot(tmp_path)
    for command in COMMANDS:
        if command != kind.partition(" ")[0]:
            assert f"an unfinished {kind.partition(' ')[0]}" in call(command, inputs, out)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", ["documents", "rejects", ".state"])
@pytest.mark.parametrize("more", [(), ("--restart",)])
def test_a_corpus_with_a_linked_folder_is_refused(
    name: str, more: tuple[str, ...], inputs: Path, tmp_path: Path
) -> None:
    """What lies behind the link is not the corpus's: it was deleted once."""
    out = shutil.copytree(inputs / "made" / "corpus", tmp_path / "corpus")
    shutil.rmtree(out / name, ignore_errors=True)
    made_of("0000-theirs-000000.parquet", "notes.txt")(tmp_path / "elsewhere")
    (out / name).symlink_to(tmp_path / "elsewhere")
    before = snapshot(tmp_path)
    with pytest.raises(JprepError, match=f"{name} is a symbolic link to .*elsewhere"):
        cli.main(["corpus", "build", str(inputs / "corpus.toml"), "-o", str(out), *more], standalone_mode=False)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("command", "name"),
    [("dataset export", "train"), ("training run", "checkpoints"), ("quickstart", "inputs"), ("tokenizer", ".state")],
)
def test_other_outputs_with_a_linked_folder_are_refused(
    command: str, name: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = {"dataset export": "export.json", "training run": "job.json", "tokenizer": "card.json", "quickstart": ""}
    out = made_of(marks[command] or "corpus/.state/LOCK", content='{"form": "arrow"}')(tmp_path / "mine" / "out")
    made_of("recipe.toml", "step-00000010/model.safetensors")(tmp_path / "mine" / "elsewhere")
    (out / name).symlink_to("../elsewhere")
    before = snapshot(tmp_path)
    arrow = ("dataset", "export", "{in}/dataset", "--format", "arrow", "-o")
    monkeypatch.setitem(COMMANDS, "arrow", arrow)
    said = call("arrow" if command == "dataset export" else command, inputs, out)
    assert snapshot(tmp_path) == before
    assert f"{name} is a symbolic link to ../elsewhere" in said


@pytest.mark.parametrize("restart", [(), ("--restart",)])
def test_files_of_others_among_shards_are_refused(restart: tuple[str, ...], inputs: Path, tmp_path: Path) -> None:
    """Programs read the folder whole."""
    out = shutil.copytree(inputs / "made" / "corpus", tmp_path / "corpus")
    (out / "documents" / "mine.parquet").write_text("mine")
    before = snapshot(out)
    with pytest.raises(JprepError, match=r"has not written documents/mine\.parquet"):
        cli.main(["corpus", "build", str(inputs / "corpus.toml"), "-o", str(out), *restart], standalone_mode=False)
    assert snapshot(out) == before


def test_files_of_others_beside_an_output_stay(inputs: Path, tmp_path: Path) -> None:
    out = shutil.copytree(inputs / "made" / "corpus", tmp_path / "corpus")
    made_of("README.md", "documents/.DS_Store")(out)
    for more in ([], ["--restart"]):
        command = ["corpus", "build", str(inputs / "corpus.toml"), "-o", str(out), "--workers", "1", *more]
        cli.main(command, standalone_mode=False)
        assert (out / "README.md").read_text() == (out / "documents/.DS_Store").read_text() == "mine"


def test_outputs_of_earlier_versions_are_known(inputs: Path, tmp_path: Path) -> None:
    """Their lock files are empty."""
    out = shutil.copytree(inputs / "made" / "corpus", tmp_path / "corpus")
    (out / ".state" / "LOCK").write_bytes(b"")
    before = snapshot(out)
    assert not call("corpus", inputs, out)
    assert snapshot(out) == before
    (out / "corpus.json").unlink()
    made_of("stage.json", content="")(out / ".state" / "documents")
    assert [str(found) for found in find_outputs(out)] == ["an unfinished corpus (.state/documents/stage.json)"]


@pytest.mark.parametrize("place", ["corpus.json", "documents/0000-notes-000000.parquet"])
def test_a_text_does_not_replace_a_file_of_an_output(place: str, inputs: Path) -> None:
    before = snapshot(inputs / "made")
    assert "a file of a finished corpus" in call("text", inputs, inputs / "made" / "corpus" / place)
    assert snapshot(inputs / "made") == before


def test_a_text_goes_through_a_link_and_not_over_a_device(inputs: Path, tmp_path: Path) -> None:
    target = tmp_path / "text.txt"
    target.touch()
    (tmp_path / "link").symlink_to("text.txt")
    assert not call("text", inputs, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and "町" in target.read_text(encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    assert "a device or a pipe" in call("text", inputs, tmp_path / "pipe")
    dangling(tmp_path / "gone")
    assert "which does not exist" in call("text", inputs, tmp_path / "gone")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("url", ["hf://datasets/a/b", "file:///srv/x", "http://a/b"])
def test_a_url_is_refused(command: str, url: str, inputs: Path, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    said = call(command, inputs, url)
    assert "cannot write to a URL" in said and url in said
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("command", ["training run", "folder of downloads", "quickstart", "recipe"])
@pytest.mark.parametrize("url", ["gs://bucket/x", "s3://bucket/x", "memory://bucket/x"])
def test_a_url_is_refused_where_work_in_progress_needs_a_file_system(
    command: str, url: str, inputs: Path, tmp_path: Path
) -> None:
    before = snapshot(tmp_path)
    said = call(command, inputs, url)
    assert "cannot write to a URL: its work in progress needs a file system" in said and url in said
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_path_is_refused(command: str, inputs: Path, tmp_path: Path) -> None:
    """`-o "$OUT"` without the variable would write to the working directory."""
    before = snapshot(tmp_path)
    assert "empty" in call(command, inputs, "")
    assert snapshot(tmp_path) == before


REFUSED: dict[str, tuple[str, ...]] = {
    "no input": ("corpus", "build", "--text", "absent.txt", "-o"),
    "damaged input": ("corpus", "build", "--wikipedia", "{in}/notes.txt", "--segmenter", "none", "-o"),
    "no step": ("corpus", "build", "{in}/corpus.toml", "--set", "corpus.splitter=absent", "-o"),
    "no counts": ("tokenizer", "train", "absent.tsv", "--counts", "-o"),
    "no text": ("tokenizer", "train", "absent.txt", "--segmenter", "none", "-o"),
    "no input for all steps": ("run", "{in}/absent.toml", "--until", "corpus", "--work"),
    "no words": ("corpus", "export", "{in}/made/corpus", "--format", "words", "-o"),
    "other tokenizer": ("dataset", "pack", "{in}/made/corpus", "--tokenizer", "{in}/absent", "-o"),
    "no form": ("tokenizer", "export", "{in}/tokenizer", "--format", "gpt2", "-o"),
    "no such checkpoint": ("export", "{in}/run", "--which", "7", "-o"),
    "nothing to fetch": ("corpus", "fetch", "{in}/gone.toml", "--folder"),
}


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_command_leaves_nothing(case: str, existing: bool, inputs: Path, tmp_path: Path) -> None:
    gone = RECIPE.format(folder=inputs).replace('url = "', 'url = "/absent')
    inputs.joinpath("gone.toml").write_text(gone, encoding="utf-8")
    inputs.joinpath("absent.toml").write_text(RECIPE.partition("files")[0].format(folder="absent"), encoding="utf-8")
    out = tmp_path / "new" / "out"
    if existing and case == "no words":
        out.parent.mkdir()
    elif existing:
        out.mkdir(parents=True)
    before = snapshot(tmp_path)
    words = [word.replace("{in}", str(inputs)) for word in REFUSED[case]]
    with pytest.raises(JprepError):
        cli.main([*words, str(out)], standalone_mode=False)
    assert snapshot(tmp_path) == before


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Be nobody for the time of the block, in a process that was root."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("command", [each for each in COMMANDS if each != "text"])
@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_directory_without_rights(command: str, mode: int, inputs: Path, tmp_path: Path) -> None:
    for folder in (inputs, tmp_path):  # pytest keeps its folders to itself
        for each in (folder, *folder.parents[:3]):
            if each.stat().st_uid == os.geteuid() and each != Path("/tmp"):
                each.chmod(0o755)
    out = tmp_path / "closed"
    out.mkdir()
    out.chmod(mode)
    before = snapshot(tmp_path) if mode else {}
    with unprivileged():
        said = call(command, inputs, out)
    out.chmod(0o755)
    assert "no permission to write" in said and "closed" in said, said
    assert snapshot(tmp_path) == (before or {"closed": "directory"})


def test_every_kind_is_tried() -> None:
    for kind in KINDS:
        assert kind.container or any(found.endswith(kind.name) for _, found in OUTPUTS.values()), kind.name


def test_a_damaged_lock_file_hides_no_unfinished_work(tmp_path: Path) -> None:
    state = tmp_path / "out" / STATE
    (state / "documents").mkdir(parents=True)
    (state / "documents" / "stage.json").write_text("{}")
    (state / "LOCK").write_text("corpuz\n")
    OutputDirectory(tmp_path / "out", CORPUS).check()
    with pytest.raises(ConfigError, match="found an unfinished corpus"):
        OutputDirectory(tmp_path / "out", DATASET).check()
