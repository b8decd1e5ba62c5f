"""A small corpus of one's own texts, and what tests read in the page of a report."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from jprep import Corpus
from jprep.corpus.config import CorpusRecipe, decode_recipe

FILTERS = ["length", "japanese", "symbols", "urls", "sentence_end", "repeated_lines"]
READER = {"use": "jsonl", "title": "title"}
GOOD = "今日は図書館で本を読みました。そのあと、友だちと散歩に行きました。"


def build_corpus(folder: Path, records: Iterable[Mapping[str, Any]], **options: Any) -> Corpus:
    """Build `FOLDER/corpus` from `FOLDER/inputs/posts.jsonl`, with all filters and without words.

    Args:
        folder: where to write.
        records: objects with `text`, and perhaps `id` and `title`.
        options: keys of the section `corpus`.
    """
    path = folder / "inputs" / "posts.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    source = {"name": "posts", "paths": [str(path)], "reader": READER, "licence": "CC0"}
    raw = {"name": "small", "corpus": {"sources": [source], "segmenter": "none", "filters": FILTERS} | options}
    recipe: CorpusRecipe = decode_recipe(raw)
    return Corpus.build(recipe, folder / "corpus")


def posts(count: int = 5) -> list[dict[str, str]]:
    """Return some records that the filters keep, and one for each of some reasons to drop one."""
    kept = [
        {"title": f"日記{number}", "text": f"{GOOD}{number}回目です。Ｗｅｂ　にも書きました。"}
        for number in range(count)
    ]
    bad = ["短い", "This text is in another language, and there is no kana in it at all.", kept[0]["text"]]
    return [*kept, *({"title": f"捨てる{number}", "text": text} for number, text in enumerate(bad))]


class Page(HTMLParser):
    """What a page contains.

    Attributes:
        tags: how often each element occurs.
        ids: all ids.
        links: all targets of links and sources, in order.
        text: the visible text.
    """

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text, self._hidden = "", False
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self._hidden = tag == "style"
        for name, value in attrs:
            assert not name.startswith("on"), f"an event handler: {name}={value}"
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href", "action", "data", "srcset"):
                self.links.append(value or "")

    def handle_data(self, data: str) -> None:
        self.text += "" if self._hidden else data

    def check(self) -> Page:
        """Assert that the page loads nothing, runs nothing, and that its links lead somewhere."""
        assert not self.tags.keys() & {"script", "iframe", "object", "embed", "base", "form"}
        assert len(self.ids) == len(set(self.ids))
        for link in self.links:
            assert link == "data:," or (link.startswith("#") and link[1:] in self.ids), link
        return self


UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that no page may contain as they are."""
