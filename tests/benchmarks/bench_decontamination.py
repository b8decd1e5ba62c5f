"""Items of test sets that are found in documents, by kind of edit; clean documents in which one is found; and pace.

Each item is planted once, between the beginnings of a news article and of a chat; one that is found as a whole sentence
only, on a line of its own. Limits were chosen on one half of the items and the clean documents, by their CRC-32:
the argument `reported` measures the other half, `chosen` that half.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
import sys
import time
import zlib
from collections.abc import Callable, Sequence

from jprep.corpus.decontamination.search import ItemSearch
from tests.benchmarks.measure import SHARED

CLEAN = ("real_persona_chat", "quasi_reviews", "jawikinews_detok", "js_primer", "cpprefjp")
SIZES = (6, 10, 15, 20, 30, 80, 1 << 20)
KANA = [chr(code) for code in range(ord("ぁ"), ord("ん") + 1)]
Edit = Callable[[random.Random, str], str]


def texts_of(name: str) -> list[str]:
    with gzip.open(SHARED / "data/web" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


def changed(rng: random.Random, text: str, edits: int) -> str:
    """Delete, replace or insert a number of characters."""
    characters = list(text)
    for place in rng.sample(range(len(characters)), min(edits, len(characters))):
        characters[place] = rng.choice(["", rng.choice(KANA), characters[place] + rng.choice(KANA)])
    return "".join(characters)


EDITS: dict[str, Edit] = {
    "exact": lambda rng, text: text,
    "spaces": lambda rng, text: "".join(each + " " * (rng.random() < 0.2) for each in text),
    "punctuation": lambda rng, text: text.translate(str.maketrans("、。「」（）", "，．『』()")) + "!",
    "full width": lambda rng, text: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
    "1 in 20 characters": lambda rng, text: changed(rng, text, max(1, len(text) // 20)),
    "1 character": lambda rng, text: changed(rng, text, 1),
    "2 characters": lambda rng, text: changed(rng, text, 2),
    "3 characters": lambda rng, text: changed(rng, text, 3),
    "5 characters": lambda rng, text: changed(rng, text, 5),
}


def own_half(text: str, half: str) -> bool:
    """Return whether a text is in the half to be measured."""
    return half not in ("chosen", "reported") or (zlib.crc32(text.encode()) % 2 == 0) == (half == "chosen")


def recall(search: ItemSearch, items: Sequence[str], edit: Edit) -> None:
    """Print the share of the items that are found, of all and by length; all are those longer than whole sentences."""
    rng, around = random.Random(1), (texts_of("jawikinews_detok"), texts_of("real_persona_chat"))
    checked = [number for number, count in enumerate(search.compared) if count]
    hit = dict[int, bool]()
    for start in range(0, len(checked), 300):
        own = checked[start : start + 300]
        between = ["\n" if search.whole[n] else "" for n in own]
        docs = [
            rng.choice(around[0])[:300] + mark + edit(rng, items[n]) + mark + rng.choice(around[1])[:300]
            for n, mark in zip(own, between, strict=True)
        ]
        found = {(each.document, each.item) for each in search.find(docs)}
        hit |= {item: (document, item) in found for document, item in enumerate(own)}
    longer = [found for item, found in hit.items() if not search.whole[item]]
    shares = [f"{sum(longer) / len(longer):.2%}"]
    for low, high in itertools.pairwise(SIZES):
        own = [each for item, each in hit.items() if low <= search.characters[item] < high]
        shares.append(f"{sum(own) / len(own):.1%} of {len(own):,}" if own else "")
    print(" | ".join(shares))


def clean(search: ItemSearch, items: Sequence[str], docs: Sequence[str]) -> None:
    """Print how many other texts have an item, and the pace of the search."""
    found, began = 0, time.process_time()
    examples = list[str]()
    for start in range(0, len(docs), 1000):
        findings = search.find(docs[start : start + 1000])
        found += len({each.document for each in findings})
        examples += [f"{items[each.item]!r} in {docs[start + each.document]!r}" for each in findings]
    pace = sum(len(doc.encode()) for doc in docs) / (time.process_time() - began) / 1e6
    print(f"clean: {found} of {len(docs):,} documents; {pace:.0f} MB per CPU-second")
    for example in examples[:8]:
        print("  ", example)


def main(half: str = "") -> None:
    """Print the tables, of all data or of a half."""
    whole = [text for name in CLEAN for text in texts_of(name)]
    pieces = [text[at : at + 150] for text in whole for at in range(0, len(text), 150)]
    contexts = [text.partition("[SEP]")[2].strip() for text in texts_of("jsquad_contexts")]
    for name, items in (("jsquad_contexts", contexts), ("jglue_sentences", texts_of("jglue_sentences"))):
        items = [item for item in dict.fromkeys(items) if own_half(item, half)]
        search = ItemSearch([[item] for item in items])
        print(f"{name}: {len(items):,} items, {int((search.compared == 0).sum()):,} not looked for,", end=" ")
        print(f"{int((search.whole & (search.compared > 0)).sum()):,} as whole sentences")
        print("edit | all |", " | ".join(f"{low}+" for low in SIZES[:-1]))
        for kind, edit in EDITS.items():
            print(kind, end=" | ")
            recall(search, items, edit)
        for docs in (pieces, whole):
            clean(search, items, [doc for doc in docs if own_half(doc, half)])


if __name__ == "__main__":
    main(*sys.argv[1:])
