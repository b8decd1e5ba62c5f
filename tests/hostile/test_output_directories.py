"""Output options of all commands, given what is not theirs: nothing is altered; the message names what was found."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from jprep.cli.main import cli
from jprep.engine.output_kinds import KINDS, outputs_in
from jprep.errors import JprepError, MismatchError
from jprep.train import launching
from tests.fakes.numpy_backend import Numpy
from tests.fakes.small_work import small_work
from tests.fakes.trained_run import trained_run

RECIPE = """name = "small"
[[corpus.sources]]
name = "notes"
reader = "text"
paths = ["{folder}/notes.txt"]
files = [{{ url = "{folder}/notes.txt", name = "fetched.txt" }}]
[corpus]
normalizers = []
segmenter = "none"
"""

COMMANDS: dict[str, tuple[str, ...]] = {
    "corpus": ("corpus", "build", "{in}/corpus.toml", "--workers", "1", "-o"),
    "tokenizer": ("tokenizer", "train", "{in}/counts.tsv", "--counts", "--vocab-size", "270", "--workers", "1", "-o"),
    "dataset": (
        "dataset",
        "pack",
        "{in}/made/corpus",
        "--tokenizer",
        "{in}/tokenizer",
        "--set",
        "dataset.validation=0",
        "--workers",
        "1",
        "-o",
    ),
    "dataset export": ("dataset", "export", "{in}/dataset", "--format", "tfrecord", "-o"),
    "tokenizer export": ("tokenizer", "export", "{in}/tokenizer", "--format", "fairseq", "-o"),
    "training run": ("train", "{in}/small.toml", "--backend", "numpy", "--work", "{in}/work", "-o"),
    "model export": ("export", "{in}/run", "-o"),
    "folder of downloads": ("corpus", "fetch", "{in}/corpus.toml", "--folder"),
    "quickstart": ("quickstart", "-o"),
    "recipe": ("run", "{in}/corpus.toml", "--until", "corpus", "--workers", "1", "--work"),
    "text": ("corpus", "export", "{in}/made/corpus", "-o"),
}
SHARED = ("folder of downloads", "recipe")
"""They take a directory that holds files of the user's, and add to it."""

Make = Callable[[Path], Path]


def made_of(*names: str, content: str = "mine") -> Make:
    """A directory with some files."""

    def make(path: Path) -> Path:
        for name in names:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(content)
        return path

    return make


