"""Train the shipped model: `python -m jprep.corpus.signals.language.training TEXTS.jsonl -o model.npz`.

Each line of the input is `{"class": "japanese", "source": "…", "text": "…"}`; classes are japanese, chinese, korean and
other. Mojibake and junk are made here. Every tenth text, and every text of a source named by `--held-out`, is used for
the evaluation only.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jprep.corpus.code_points import code_points
from jprep.corpus.signals.language.model import NAMES, LanguageModel, read_model, write_model
from jprep.corpus.signals.language.ngrams import (
    HASH_BITS,
    LEVELS,
    UNIGRAMS,
    ZERO,
    hashed_places,
)
from jprep.corpus.signals.language.samples import MISREADINGS, junk, misread

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCKS = 256
_PLACES = UNIGRAMS + 2 * (1 << HASH_BITS)
_SHARES = {"japanese": 0.3, "chinese": 0.22, "korean": 0.1, "mojibake": 0.15, "junk": 0.1, "other": 0.13}
_SCRIPT_SHARES = {"japanese": 0.1, "chinese": 0.1, "korean": 0.1, "mojibake": 0.6, "other": 0}
_SCRIPTS = {"japanese": re.compile("[ぁ-ヿ一-鿿]"), "korean": re.compile("[가-힣]")}
_KANA, _KANJI = re.compile("[ぁ-ゖァ-ヺー]+"), re.compile("[一-鿿]+")
_LENGTHS = (10, 20, 50, 100, 200, 500, 1000, 2000)
_BATCH, _RATE, _EPOCHS, _DECAY = 256, 0.02, 6, 1e-6


class Text(NamedTuple):
    """A text of the training set."""

    name: str
    source: str
    text: str


class Sample(NamedTuple):
    """A piece of a text, or what was made of it: an index of NAMES and the text."""

    label: int
    text: str


def read_texts(paths: Sequence[Path]) -> Iterator[Text]:
    """Yield the texts of JSON-lines files."""
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                yield Text(row["class"], row["source"], row["text"])


def split(texts: Sequence[Text], held_out: Sequence[str]) -> tuple[list[Text], list[Text], list[Text]]:
    """Return the texts to train on, those held out as documents, and those of sources that are held out."""
    known = [text for text in texts if text.source not in held_out]
    train = [text for index, text in enumerate(known) if index % 10]
    return train, known[::10], [text for text in texts if text.source in held_out]


def draw(texts: Sequence[Text], count: int, rng: random.Random, length: int = 0) -> Iterator[Sample]:
    """Yield samples of all classes, each of a length, or of lengths from 8 to 1,500 if that is 0."""
    by_source: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for text in texts:
        by_source[text.name][text.source].append(text.text)
    for name, share in _SHARES.items():
        sources = by_source["japanese" if name == "mojibake" else name]
        weights = [sum(map(len, each)) ** 0.5 for each in sources.values()]
        for _ in range(round(share * count)):
            size = length or round(8 * (1500 / 8) ** rng.random())
            if name == "junk":
                yield Sample(NAMES.index(name), junk(size, rng))
                continue
            if not sources:
                break
            drawn = (rng.choice(rng.choices([*sources.values()], weights)[0]) for _ in range(20))
            pieces = (cut(text, size, rng) for text in drawn)
            piece = next((piece for piece in pieces if share_of_script(piece, name) >= _SCRIPT_SHARES[name]), "")
            if piece.strip():
                yield Sample(NAMES.index(name), _varied(piece, name, size, rng))


def cut(text: str, size: int, rng: random.Random) -> str:
    """Return a random piece of a text."""
    start = rng.randrange(max(len(text) - size, 0) + 1)
    return text[start : start + size]


def share_of_script(text: str, name: str) -> float:
    """Return the share of the characters that are written in the script of a class; 1 for other languages.

    A piece of a page in Japanese can be nothing but code.
    """
    if name == "other":
        return 1
    return len(_SCRIPTS["korean" if name == "korean" else "japanese"].findall(text)) / max(len(text), 1)


def _varied(text: str, name: str, size: int, rng: random.Random) -> str:
    if name == "mojibake":
        return misread(text, *rng.choice(MISREADINGS))[:size]
    if name == "japanese" and rng.random() < 0.06:
        return "".join(chr(ord(char) + 0x60) if "ぁ" <= char <= "ゖ" else char for char in text)
    if name == "japanese" and rng.random() < 0.06:
        return _KANJI.sub("", text)
    if name == "japanese" and rng.random() < 0.15:
        return _KANA.sub(lambda run: run[0] if rng.random() < 0.3 else "", text)
    return text


class Features(NamedTuple):
    """The n-grams of some samples: places in the table of weights, the sample of each, and what each counts."""

    places: NDArray[np.int64]
    rows: NDArray[np.int64]
    values: NDArray[np.float64]


def features(texts: Sequence[str]) -> Features:
    """Return the n-grams of texts, the block of 256 characters of each character included."""
    places, rows, values = [], [], []
    for row, text in enumerate(texts):
        codes = code_points(text + "\n\0\0")
        length = len(codes) - 3
        pairs, triples = hashed_places(codes)
        single = np.minimum(codes[:length], UNIGRAMS - 1).astype(np.int64)
        double = pairs[:length].astype(np.int64) + UNIGRAMS
        triple = triples[: max(length - 1, 0)].astype(np.int64) + UNIGRAMS + (1 << HASH_BITS)
        found = np.concatenate([single, double, triple, _PLACES + block(single)])
        places.append(found)
        rows.append(np.full(len(found), row))
        values.append(np.full(len(found), 1 / max(length, 1)))
    return Features(np.concatenate(places), np.concatenate(rows), np.concatenate(values))


def block(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the block of each character: 256 code points, or all kanji, or all Hangul syllables."""
    blocks = codes >> 8
    blocks[(blocks >= 0x4E) & (blocks <= 0x9F)] = 0x4E
    blocks[(blocks >= 0xAC) & (blocks <= 0xD7)] = 0xAC
    return blocks


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of classes, shape [samples, classes]."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def fit(samples: Sequence[Sample], seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weights, shape [places, classes], and the bias of each class, by Adam."""
    size, classes = _PLACES + _BLOCKS, len(NAMES)
    weights = np.zeros((classes, size + 1))  # the last column is the bias
    mean, spread = np.zeros_like(weights), np.zeros_like(weights)
    order = np.random.default_rng(seed)
    steps = _EPOCHS * (len(samples) // _BATCH)
    for step in range(steps):
        if step % (len(samples) // _BATCH) == 0:
            shuffled = order.permutation(len(samples))
        chosen = shuffled[(step * _BATCH) % (len(samples) // _BATCH * _BATCH) :][:_BATCH]
        gradient = _gradient([samples[index] for index in chosen], weights)
        gradient += _DECAY * weights
        mean += 0.1 * (gradient - mean)
        spread += 0.001 * (gradient * gradient - spread)
        scaled = (mean / (1 - 0.9 ** (step + 1))) / (np.sqrt(spread / (1 - 0.999 ** (step + 1))) + 1e-6)
        weights -= _RATE * (1 - step / steps) * scaled
    return weights[:, :-1].T, weights[:, -1]


def _gradient(samples: Sequence[Sample], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    found = features([sample.text for sample in samples])
    count, (classes, size) = len(samples), weights.shape
    logits = np.stack(
        [np.bincount(found.rows, weights[k].take(found.places) * found.values, count) for k in range(classes)], axis=1
    )
    errors = softmax(logits + weights[:, -1])
    errors[np.arange(count), [sample.label for sample in samples]] -= 1
    errors /= count
    made = np.zeros_like(weights)
    for k in range(classes):
        made[k] = np.bincount(found.places, errors[found.rows, k] * found.values, size)
        made[k, -1] = errors[:, k].sum()
    return made


def quantize(weights: NDArray[np.float64]) -> tuple[NDArray[np.uint8], float]:
    """Return integer weights relative to the first class, blocks added to their characters, and their unit."""
    relative = weights[:, 1:] - weights[:, :1]
    relative[:UNIGRAMS] += relative[_PLACES + block(np.arange(UNIGRAMS))]
    relative = relative[:_PLACES]
    scale = float(np.quantile(np.abs(relative[np.abs(relative) > 0.01]), 0.999)) / (ZERO - 1)
    return np.clip(np.rint(relative / scale) + ZERO, 0, LEVELS - 1).astype(np.uint8), scale


def sharpen(model: LanguageModel, texts: Sequence[Text], rng: random.Random) -> LanguageModel:
    """Return a model with the factor of the logits that fits best at each length."""
    factors = []
    for length in _LENGTHS:
        samples = list(draw(texts, 2000, rng, length))
        factors.append(min(np.geomspace(0.3, 4, 24), key=lambda factor: _loss(model, samples, float(factor))))
    return model._replace(lengths=np.log2(np.array(_LENGTHS, float)), sharpness=np.array(factors))


def _loss(model: LanguageModel, samples: Sequence[Sample], factor: float) -> float:
    scores = predict(model._replace(sharpness=np.array([factor]), lengths=np.zeros(1)), samples)
    wanted = scores[np.arange(len(samples)), [sample.label for sample in samples]]
    return float(-np.log(np.maximum(wanted, 1e-9)).mean())


def predict(model: LanguageModel, samples: Sequence[Sample]) -> NDArray[np.float64]:
    """Return the scores of samples, shape [samples, classes]."""
    joined = "".join(sample.text + "\n" for sample in samples)
    starts = np.cumsum([0, *(len(sample.text) + 1 for sample in samples)])
    return model.scores(code_points(joined), starts)


def evaluate(model: LanguageModel, texts: Sequence[Text], rng: random.Random) -> Iterator[str]:
    """Yield the accuracy of each class at lengths of 20, 100 and 1,000 characters, as rows of a Markdown table."""
    groups = {source: [text for text in texts if text.source == source] for source in sorted({t.source for t in texts})}
    for length in (20, 100, 1000):
        whole = [sample for sample in draw(texts, 6000, rng, length) if sample.text.strip()]
        best = predict(model, whole).argmax(axis=1)
        labels = np.array([sample.label for sample in whole])
        shares = (
            f"{name} {(best[labels == k] == k).mean():.4f}" for k, name in enumerate(NAMES) if (labels == k).any()
        )
        yield f"| {length} | {' | '.join(shares)} |"
        for source, members in groups.items():
            label = NAMES.index(members[0].name)
            drawn = (cut(rng.choice(members).text, length, rng) for _ in range(1000))
            pieces = [Sample(label, text) for text in drawn if share_of_script(text, NAMES[label]) >= 0.1]
            yield f"|  | {source}: {(predict(model, pieces).argmax(axis=1) == label).mean():.4f} |"


def main() -> None:
    """Train, evaluate and write a model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--held-out", action="append", default=[], help="source for the evaluation only")
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    train, documents, sources = split(list(read_texts(options.texts)), options.held_out)
    rng = random.Random(options.seed)
    weights, bias = fit(list(draw(train, options.samples, rng)), options.seed)
    integers, scale = quantize(weights)
    relative = bias[1:] - bias[0]
    with options.output.open("wb+") as file:
        write_model(file, integers, scale, relative, np.zeros(1), np.ones(1))
        file.seek(0)
        model = sharpen(read_model(file), documents, rng)
    with options.output.open("wb") as file:
        write_model(file, integers, scale, relative, model.lengths, model.sharpness)
    for title, texts in (("held-out documents", documents), ("held-out sources", sources)):
        sys.stdout.writelines(f"{line}\n" for line in (title, *evaluate(model, texts, rng)))


if __name__ == "__main__":
    main()
