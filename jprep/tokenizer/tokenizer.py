"""A finished tokenizer as a library sees it: texts to ids, in bulk, and back."""

from __future__ import annotations

import atexit
import re
import threading
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from jprep.corpus.config import make_step
from jprep.corpus.document import UNMARK, WORD, Document
from jprep.corpus.processing import segment_documents
from jprep.errors import ConfigError, JprepError, MismatchError
from jprep.tokenizer.batch_encoding import (
    BatchEncoder,
    EncodedBatch,
    Ids,
    Offsets,
    SentencePieceEncoder,
    TokenizersEncoder,
    WordEncoder,
)
from jprep.tokenizer.card import TokenizerCard, read_card, verify_files
from jprep.tokenizer.formats.pieces import piece_bytes, read_pieces
from jprep.tokenizer.formats.tokenizer_json import SENTENCEPIECE_MODEL, TOKENIZER_JSON, batch_encoding_json
from jprep.tokenizer.special_tokens import SpecialTokens, special_tokens
from jprep.tokenizer.vocabulary import NEWLINE, SPACE

_SURROGATE = re.compile("[\ud800-\udfff]")
_AT_ONCE = {"bpe": 1024, "unigram": 512}
"""Characters that sentencepiece is given at a time: Unigram's sums stay below 16,384, up to which they are exact."""
_PAGE = 1 << 16  # characters normalised at a time


