"""Wikitext to text: MB of UTF-8 source a CPU-second, and left-over mark-up, beside wikiextractor in the same run.

`JPREP_PEER_PYTHON` names a Python that has wikiextractor: it runs there, as a program of its own.
"""

from __future__ import annotations

import bz2
import html
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from jprep.corpus.readers.wikitext import Extractor, ExtractorConfig

SHARED = Path(os.environ.get("JPREP_SHARED", Path(__file__).parents[3] / "shared"))
SIGNS = ("[[", "]]", "{{", "}}", "{|", "|}", "<ref", "thumb", "px|", "Category:", "カテゴリ:", "（）", "()", "（、）")
ROUNDS = 3
PEER = """
import io, json, sys, time
from wikiextractor.extract import Extractor
pages = json.load(sys.stdin)
def run():
    out = []
    for number, (title, source) in enumerate(pages):
        page = Extractor(number, 0, "https://example.org", title, source.split("\\n"))
        out.append("\\n".join(page.clean_text(source, expand_templates=False)))
    return out
best = None
for _ in range(int(sys.argv[1])):
    start = time.process_time()
    texts = run()
    took = time.process_time() - start
    best = took if best is None else min(best, took)
json.dump([best, texts], sys.stdout)
"""

_PAGE = re.compile(r"<title>(.*?)</title>.*?<text[^>]*>(.*?)</text>", re.S)
_ARTICLE = re.compile(r"(?!(?:Template|テンプレート|Wikipedia|Help|Category|カテゴリ|プロジェクト):)")


def pages(dump: Path) -> list[tuple[str, str]]:
    """The articles of a dump that can be read whole; a benchmark needs no XML parser."""
    found = _PAGE.findall(bz2.decompress(dump.read_bytes()).decode("utf-8"))
    return [(html.unescape(title), html.unescape(text)) for title, text in found if _ARTICLE.match(title)]


def ours(articles: list[tuple[str, str]]) -> tuple[float, list[str]]:
    """The best of some rounds in CPU-seconds, and the texts."""
    best, texts = float("inf"), []
    for _ in range(ROUNDS):
        extractor = Extractor(ExtractorConfig())
        start = time.process_time()
        texts = [extractor.extract(source, title) for title, source in articles]
        best = min(best, time.process_time() - start)
    return best, texts


def peer(articles: list[tuple[str, str]]) -> tuple[float, list[str]] | None:
    """The same of wikiextractor in its own process; None without one."""
    python = os.environ.get("JPREP_PEER_PYTHON")
    if not python:
        return None
    run = subprocess.run([python, "-c", PEER, str(ROUNDS)], input=json.dumps(articles), capture_output=True, text=True)
    if run.returncode:
        print(run.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return None
    best, texts = json.loads(run.stdout)
    return best, texts


def row(name: str, megabytes: float, result: tuple[float, list[str]] | None) -> None:
    """Print one line: MB a CPU-second, ms a MB, characters kept, signs of mark-up left."""
    if result is None:
        print(f"  {name:14} not run: set JPREP_PEER_PYTHON to a Python that has wikiextractor")
        return
    took, texts = result
    left = sum(text.count(sign) for text in texts for sign in SIGNS)
    kept = sum(map(len, texts))
    pace = f"{megabytes / took:6.1f} MB/s  {took / megabytes * 1000:6.1f} ms/MB"
    print(f"  {name:14} {pace}  {kept:9} characters  {left:5} signs left")


def main() -> None:
    """Print the table."""
    for dump in sorted((SHARED / "data" / "wikitext").glob("jawiki-*-A.xml.bz2")):
        articles = pages(dump)
        megabytes = sum(len(source.encode()) for _, source in articles) / 1e6
        print(f"{dump.name}: {len(articles)} articles, {megabytes:.1f} MB")
        row("jprep", megabytes, ours(articles))
        row("wikiextractor", megabytes, peer(articles))


if __name__ == "__main__":
    main()
