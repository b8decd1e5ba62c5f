"""Speed and boundary F1 of the sentence splitter beside its peers. Run as `python -m tests.benchmarks.bench_sentences`.

Speed is MB of UTF-8 text per CPU-second, best of several: as in a build, which marks documents together, on raw and on
normalized text, and one document a call, as the peers are called. `ratio` is the first in konoha's. konoha
and ja_sentence_segmenter run under the Python that `JPREP_PEER_PYTHON` names. F1 is of boundaries inside the paragraphs
of kyoto_wiki-A: every fourth article, and the other three quarters, on which the rules were made.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

from jprep import split_sentences
from jprep.batching import batches_of
from jprep.corpus.normalizers.neologdn import NeologdnNormalizer
from jprep.corpus.splitters.rules import RuleSplitter
from tests.benchmarks.bench_normalize import DATA, REPEATS, corpora, megabytes, pace

KYOTO = DATA / "gold/kyoto_wiki-A.jsonl.gz"
BARE = re.compile(r"[^。！？!?]*[。！？!?]+|[^。！？!?]+$")
ENDS_IN_MARK = re.compile(r"[。！？!?．][」』）)”\"]*$")
PEERS = """
import json, sys, time
from konoha.sentence_tokenizer import SentenceTokenizer
from ja_sentence_segmenter.split.simple_splitter import split_newline, split_punctuation
def segmenter(text):
    return list(split_punctuation(split_newline(text), punctuations="。！？!?"))
for name, split in (("konoha", SentenceTokenizer().tokenize), ("ja_sentence_segmenter", segmenter)):
    paces = {}
    for corpus, texts in json.load(open(sys.argv[1], encoding="utf-8")).items():
        best = 1e9
        for _ in range(2):
            begun = time.process_time()
            for text in texts:
                split(text)
            best = min(best, time.process_time() - begun)
        paces[corpus] = sum(len(text.encode()) for text in texts) / 1e6 / best
    print(json.dumps({name: paces}))
"""

BATCH = 1 << 18  # characters of the documents that a build marks together

Split = Callable[[str], list[str]]


def peers(texts: dict[str, list[str]]) -> dict[str, dict[str, float]]:
    """Each peer's pace by corpus; none where no Python for peers is named."""
    python = os.environ.get("JPREP_PEER_PYTHON")
    if not python:
        return {}
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(texts, file)
        file.flush()
        run = subprocess.run([python, "-c", PEERS, file.name], capture_output=True, text=True, check=True)
    return {name: paces for line in run.stdout.splitlines() for name, paces in json.loads(line).items()}


def build_pace(splitter: RuleSplitter, texts: list[str]) -> float:
    together, best = list(batches_of(texts, BATCH, len)), float("inf")
    for _ in range(REPEATS):
        begun = time.process_time()
        for batch in together:
            splitter.mark_all(batch)
        best = min(best, time.process_time() - begun)
    return megabytes(texts) / best


def paragraphs(scored: bool) -> Iterator[tuple[list[str], str]]:
    """Gold sentences and the paragraph that they make, a newline kept only after one that ends in no end mark."""
    with gzip.open(KYOTO, "rt", encoding="utf-8") as articles:
        for i, article in enumerate(articles):
            for block in json.loads(article)["blocks"] if (i % 4 == 0) == scored else ():
                gold = [sentence for sentence in block.get("p", []) if sentence]
                if len(gold) > 1:
                    yield gold, "".join(s if ENDS_IN_MARK.search(s) else s + "\n" for s in gold).rstrip()


def ends(sentences: list[str]) -> set[int]:
    """Where sentences end, white space not counted."""
    places, total = set(), 0
    for sentence in sentences:
        total += len("".join(sentence.split()))
        places.add(total)
    return places


def f1(split: Split, scored: bool) -> float:
    hit = wrong = 0
    for gold, text in paragraphs(scored):
        wanted = ends(gold)
        found = ends([part for sentence in split(text) for part in sentence.split("\n")])
        inner = range(1, max(wanted))
        wanted, found = wanted.intersection(inner), found.intersection(inner)
        hit, wrong = hit + len(wanted & found), wrong + len(wanted ^ found)
    return 2 * hit / (2 * hit + wrong)


def main() -> None:
    texts = corpora()
    if not texts:
        print(f"no texts under {DATA}: nothing to measure")
        return
    texts["all"] = [document for documents in texts.values() for document in documents]
    theirs, rules, neologdn = peers(texts), RuleSplitter(), NeologdnNormalizer()
    columns = ("jprep", "normalized", "one a call", "bare regex", *theirs, "ratio")
    print(f"{'MB/s':22}", *(f"{column:>12.12}" for column in columns), sep="")
    for name, documents in texts.items():
        paces = [build_pace(rules, documents), build_pace(rules, list(map(neologdn.apply, documents)))]
        paces += [pace(rules.mark, documents), pace(BARE.findall, documents)]
        paces += [paces_of[name] for paces_of in theirs.values()]
        ratio = paces[0] / theirs["konoha"][name] if theirs else float("nan")
        print(f"{name:22}", *(f"{figure:12.0f}" for figure in paces), f"{ratio:12.2f}", sep="")
    if KYOTO.exists():
        for name, split in (("jprep", split_sentences), ("bare regex", BARE.findall)):
            print(f"F1 {name}: every fourth article {f1(split, True):.4f}, the others {f1(split, False):.4f}")
        print("F1 of others on every fourth article: konoha 0.9935, ja_sentence_segmenter 0.991, ssplit 0.990")


if __name__ == "__main__":
    main()
