"""Flip single bits in unfinished work and in finished artefacts, and classify the result of a resumed run or a use."""

from __future__ import annotations

import contextlib
import io
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from jprep import Corpus, load_tokenizer
from jprep.corpus.build import build
from jprep.corpus.config import decode_recipe
from jprep.dataset.exports import export_dataset
from jprep.dataset.lineage import find_origin, locate_document, text_around
from jprep.dataset.manifest import DatasetConfig, read_dataset
from jprep.dataset.pack import pack
from jprep.engine.executors.local import Local
from jprep.engine.output_kinds import HASH_CACHE
from jprep.engine.stage import Receipt
from jprep.errors import Interrupted, JprepError
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.export import export_tokenizer
from jprep.tokenizer.train import train
from jprep.tokenizer.training_data import CorpusTrainingData, InputTrainingData
from tests.conftest import digests

TEXT = ["吾輩は猫である。名前はまだ無い。\nどこで生れたかとんと見当がつかぬ。", "国境の長いトンネルを抜けると雪国。"]
CONFIG = TokenizerConfig(model="bpe", vocab_size=700, alphabet=300, boundaries="none")
SHARE = DatasetConfig(validation=0.2)


class Stopping:
    """Watches a run, and has it stop after so many tasks."""

    def __init__(self, after: int) -> None:
        self._left = after

    def begin(self, stage: str, total: int) -> None:
        """A stage begins."""

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        """Count a task."""
        self._left -= 1

    def __call__(self) -> bool:
        """Return whether it is to stop."""
        return self._left <= 0


class Inputs(NamedTuple):
    """What the work is made of: a folder of inputs, and an uninterrupted corpus and tokenizer."""

    sources: Path
    corpus: Path
    tokenizer: Path
    dataset: Path


Work = Callable[[Inputs, Path, Any, Any], object]
"""Makes something in a folder, or resumes it: called with the inputs, the folder, an executor and a progress."""


def recipe(sources: Path, segmenter: str, **dedup: Any) -> Any:
    """A corpus of three sources with duplicates between them; small shards, so that there are many tasks."""
    reader = {"use": "jsonl", "id": "id", "shard_mb": 0.004}
    named = [{"name": f"s{n}", "paths": [str(sources / f"{n}.jsonl")], "reader": reader} for n in range(3)]
    corpus = {"sources": named, "segmenter": segmenter, "dedup": {"lines": True, "line_min_chars": 8} | dedup}
    return decode_recipe({"name": "flipped", "corpus": corpus}, (), where="the test")


