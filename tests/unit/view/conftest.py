"""A small corpus whose titles and texts are hostile, and clients of its pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from jprep.corpus.document import SENTENCE, WORD, Document, Reject
from jprep.corpus.store import Manifest, row_writer, write_manifest
from jprep.engine.fingerprint import fingerprint
from jprep.view.server import Viewer, application

ADDRESS = "http://127.0.0.1:8765"
SCRIPT = "<script>alert(1)</script>"
LONG = "長" * 3_000_000 + "針" + "長" * 400_000


def write_corpus(folder: Path, parts: Sequence[Sequence[Document]], rejects: Sequence[Reject] = ()) -> Path:
    """Write a finished corpus with some documents in each of its files."""
    made, dropped = [], []
    for number, documents in enumerate(parts):
        with row_writer(folder, f"documents/0000-source-{number:06d}.parquet", Document, {}) as writer:
            writer.add(documents)
        made.append(writer.output)
    with row_writer(folder, "rejects/documents-0000-source-000000.rejects", Reject, {}) as writer:
        writer.add(rejects)
    dropped.append(writer.output)
    made_from: dict[str, Any] = {"documents": {"segmenter": {"name": "none"}, "sources": []}}
    sources = sorted({document.source for documents in parts for document in documents})
    counted: dict[str, int] = {}
    for reject in rejects:
        name = f"{reject.step}/{reject.reason}"
        counted[name] = counted.get(name, 0) + 1
    write_manifest(
        folder,
        Manifest(
            jprep="0.1.0", format=2, name=f"hostile {SCRIPT}", signature="", fingerprint=fingerprint(made_from),
            made_from=made_from, sources=[{"name": name, "files": []} for name in sources], totals={}, counts={},
            rejects=counted, parts=[part for part in made if part], reject_parts=[part for part in dropped if part],
        ),
    )  # fmt: skip
    return folder


def document(number: int, title: str, text: str, **more: Any) -> Document:
    """Return a document; its words are pairs of characters, its sentences end in 。."""
    words = "\n".join(
        SENTENCE.join(
            WORD.join(part[at : at + 2] for at in range(0, len(part), 2))
            for part in line.replace("。", "。\0").split("\0")
            if part
        )
        for line in text.split("\n")
    )
    return Document(f"source:{number}", more.pop("source", "source"), title, more.pop("url", ""), text, words, **more)


HOSTILE = [
    document(1, SCRIPT, f"本文。{SCRIPT}\n<img src=x onerror=alert(2)>\x1b[31m赤", url="javascript:alert(3)"),
    document(2, '"><svg onload=alert(4)>', "\u202e逆さ\u2066", meta={SCRIPT: "'\"><b>"}, url="data:text/html,x"),
    document(
        3, "{{ 7 * 7 }}{% raw %}", "東京の中の大阪。\n二行目。", source='"><i>', url="https://example.com/?a=1&b=2"
    ),
    document(4, "", LONG),
    document(5, "題" * 100_000, "短い。"),
    document(6, "空\x00白", "零\x00字"),
]
REJECTS = [
    Reject("source:7", SCRIPT, "filter.length", "too_short", f"短{SCRIPT}"),
    Reject("source:8", "転送", "reader.wikipedia", "redirect", "東京"),
]


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of hostile documents in two files; tests do not write there."""
    return write_corpus(tmp_path_factory.mktemp("hostile") / "corpus", [HOSTILE[:3], HOSTILE[3:]], REJECTS)


@pytest.fixture
def open_client() -> Iterator[Callable[..., TestClient]]:
    """Opens the pages of a corpus: `open_client(folder, tokenizer, inputs)`."""
    viewers = []

    def make(folder: Path, *more: Any) -> TestClient:
        viewers.append(Viewer(folder, *more))
        return TestClient(application(viewers[-1]), base_url=ADDRESS, raise_server_exceptions=False)

    yield make
    for viewer in viewers:
        viewer.close()


@pytest.fixture
def client(hostile: Path, open_client: Callable[..., TestClient]) -> TestClient:
    """The pages of the hostile corpus."""
    return open_client(hostile)