class Tokenizer:
    """A finished tokenizer in a folder.

        tokenizer = jprep.load_tokenizer("work/jawiki/tokenizer")
        ids, offsets = tokenizer.encode_batch(["すもももももも。", "Hello, world"])

    Its ids are those of `AutoTokenizer` on the same texts, but that it takes the spelling of a special token for text
    and adds none. It can be pickled, and used by several threads.

    Args:
        folder: where it lies.

    Attributes:
        folder: where it lies.
        card: what it is.
        special: its special tokens.

    Raises:
        ConfigError: there is no finished tokenizer there.
        MismatchError: its files are not what was written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.card: TokenizerCard = read_card(self.folder)
        verify_files(self.folder, self.card, (TOKENIZER_JSON, SENTENCEPIECE_MODEL))
        self.special: SpecialTokens = special_tokens(self.card.config)
        served = msgspec.json.decode((self.folder / TOKENIZER_JSON).read_bytes())
        self._pieces = read_pieces(served["model"])
        self._ids = {piece: number for number, piece in enumerate(self._pieces)}
        self._encoder = self._encoder_of(served)
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer, (self.folder,)

    def _encoder_of(self, served: dict[str, Any]) -> BatchEncoder:
        config = self.card.config
        encoder: BatchEncoder
        if config.model in _AT_ONCE:
            encoder = SentencePieceEncoder(
                self.folder / SENTENCEPIECE_MODEL, self._ids["<0x0A>"], _AT_ONCE[config.model]
            )
        else:
            encoder = TokenizersEncoder(batch_encoding_json(served, config, self.special))
        space = " " if config.model == "byte-bpe" else SPACE
        return WordEncoder(encoder, config, space) if config.boundaries == "hard" else encoder

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return len(self._pieces)

    def id_of(self, piece: str) -> int:
        """The id of a piece, as the exported files spell it; KeyError if there is none."""
        return self._ids[piece]

    def piece_of(self, number: int) -> str:
        """The piece of an id."""
        return self._pieces[number]

    @property
    def bos(self) -> int | None:
        """The id of what begins a text."""
        return self._ids.get(self.special.bos)

    @property
    def eos(self) -> int | None:
        """The id of what ends a text."""
        return self._ids.get(self.special.eos)

    @property
    def pad(self) -> int | None:
        """The id that fills up a batch."""
        return self._ids.get(self.special.pad)

    @property
    def unk(self) -> int | None:
        """The id of what has no piece."""
        return self._ids.get(self.special.unk)

    @property
    def mask(self) -> int | None:
        """The id that masks others."""
        return self._ids.get(self.special.mask)

    @property
    def newline_id(self) -> int | None:
        """The id of a newline; None where a newline is a space, or has no piece."""
        spelt = {"byte-bpe": "Ċ", "wordpiece": NEWLINE}.get(self.card.config.model, "<0x0A>")
        return self._ids.get(spelt) if self.card.config.newline == "token" else None

    def encode(self, text: str, *, normalized: bool = False) -> list[int]:
        """The ids of one text; see `encode_batch`."""
        ids: list[int] = self.encode_batch([text], normalized=normalized).ids.tolist()
        return ids

    def encode_batch(self, texts: Sequence[str], *, normalized: bool = False) -> EncodedBatch:
        """The ids of many texts. The spelling of a special token is text, and none is added.

        Under hard boundaries a text with U+001F is taken as a corpus's, normalised and segmented; any other is
        segmented here, as its corpus was.

        Args:
            texts: any number of them, newlines included.
            normalized: they went through the corpus's normalisers already.

        Raises:
            ConfigError: a segmenter is needed, and the tokenizer was made of word counts.
            MachineError: it is not installed.
            MismatchError: a step is not what it was when the tokenizer was trained.
        """
        if isinstance(texts, str):
            raise TypeError("encode_batch takes a list of texts; encode takes one")
        texts = _sound(texts)
        if self.card.config.boundaries == "hard":
            texts = self._marked(texts, normalized)
        elif not normalized and self._normalizers:
            texts = self._normalize([text.translate(UNMARK) for text in texts])
        if self.card.config.newline == "space":
            texts = [text.replace("\n", " ") for text in texts]
        return self._encoder(texts)

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """The text of some ids. Special tokens are written out; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_batch(np.asarray(ids, np.int32), np.array([0, len(ids)]))[0]

    def decode_batch(self, ids: Ids, offsets: Offsets) -> list[str]:
        """The texts of what `encode_batch` gives.

        Raises:
            IndexError: there is no such id. What masks labels (-100) is none.
        """
        if ids.size and ids.min() < 0:
            raise IndexError(f"there is no id {ids.min()}")
        parts = [self._spelt[number] for number in ids.tolist()]
        return [b"".join(parts[start:end]).decode(errors="replace") for start, end in pairwise(offsets.tolist())]

    @cached_property
    def characters(self) -> npt.NDArray[np.int32]:
        """How many characters of text each id stands for, (vocab_size,).

        A character of several bytes counts where its first byte is; special tokens count 0. The unknown token of
        wordpiece stands for one character; under hard boundaries, for a word of any length, and counts 0.
        """
        lead = np.frombuffer(b"".join(self._spelt), np.uint8) & 0xC0 != 0x80
        before = np.concatenate([[0], np.cumsum(lead, dtype=np.int32)])
        counts: npt.NDArray[np.int32] = np.diff(before[np.cumsum([0, *map(len, self._spelt)])]).astype(np.int32)
        counts[[self._ids[token] for token in self.special.tokens]] = 0
        if self.card.config.model == "wordpiece" and self.card.config.boundaries != "hard":
            counts[self.unk] = 1
        return counts

    @cached_property
    def _spelt(self) -> list[bytes]:
        return piece_bytes(self._pieces, self.card.config, self.special)

    @cached_property
    def _normalizers(self) -> list[Any]:
        return [self._step("normalizer", description) for description in self.card.normalizers]

    @cached_property
    def _splitter(self) -> Any:
        return self._step("splitter", self.card.splitter) if self.card.splitter else make_step("splitter", "rules")

    @cached_property
    def _segmenter(self) -> Any:
        if not self.card.segmenter:
            fix = "put U+001F between words, or train on a corpus with words"
            raise ConfigError("no segmenter is known for this tokenizer's words", where=str(self.folder), fix=fix)
        step = self._step("segmenter", self.card.segmenter)
        atexit.register(step.close)
        return step

    def _step(self, kind: str, description: dict[str, Any]) -> Any:
        step = make_step(kind, {"use": description["name"], **description["config"]})
        if step.version != description["version"]:
            what = f"{kind} {step.name!r} is version {step.version} here, and was {description['version']} in training"
            raise MismatchError(what, where=str(self.folder), fix="install the jprep or the plugin that trained it")
        here, then = step.provenance(), description["provenance"]
        for name, value in then.items():  # another release of a library is well, another dictionary gives other words
            if value.startswith("sha256:") and here.get(name) != value:
                what = f"{kind} {step.name!r} has another {name} here than in training"
                raise MismatchError(what, where=str(self.folder), fix=f"install its versions: {_versions(then)}")
        return step

    def _normalize(self, texts: list[str]) -> list[str]:
        """Normalise page by page: a normaliser works line by line, and short calls cost most."""
        if not self._normalizers:
            return texts
        done: list[str] = []
        start = size = 0
        for number, text in enumerate(texts):
            size += len(text)
            if size >= _PAGE:
                done += self._normalize_page(texts[start : number + 1])
                start, size = number + 1, 0
        return done + self._normalize_page(texts[start:])

    def _normalize_page(self, texts: list[str]) -> list[str]:
        lines = "\n".join(texts)
        for step in self._normalizers:
            lines = step.apply(lines)
        split, sizes = lines.split("\n"), [text.count("\n") + 1 for text in texts]
        if texts and len(split) != sum(sizes):
            names = ", ".join(step.name for step in self._normalizers)
            raise JprepError("a normaliser changed the number of lines", where=names, fix="mend the plugin")
        if len(split) == len(texts):
            return split
        return ["\n".join(split[start:end]) for start, end in pairwise(accumulate(sizes, initial=0))]

    def _marked(self, texts: list[str], normalized: bool) -> list[str]:
        """Texts with their words marked, those that were not by the corpus's steps."""
        raw = [number for number, text in enumerate(texts) if text and WORD not in text]
        if not raw:
            return texts
        plain = [texts[number].translate(UNMARK) for number in raw]
        plain = plain if normalized else self._normalize(plain)
        marked = dict(zip(raw, self._segment(plain), strict=True))
        return [marked.get(number, text) for number, text in enumerate(texts)]

    def _segment(self, texts: list[str]) -> list[str]:
        docs = [Document("", "", "", "", text, self._splitter.mark(text)) for text in texts]
        with self._lock:  # an analyser may be a process that answers one question at a time
            segment_documents(docs, self._segmenter)
        return [doc.words for doc in docs]


def _versions(provenance: dict[str, str]) -> str:
    """What `pip install` is given for a step's libraries."""
    return " ".join(f"{name}=={value}" for name, value in provenance.items() if not value.startswith("sha256:"))


def _sound(texts: Sequence[str]) -> list[str]:
    """The texts, lone surrogates, which no encoding has, replaced as in the corpus."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return [_SURROGATE.sub("\ufffd", text) for text in texts]
    return list(texts)