def write_sources(folder: Path) -> Path:
    """Write three files of documents that share some lines."""
    chance = random.Random(14)
    letters = "あいうえおかきくけこさしすせそたちつてとなにぬねの山川空海人日本語文章"
    folder.mkdir(parents=True)
    for source in range(3):
        lines = []
        for number in range(40):
            own = ["".join(chance.choices(letters, k=chance.randint(10, 60))) + "。" for _ in range(4)]
            text = "\\n".join([*own, f"この行は{number % 7}番目の決まり文句である。"])
            lines.append(f'{{"id": "{number}", "text": "{text}"}}\n')
        (folder / f"{source}.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def build_linked(inputs: Inputs, folder: Path, executor: Any, progress: Any) -> object:
    """A corpus whose shards without duplicates are linked into place."""
    return build(recipe(inputs.sources, "none"), folder, executor, progress)


def build_segmented(inputs: Inputs, folder: Path, executor: Any, progress: Any) -> object:
    """A corpus whose shards are all written again, with words."""
    return build(recipe(inputs.sources, "pointwise"), folder, executor, progress)


def build_near(inputs: Inputs, folder: Path, executor: Any, progress: Any) -> object:
    """A corpus without near-duplicates: the longest of those with a line in common stays."""
    near = {"bands": 8, "rows": 2, "keep": "longest"}
    return build(recipe(inputs.sources, "none", near=near), folder, executor, progress)


def train_on_corpus(inputs: Inputs, folder: Path, executor: Any, progress: Any) -> object:
    """A tokenizer of a finished corpus."""
    return train(CorpusTrainingData(Corpus(inputs.corpus)), CONFIG, folder, executor, progress)


def train_on_inputs(inputs: Inputs, folder: Path, executor: Any, progress: Any) -> object:
    """A tokenizer of inputs that become a corpus inside its folder."""
    material = InputTrainingData(recipe(inputs.sources, "none"), folder / HASH_CACHE)
    return train(material, CONFIG, folder, executor, progress)


def pack_corpus(inputs: Inputs, folder: Path, executor: Any, progress: Any) -> object:
    """A dataset."""
    return pack(Corpus(inputs.corpus), inputs.tokenizer, SHARE, folder, executor, progress)


WORK: dict[str, tuple[Work, tuple[int, ...]]] = {
    "linked corpus": (build_linked, (2, 4, 6, 7)),
    "segmented corpus": (build_segmented, (5, 7)),
    "corpus without near-duplicates": (build_near, (5, 6)),
    "tokenizer of a corpus": (train_on_corpus, (1, 2, 3)),
    "tokenizer of inputs": (train_on_inputs, (4, 8, 9, 10)),
    "dataset": (pack_corpus, (2, 4, 5, 8, 10)),
}
"""Kinds of work, and after how many tasks it is interrupted."""


def finish(work: Work, inputs: Inputs, folder: Path) -> None:
    """Do the work, or resume it, to its end."""
    never = Stopping(1 << 30)
    with closing(Local(1)) as executor:
        work(inputs, folder, executor, never)


def interrupt(work: Work, inputs: Inputs, folder: Path, after: int) -> None:
    """Do the work until so many tasks are committed."""
    stopping = Stopping(after)
    with closing(Local(1, stopping)) as executor, contextlib.suppress(Interrupted):
        work(inputs, folder, executor, stopping)
        raise AssertionError(f"the work has fewer than {after} tasks")


def make_inputs(folder: Path) -> Inputs:
    """Make everything uninterrupted."""
    inputs = Inputs(write_sources(folder / "sources"), *(folder / name for name in ("corpus", "tokenizer", "dataset")))
    finish(build_linked, inputs, inputs.corpus)
    finish(train_on_corpus, inputs, inputs.tokenizer)
    finish(pack_corpus, inputs, inputs.dataset)
    return inputs


def files_of(folder: Path) -> list[Path]:
    """The files below a folder that hold anything, but for the lock and the usage: no output depends on them."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    return sorted(path for path in files if path.name not in ("LOCK", "usage.json") and path.parent.name != "usage")


def flips(folder: Path, chance: random.Random, count: int) -> Iterator[tuple[Path, int]]:
    """Choose files and bits: directory by directory, so that the many receipts do not outweigh all else."""
    places: dict[Path, list[Path]] = {}
    for path in files_of(folder):
        places.setdefault(path.parent, []).append(path)
    turns = sorted(places)
    for number in range(count):
        path = chance.choice(places[turns[number % len(turns)]])
        yield path.relative_to(folder), chance.randrange(8 * path.stat().st_size)


def copy(source: Path, target: Path) -> Path:
    """Copy a folder with its hard links."""
    subprocess.run(["cp", "-a", source, target], check=True)
    return target


def flip(path: Path, bit: int) -> None:
    """Flip one bit, in place: other links to the file see it."""
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


class Outcomes(Counter[str]):
    """How often work came out the same, and how often it was refused."""

    def note(self, place: str, act: Callable[[], Any], expected: Any) -> None:
        """Use what was damaged, and see that it is refused with a clear error, or gives what it should."""
        try:
            found = act()
        except JprepError as error:
            assert error.where and error.fix and "Traceback" not in str(error), f"{place}: {error}"
            self["refused"] += 1
            return
        assert found == expected, f"{place}: silently wrong"
        self["same"] += 1


def _as_json(inputs: Inputs) -> str:
    out = io.StringIO()
    corpus = Corpus(inputs.corpus)
    corpus.export(out, "jsonl")
    return out.getvalue() + repr((list(corpus.rejects()), corpus.manifest.totals, corpus.manifest.counts))


def _encoded(inputs: Inputs) -> list[int]:
    ids: list[int] = load_tokenizer(inputs.tokenizer).encode_batch(TEXT).ids.tolist()
    return ids


def _origins(inputs: Inputs) -> list[Any]:
    dataset = read_dataset(inputs.dataset)
    places = [locate_document(inputs.dataset, split, token=3) for split in ("train", "validation")]
    origins = [find_origin(dataset, place, inputs.corpus) for place in places]
    return [places, origins, text_around(inputs.dataset, dataset, places[0], 3, inputs.tokenizer), dataset.counts]


def _exported(form: str) -> Callable[[Inputs], dict[str, str]]:
    def act(inputs: Inputs) -> dict[str, str]:
        out = inputs.dataset.parent / "export"
        export_dataset(inputs.dataset, inputs.tokenizer, form, out)
        return digests(out)

    return act


def _vocabulary(inputs: Inputs) -> dict[str, str]:
    out = inputs.dataset.parent / "vocabulary"
    export_tokenizer(inputs.tokenizer, "sentencepiece", out)
    return digests(out)


def _made(work: Work) -> Callable[[Inputs], dict[str, str]]:
    def act(inputs: Inputs) -> dict[str, str]:
        out = inputs.dataset.parent / "made"
        finish(work, inputs, out)
        return digests(out)

    return act


def _seen_whole(work: Work, name: str) -> Callable[[Inputs], dict[str, str]]:
    def act(inputs: Inputs) -> dict[str, str]:
        finish(work, inputs, getattr(inputs, name))
        return digests(getattr(inputs, name))

    return act


USES: dict[str, tuple[str, Callable[[Inputs], Any]]] = {
    "read a corpus": ("corpus", _as_json),
    "build a finished corpus": ("corpus", _seen_whole(build_linked, "corpus")),
    "train on a corpus": ("corpus", _made(train_on_corpus)),
    "pack a corpus": ("corpus", _made(pack_corpus)),
    "encode": ("tokenizer", _encoded),
    "export a tokenizer": ("tokenizer", _vocabulary),
    "train a finished tokenizer": ("tokenizer", _seen_whole(train_on_corpus, "tokenizer")),
    "pack with a tokenizer": ("tokenizer", _made(pack_corpus)),
    "pack a finished dataset": ("dataset", _seen_whole(pack_corpus, "dataset")),
    "inspect a dataset": ("dataset", _origins),
    "export as fairseq": ("dataset", _exported("fairseq")),
    "export as tfrecord": ("dataset", _exported("tfrecord")),
    "export as arrow": ("dataset", _exported("arrow")),
}
"""What is done with a finished artefact, and which one is damaged."""
