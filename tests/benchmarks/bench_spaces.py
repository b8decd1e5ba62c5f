"""Spaces that texts lose and gain when words are separated by spaces, as published, and with jprep's word marks.

The published way deletes spaces with neologdn, joins Juman++'s words with spaces, and leaves these in what a model
generates; whoever removes them removes a text's own spaces too. jprep marks words by U+001F beside the text.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jprep.corpus.api import Corpus
from jprep.corpus.build import build
from jprep.corpus.config import decode_recipe, make_step
from jprep.corpus.document import SENTENCE, UNMARK, WORD
from jprep.engine.executors.local import Local
from jprep.engine.runner import SilentProgress
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.train import train
from jprep.tokenizer.training_data import CorpusTrainingData
from tests.benchmarks.measure import SHARED

LINES, VOCABULARY = 4_000, 400
HANGUL = (
    "오늘은 날씨가 아주 좋아서 친구와 함께 강가를 걸었습니다.",
    "도서관에서 빌린 책은 다음 주 금요일까지 돌려주어야 합니다.",
    "새로 문을 연 식당은 점심 시간마다 줄이 길게 늘어섭니다.",
    "그는 매일 아침 여섯 시에 일어나 한 시간 동안 달리기를 합니다.",
    "이 모델은 짧은 문장을 읽고 빠진 낱말을 하나씩 채웁니다.",
    "지난 겨울에는 눈이 많이 내려 학교가 사흘 동안 문을 닫았습니다.",
    "우리는 기차를 타고 바다가 보이는 작은 마을로 여행을 떠났습니다.",
    "할머니께서 보내 주신 감자와 옥수수를 이웃과 나누어 먹었습니다.",
)
"""Written for this benchmark: the shared data has no Korean text."""


def lines_of(name: str) -> Iterator[str]:
    with gzip.open(SHARED / "data/web" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            yield from filter(None, map(str.strip, json.loads(line)["text"].split("\n")))


def texts() -> dict[str, list[str]]:
    """Return lines of each language; English ones are those of technical documents that are nearly all ASCII."""
    japanese = [line for line in lines_of("jsquad_contexts") if not line.isascii()]
    english = [line for line in lines_of("cpprefjp") if line.isascii() and line.count(" ") > 5 and line[0].isalpha()]
    return {"Japanese": japanese[:LINES], "English": english[:LINES], "Hangul": list(HANGUL)}


def spaces(lines: list[str]) -> int:
    return sum(line.count(" ") for line in lines)


def corpus(folder: Path, lines: list[str], normalizers: list[Any]) -> Corpus:
    """Build a corpus with a document for each line."""
    folder.mkdir(parents=True)
    folder.joinpath("text.txt").write_text("\n".join(lines), encoding="utf-8")
    source = {"name": "t", "paths": [str(folder / "text.txt")], "reader": {"use": "text", "documents": "line"}}
    section = {"sources": [source], "normalizers": normalizers, "splitter": "none", "segmenter": "pointwise"}
    recipe = decode_recipe({"name": "spaces", "corpus": section | {"dedup": {"documents": False}}})
    build(recipe, folder / "corpus", Local(1), SilentProgress())
    return Corpus(folder / "corpus")


def decoded(folder: Path, made: Corpus, lines: list[str]) -> list[str]:
    """Train a small tokenizer that is guided by words; return lines after encoding and decoding."""
    config = TokenizerConfig(model="byte-bpe", vocab_size=VOCABULARY, boundaries="train")
    train(CorpusTrainingData(made), config, folder, Local(1), SilentProgress())
    tokenizer = load_tokenizer(folder)
    return [tokenizer.decode(tokenizer.encode(line)) for line in lines]


def row(language: str, lines: list[str], folder: Path) -> None:
    """Print the spaces of a text after each step of both ways."""
    cleaned = [make_step("normalizer", "neologdn").apply(line) for line in lines]
    made = corpus(folder / "kept", lines, [])
    marked = [document.words for document in made.documents(["words"])]
    joined = [" ".join(words.replace(SENTENCE, WORD).replace(WORD, " ").split()) for words in marked]
    figures = [
        spaces(lines),
        spaces(cleaned),
        spaces(joined),
        spaces([line.replace(" ", "") for line in joined]),
        spaces([words.translate(UNMARK) for words in marked]),
        spaces(decoded(folder / "tokenizer", made, lines)),
    ]
    print(f"{language:12}", *(f"{figure:14,}" for figure in figures), sep="", flush=True)


def main() -> None:
    if not (SHARED / "data/web").is_dir():
        raise SystemExit("no real data: JPREP_SHARED names no folder with it")
    columns = ("own", "neologdn", "words joined", "joins removed", "word marks", "decoded")
    print(f"{'spaces':12}", *(f"{column:>14}" for column in columns), sep="")
    with tempfile.TemporaryDirectory() as name:
        for language, lines in texts().items():
            row(language, lines, Path(name) / language)


if __name__ == "__main__":
    main()
