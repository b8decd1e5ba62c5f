"""What each preset drops of real text, and of the test sets of junk and of clean documents of odd form.

Prints a table in per cent of documents for every preset that works here, and the speed of each in MB of UTF-8 text per
CPU-second, its signals included.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from jprep.corpus.document import Document
from jprep.corpus.filters.presets.preset import PresetFilter, preset_names
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.splitters.rules import RuleSplitter
from jprep.errors import JprepError
from tests.benchmarks.bench_filters import SHARED, load

SETS = Path(__file__).parents[1] / "unit/corpus"
BATCH_CHARACTERS = 200_000


def load_set(name: str, held_out: bool) -> list[Document]:
    """Return the part of a test set that was held out (every third document), or the other part."""
    rows = [json.loads(line) for line in (SETS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    chosen = [row["text"] for index, row in enumerate(rows) if (index % 3 == 2) == held_out]
    return [Document(str(index), name, "", "", text) for index, text in enumerate(chosen)]


def batches(docs: Sequence[Document]) -> list[list[Document]]:
    """Divide documents into batches of some `BATCH_CHARACTERS`."""
    found: list[list[Document]] = [[]]
    size = 0
    for doc in docs:
        if size > BATCH_CHARACTERS:
            found.append([])
            size = 0
        found[-1].append(doc)
        size += len(doc.text)
    return found


def drops(preset: PresetFilter, docs: Sequence[Document]) -> tuple[Counter[str], float]:
    """Return the reasons of the documents that a preset drops, and the CPU-seconds."""
    begun = time.process_time()
    reasons = Counter(
        verdict.reason for some in batches(docs) for verdict in preset.judge_all(TextBatch(some)) if not verdict.keep
    )
    return reasons, time.process_time() - begun


def corpora() -> dict[str, list[Document]]:
    """Return the documents by name: the test sets, the shared data, and corpora named on the command line."""
    found = {
        f"{name}, {part}": load_set(name, held_out)
        for name in ("web_clean", "web_junk")
        for part, held_out in (("chosen on", False), ("held out", True))
    }
    files = sorted((SHARED / "data/web").glob("*.jsonl.gz")) + sorted((SHARED / "data/prose").glob("*.jsonl.gz"))
    found |= {path.name.removesuffix(".jsonl.gz"): load(path) for path in files}
    for corpus in sys.argv[1:]:
        found[Path(corpus).name] = read_corpus(Path(corpus))
    return found


def read_corpus(path: Path) -> list[Document]:
    """Return the documents of a corpus directory."""
    import pyarrow.parquet as pq

    texts = [text for part in sorted(path.rglob("*.parquet")) for text in pq.read_table(part)["text"].to_pylist()]
    return [Document(str(index), path.name, "", "", text) for index, text in enumerate(texts)]


def with_sentences(docs: list[Document]) -> list[Document]:
    """Mark the ends of sentences, which some presets measure."""
    splitter = RuleSplitter()
    for doc in docs:
        doc.words = splitter.mark(doc.text)
    return docs


def main() -> None:
    presets = {}
    for name in preset_names():
        try:
            presets[name] = PresetFilter(PresetFilter.Config(preset=name))
            drops(presets[name], [Document("", "", "", "", "試し。")])
        except JprepError as error:
            presets.pop(name, None)
            print(f"{name} does not work here: {error}")
    print(f"{'dropped, % of documents':28}{'docs':>8}", *(f"{name:>15}" for name in presets), sep="")
    for name, unsplit in corpora().items():
        docs = with_sentences(unsplit)
        size = sum(len(doc.text.encode()) for doc in docs) / 1e6
        print(f"{name:28}{len(docs):8}", end="")
        for preset in presets.values():
            reasons, seconds = drops(preset, docs)
            share = 100 * sum(reasons.values()) / len(docs)
            print(f"{share:8.2f} {size / seconds:3.0f}MB/s", end="", flush=True)
        print()


if __name__ == "__main__":
    main()
