"""Output paths that do not belong to a command, and the commands that write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from jprep.cli.main import cli
from jprep.errors import JprepError, MismatchError

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

PACK = ("dataset", "pack", "{in}/made/corpus", "--tokenizer", "{in}/tokenizer", "--set", "dataset.validation=0")

COMMANDS: dict[str, tuple[str, ...]] = {
    "corpus": ("corpus", "build", "{in}/corpus.toml", "--workers", "1", "-o"),
    "tokenizer": ("tokenizer", "train", "{in}/counts.tsv", "--counts", "--vocab-size", "270", "--workers", "1", "-o"),
    "dataset": (*PACK, "--workers", "1", "-o"),
    "corpus export": ("corpus", "export", "{in}/made/corpus", "--lines-per-file", "2", "--workers", "1", "-o"),
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
"""Commands that add to a directory with files of the user."""

Make = Callable[[Path], Path]


def made_of(*names: str, content: str = "mine") -> Make:
    """Create a directory with some files."""

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
    "unfinished corpus export": (made_of(".state/exporting.json", ".state/lines/1"), "an unfinished corpus export"),
    "unfinished tokenizer": (made_of(".state/training.json", ".state/counting/1"), "an unfinished tokenizer"),
    "unfinished dataset": (made_of(".state/encoding/stage.json"), "an unfinished dataset"),
    "unfinished run": (made_of("data.lock.json"), "an unfinished training run"),
    "unfinished dataset export": (made_of(".lock", "train.bin", content=""), "an unfinished dataset export"),
    "unfinished tokenizer export": (
        made_of(".export-lock", "dict.txt", content="tokenizer export\n"), "an unfinished tokenizer export",
    ),
    "finished corpus": (made_of("corpus.json", "documents/0000-a-000000.parquet"), "a finished corpus"),
    "finished corpus export": (
        made_of("export.json", content='{"lines_per_file": 9}'), "a finished corpus export",
    ),
    "finished tokenizer": (made_of("card.json", "tokenizer.json"), "a finished tokenizer"),
    "finished dataset": (made_of("dataset.json", "train.bin"), "a finished dataset"),
    "run": (made_of("job.json", "LOCK"), "a training run (job.json)"),
    "finished dataset export": (made_of("export.json", content='{"form": "arrow"}'), "a finished dataset export"),
    "finished model export": (
        made_of("export.json", "card.json", content='{"task": "mlm"}'), "a finished model export",
    ),
    "unfinished comparison": (made_of(".state/comparing.json"), "an unfinished comparison"),
    "finished comparison": (made_of("compare.json", "heldout.jsonl"), "a finished comparison"),
    "unfinished quality model": (made_of(".state/texts/1"), "an unfinished quality model"),
    "finished quality model": (made_of("quality.json", "weights.npy"), "a finished quality model"),
    "unfinished set of labels": (made_of(".state/judging.json"), "an unfinished set of labels"),
    "finished set of labels": (made_of("labels.json"), "a finished set of labels"),
    "folds": (made_of("fold-0/job.json"), "an unfinished set of runs for all folds"),
}  # fmt: skip


def call(command: str, inputs: Path, out: object) -> str:
    """Run a command on an output. Return the refusal, or ""."""
    words = [word.replace("{in}", str(inputs)) for word in COMMANDS[command]]
    try:
        cli.main([*words, str(out)], standalone_mode=False)
    except (JprepError, click.ClickException) as error:
        assert not isinstance(error, MismatchError)
        assert isinstance(error, click.ClickException) or (error.fix and error.where)
        return str(error)
    return ""


def snapshot(folder: Path) -> dict[str, Any]:
    """Return everything below a folder: kinds, contents, targets of links."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        kind: Any = path.readlink() if path.is_symlink() else "directory" if path.is_dir() else path.read_bytes()
        found[path.relative_to(folder).as_posix()] = kind
    return found
