"""Pages of `jprep view` over a corpus of 1,000,000 short documents: seconds of each, and the server's peak memory.

The documents are made of a dump's sentences. `JPREP_BENCH_DOCUMENTS` is another number of them.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from jprep.corpus.document import SENTENCE, WORD, Document, Reject
from jprep.corpus.store import Manifest, row_writer, write_manifest
from jprep.engine.fingerprint import fingerprint
from tests.benchmarks.inputs import crawl, source_dump
from tests.benchmarks.measure import JPREP, MIB

DOCUMENTS = int(os.environ.get("JPREP_BENCH_DOCUMENTS", "1000000"))
FILES = 12
SOURCES = ("wiki", "web", "news")
RARE = "ズンドコベロンチョ"
TEXT = 20 * MIB


def sentences(folder: Path) -> list[str]:
    text = "".join(crawl(source_dump(folder), TEXT)).replace("\n", "")
    return [each for each in re.findall("[^。]+。", text) if 8 < len(each) < 120]


def documents(known: list[str], source: str, numbers: range) -> Iterator[Document]:
    """Documents of one to five sentences; the last one of all has a rare word."""
    chance = random.Random(numbers.start)
    for number in numbers:
        parts = chance.choices(known, k=chance.randint(1, 5))
        if number == DOCUMENTS - 1:
            parts.append(f"{RARE}。")
        words = SENTENCE.join(WORD.join(part[at : at + 2] for at in range(0, len(part), 2)) for part in parts)
        yield Document(f"{source}:{number}", source, f"題{number}", "", "".join(parts), words)


def write_corpus(folder: Path) -> Path:
    known, step = sentences(folder), -(-DOCUMENTS // FILES)
    made, dropped = [], []
    for file in range(FILES):
        source, numbers = SOURCES[file % 3], range(file * step, min((file + 1) * step, DOCUMENTS))
        name = f"{file:04d}-{source}-000000"
        with row_writer(folder / "corpus", f"documents/{name}.parquet", Document, {}) as writer:
            writer.add(documents(known, source, numbers))
        made.append(writer.output)
        with row_writer(folder / "corpus", f"rejects/documents-{name}.rejects", Reject, {}) as rejects:
            rejects.add(
                Reject(f"{source}:r{n}", f"題{n}", "filter.length", "too_short", known[n % 99]) for n in numbers[::10]
            )
        dropped.append(rejects.output)
    made_from = {"documents": {"segmenter": {"name": "none"}, "sources": []}}
    write_manifest(
        folder / "corpus",
        Manifest(
            jprep="0.1.0", format=2, name="bench", signature="", fingerprint=fingerprint(made_from),
            made_from=made_from,
            sources=[{"name": source, "files": []} for source in SOURCES], totals={}, counts={},
            rejects={"filter.length/too_short": sum(each.rows for each in dropped if each)},
            parts=[each for each in made if each], reject_parts=[each for each in dropped if each],
        ),
    )  # fmt: skip
    return folder / "corpus"


def pages() -> dict[str, str]:
    last = DOCUMENTS // 25
    return {
        "first page": "",
        "common word": f"?q={quote('日本')}",
        "the same, page 2": f"?q={quote('日本')}&page=2",
        "two common words": f"?q={quote('日本 年')}",
        "rare word": f"?q={quote(RARE)}",
        "no hit": "?q=zzzqqq",
        "one source": "?source=news",
        "long documents": "?min.characters=500",
        "id": f"?id={DOCUMENTS // 2}",
        "last page": f"?page={last}",
        "one source, deep page": f"?source=news&page={last // 4}",
        "a document": "documents/7/500",
        "rejects, no hit": "rejects?q=zzzqqq",
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        corpus = write_corpus(Path(name))
        size = sum(path.stat().st_size for path in corpus.rglob("*") if path.is_file())
        print(f"{DOCUMENTS:,} documents, {size / MIB:.0f} MiB")
        command = [JPREP, "view", str(corpus), "--port", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            address = json.loads(server.stdout.readline())["url"]
            for page, path in pages().items():
                begun = time.perf_counter()
                with urllib.request.urlopen(address + path) as answer:
                    answer.read()
                print(f"{page:28}{time.perf_counter() - begun:8.2f} s", flush=True)
            status = Path(f"/proc/{server.pid}/status")
            if status.exists():
                [peak] = re.findall(r"VmHWM:\s+(\d+)", status.read_text())
                print(f"{'peak memory':28}{int(peak) / 1024:8.0f} MiB")
            server.terminate()


if __name__ == "__main__":
    main()
