"""Time, memory and page size of `jprep report` on a corpus of a million short documents, and of a tenth of it.

`JPREP_BENCH_DOCUMENTS` sets the number. The limits are 60 seconds, 500 MB of memory and 5 MB of page; the time contains
comparing every shard with its hash, and reading a part of the input again.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import JPREP, run

DOCUMENTS = int(os.environ.get("JPREP_BENCH_DOCUMENTS", "1000000"))
NOUNS = [
    "私",
    "彼女",
    "先生",
    "学校",
    "図書館",
    "新聞",
    "電車",
    "朝ご飯",
    "写真",
    "映画",
    "音楽",
    "問題",
    "仕事",
    "旅行",
]
VERBS = [
    "見ました。",
    "読んだ。",
    "探している。",
    "作ります！",
    "忘れた？",
    "話しました。",
    "考えている。",
    "使いました。",
]
RECIPE = """
version = 1
name = "short"
[[corpus.sources]]
name = "posts"
licence = "CC0"
paths = ["posts.jsonl"]
reader = { use = "jsonl", title = "title" }
[corpus]
segmenter = "none"
filters = ["length", "japanese", "symbols", "urls", "sentence_end", "repeated_lines"]
"""


def documents(count: int) -> Iterator[str]:
    """Lines of JSON: sentences of random words; some too short, in English, of digits, repeated."""
    chance = random.Random(26)
    for number in range(count):
        text = "".join(f"{chance.choice(NOUNS)}を{chance.choice(VERBS)}" for _ in range(chance.randint(3, 9)))
        kind = number % 100
        if kind < 4:
            text = (
                "短い",
                "This text is in another language.",
                "2026-11-23 " * 6,
                "今日はいい天気ですね。散歩に行きました。",
            )[kind]
        yield json.dumps({"title": f"投稿{number}", "text": text}, ensure_ascii=False) + "\n"


def build(folder: Path, count: int) -> Path:
    """Build a corpus."""
    folder.mkdir()
    with (folder / "posts.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(documents(count))
    (folder / "recipe.toml").write_text(RECIPE.replace("posts.jsonl", str(folder / "posts.jsonl")))
    done = run([JPREP, "corpus", "build", str(folder / "recipe.toml"), "-o", str(folder / "corpus"), "--quiet"])
    if done.code:
        raise SystemExit(done.err)
    return folder


def report(folder: Path) -> str:
    """Measure the report of a corpus; return a line of the table."""
    begun = time.monotonic()
    page = folder / "report.html"
    command = [JPREP, "report", str(folder / "corpus"), "--inputs", str(folder / "recipe.toml"), "-o", str(page)]
    done = run(command)
    seconds = time.monotonic() - begun
    if done.code:
        raise SystemExit(done.err)
    return f"{seconds:12.1f}{done.cpu_s:12.1f}{done.peak / 1e6:12.0f}{page.stat().st_size / 1e6:12.2f}"


def main() -> None:
    print(f"{'documents':>12}{'seconds':>12}{'CPU s':>12}{'MB memory':>12}{'MB page':>12}")
    with tempfile.TemporaryDirectory() as name:
        for count in (DOCUMENTS // 10, DOCUMENTS):
            print(f"{count:12,}{report(build(Path(name) / str(count), count))}", flush=True)


if __name__ == "__main__":
    main()