def linked(path: Path) -> Path:
    made_of("thesis.tex")(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    return path


def dangling(path: Path) -> Path:
    path.symlink_to("nowhere")
    return path


def a_file(path: Path) -> Path:
    path.write_text("mine")
    return path


def here(path: Path) -> Path:
    made_of("thesis.tex")(path)
    os.chdir(path)
    return Path()


FOREIGN: dict[str, tuple[Make, str]] = {
    "files": (made_of("thesis.tex", "figures/one.svg"), "thesis.tex"),
    "hidden files": (made_of(".gitignore"), ".gitignore"),
    "a link to a directory": (linked, "thesis.tex"),
    "the working directory": (here, "thesis.tex"),
    "names like ours": (made_of("documents/0000-a-000000.parquet", "README.md"), "documents"),
}
IMPOSSIBLE: dict[str, tuple[Make, str]] = {
    "a file": (a_file, "a file"),
    "a dangling link": (dangling, "a symbolic link to nowhere"),
}
OUTPUTS: dict[str, tuple[Make, str]] = {
    "unfinished corpus": (made_of(".state/LOCK", ".state/documents/stage.json", content=""), "an unfinished corpus"),
    "marked corpus": (made_of(".state/LOCK", ".state/other", content="corpus\n"), "an unfinished corpus"),
    "unfinished tokenizer": (made_of(".state/training.json", ".state/counting/1"), "an unfinished tokenizer"),
    "unfinished dataset": (made_of(".state/encoding/stage.json"), "an unfinished dataset"),
    "unfinished run": (made_of("data.lock.json"), "an unfinished training run"),
    "unfinished dataset export": (made_of(".lock", "train.bin", content=""), "an unfinished dataset export"),
    "unfinished tokenizer export": (
        made_of(".export-lock", "dict.txt", content="tokenizer export\n"), "an unfinished tokenizer export",
    ),
    "finished corpus": (made_of("corpus.json", "documents/0000-a-000000.parquet"), "a finished corpus"),
    "finished tokenizer": (made_of("card.json", "tokenizer.json"), "a finished tokenizer"),
    "finished dataset": (made_of("dataset.json", "train.bin"), "a finished dataset"),
    "finished run": (made_of("job.json", "LOCK"), "a finished training run"),
    "finished dataset export": (made_of("export.json", content='{"form": "arrow"}'), "a finished dataset export"),
    "finished model export": (
        made_of("export.json", "card.json", content='{"task": "mlm"}'), "a finished model export",
    ),
    "folds": (made_of("fold-0/job.json"), "an unfinished set of runs, one for each fold"),
}  # fmt: skip


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
def undisturbed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The numpy backend stands for all, and the working directory is brought back."""
    monkeypatch.setattr(launching, "light_half", lambda name: Numpy())
    monkeypatch.setattr(launching, "python_of", lambda half, options=None: Path("python"))
    monkeypatch.chdir(tmp_path)


def call(command: str, inputs: Path, out: object) -> str:
    """Run a command on an output; what it refused, or ""."""
    words = [word.replace("{in}", str(inputs)) for word in COMMANDS[command]]
    try:
        cli.main([*words, str(out)], standalone_mode=False)
    except (JprepError, click.ClickException) as error:
        assert not isinstance(error, MismatchError)
        assert isinstance(error, click.ClickException) or (error.fix and error.where)
        return str(error)
    return ""


def snapshot(folder: Path) -> dict[str, Any]:
    """All that lies below a folder: kinds, contents, where links lead to."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        kind: Any = path.readlink() if path.is_symlink() else "directory" if path.is_dir() else path.read_bytes()
        found[path.relative_to(folder).as_posix()] = kind
    return found


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
def test_what_is_no_directory_is_refused(command: str, place: str, inputs: Path, tmp_path: Path) -> None:
    refuses(command, inputs, IMPOSSIBLE[place], tmp_path)


@pytest.mark.parametrize("place", OUTPUTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_another_kind_of_output_is_refused(command: str, place: str, inputs: Path, tmp_path: Path) -> None:
    if place.endswith(command) or (place, command) == ("finished run", "training run"):
        pytest.skip("its own kind")
    if place.endswith("run") and command == "training run":
        pytest.skip("its own kind")
    refuses(command, inputs, OUTPUTS[place], tmp_path)


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
def test_other_outputs_with_a_linked_folder_are_refused(command: str, name: str, inputs: Path, tmp_path: Path) -> None:
    marks = {"dataset export": "export.json", "training run": "job.json", "tokenizer": "card.json", "quickstart": ""}
    out = made_of(marks[command] or "corpus/.state/LOCK", content='{"form": "arrow"}')(tmp_path / "mine" / "out")
    made_of("recipe.toml", "step-00000010/model.safetensors")(tmp_path / "mine" / "elsewhere")
    (out / name).symlink_to("../elsewhere")
    before = snapshot(tmp_path)
    COMMANDS["arrow"] = ("dataset", "export", "{in}/dataset", "--format", "arrow", "-o")
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
    assert [str(found) for found in outputs_in(out)] == ["an unfinished corpus (.state/documents/stage.json)"]


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
@pytest.mark.parametrize("url", ["gs://bucket/x", "s3://bucket/x", "hf://datasets/a/b", "file:///srv/x", "http://a/b"])
def test_a_url_is_refused(command: str, url: str, inputs: Path, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    said = call(command, inputs, url)
    assert "cannot write to a URL" in said and url in said
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
    "other tokenizer": ("dataset", "pack", "{in}/made/corpus", "--tokenizer", "absent", "-o"),
    "no form": ("tokenizer", "export", "{in}/tokenizer", "--format", "gpt2", "-o"),
    "no such checkpoint": ("export", "{in}/run", "--which", "7", "-o"),
    "nothing to fetch": ("corpus", "fetch", "{in}/gone.toml", "--folder"),
}


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_leaves_nothing(case: str, existing: bool, inputs: Path, tmp_path: Path) -> None:
    gone = RECIPE.format(folder=inputs).replace('url = "', 'url = "/absent')
    inputs.joinpath("gone.toml").write_text(gone, encoding="utf-8")
    out = tmp_path / "new" / "out"
    if existing:
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
    assert "may not write here" in said and "closed" in said, said
    assert snapshot(tmp_path) == (before or {"closed": "directory"})


def test_every_kind_is_tried() -> None:
    for kind in KINDS:
        assert kind.container or any(found.endswith(kind.name) for _, found in OUTPUTS.values()), kind.name
