"""A corpus whose titles, texts, addresses, file names and options try to be more than text."""

from __future__ import annotations

import json
from pathlib import Path

from jprep import Corpus
from jprep.corpus.config import decode_recipe

SCRIPT = "<script>window.hostile=1</script>"
IMAGE = "<img src=x onerror='window.hostile=1'>"
BREAKOUT = "\"'></textarea></style></title></svg><svg onload=window.hostile=1>"
TEMPLATE = "{{ 7*7 }}{% raw %}"
ESCAPES = "赤い\x1b[31m文字\x1b]0;title\x07"
REVERSED = "表\u202e示は逆\u2066になる\u200b。"
LINK = "javascript:window.hostile=1"
MARKS = (SCRIPT, IMAGE, BREAKOUT, TEMPLATE, REVERSED, ESCAPES)
PLAIN = "これは普通の文書です。日本語の文が続きます。"
LONG = "長い行の文です。" * 1_250_000  # 10 million characters, 30 MB


def write_hostile_corpus(folder: Path) -> Corpus:
    """Build the corpus in `folder/corpus` from an input beside it."""
    name = f"入力{IMAGE.replace('/', '')}\u202e.jsonl"
    rows = [
        {
            "id": f"{number}{mark}",
            "title": f"{mark}題{number}",
            "url": LINK,
            "text": f"{PLAIN}{mark}\n{PLAIN}{number}",
            "note": mark,
        }
        for number, mark in enumerate(MARKS)
    ]
    rows += [
        {"id": f"short{n}{mark}", "title": mark, "url": LINK, "text": f"短{mark[:8]}"} for n, mark in enumerate(MARKS)
    ]
    rows += [{"id": f"code{n}", "title": mark, "text": mark * 20} for n, mark in enumerate(MARKS)]
    rows += [{"id": f"plain{n}", "title": "", "text": f"{PLAIN * (1 + n % 9)}これは{n}番目です。"} for n in range(200)]
    rows += [{"id": "long", "title": "長" * 100_000, "url": "https://example.com/" + "a" * 5000, "text": LONG}]
    rows += [{"id": "surrogates", "title": "絵文字😀‍👩‍👧", "text": f"{PLAIN}😀‍👩‍👧𠮷野家\u0301\u0301\u0301"}] * 2
    path = folder / "inputs" / name
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    reader = {"use": "jsonl", "id": "id", "title": "title", "url": "url", "meta": ["note"]}
    marks = {"use": "sentence_end", "marks": f"。{SCRIPT}"}
    source = {"name": "web", "paths": [str(path)], "reader": reader, "licence": SCRIPT, "homepage": LINK}
    filters = [{"use": "length", "min_chars": 20}, "japanese", "symbols", "urls", marks, "repeated_lines"]
    corpus = {"sources": [source], "filters": filters}
    raw = {"name": "hostile", "description": SCRIPT, "corpus": corpus}
    return Corpus.build(decode_recipe(raw), folder / "corpus")
