"""A finished tokenizer: encode texts to ids, in bulk, and decode them."""

from __future__ import annotations

import atexit
import re
import sys
import threading
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from jprep.corpus.config import make_described_step, make_step
from jprep.corpus.document import UNMARK, WORD, Document
from jprep.corpus.processing import line_ranges, normalize_lines, segment_documents
from jprep.corpus.step import provenance_of
from jprep.errors import ConfigError, MismatchError
from jprep.tokenizer.card import TokenizerCard, read_card, verify_files
from jprep.tokenizer.encoding.batch import BatchEncoder, EncodedBatch, Ids, Offsets, TokenSpans, interleave
from jprep.tokenizer.encoding.segment_encoder import SegmentEncoder
from jprep.tokenizer.encoding.sentencepiece_encoder import SentencePieceEncoder
from jprep.tokenizer.encoding.tokenizers_encoder import TokenizersEncoder
from jprep.tokenizer.encoding.word_encoder import WordEncoder
from jprep.tokenizer.external.documents import Preceding, within_text, without_special_tokens
from jprep.tokenizer.formats.file_names import SENTENCEPIECE_MODEL, TOKENIZER_JSON
from jprep.tokenizer.formats.pieces import piece_bytes, read_pieces
from jprep.tokenizer.formats.tokenizer_json import batch_encoding_json
from jprep.tokenizer.special_tokens import SpecialTokens, special_tokens
from jprep.tokenizer.vocabulary import NEWLINE_PIECE, SPACE_PIECE
from jprep.tokenizer.word_spaces import unite_spaces

if TYPE_CHECKING:
    from jprep.tokenizer.cut_text import CutText

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_CHARACTERS = {"bpe": 1024, "unigram": 512}
"""Characters per call of sentencepiece: Unigram's sums stay below 16,384, up to which they are exact."""
_PAGE = 1 << 16  # characters per call of a normalizer


class Tokenizer:
    """A finished tokenizer.

        tokenizer = jprep.load_tokenizer("work/jawiki/tokenizer")
        ids, offsets = tokenizer.encode_batch(["すもももももも。", "Hello, world"])

    The ids equal those of `AutoTokenizer` for the same texts, except that special tokens spelt in the text are treated
    as text and none are added. It can be pickled and used by several threads.

    Args:
        folder: the tokenizer directory.

    Attributes:
        folder: the tokenizer directory.
        card: the tokenizer's card.
        special: special tokens.

    Raises:
        ConfigError: the directory holds no finished tokenizer.
        MismatchError: a file was changed or damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.card: TokenizerCard = read_card(self.folder)
        verify_files(self.folder, self.card, (TOKENIZER_JSON, SENTENCEPIECE_MODEL))
        self.special: SpecialTokens = special_tokens(self.card.config)
        document = msgspec.json.decode((self.folder / TOKENIZER_JSON).read_bytes())
        self._pieces = read_pieces(document["model"])
        self._ids = {piece: number for number, piece in enumerate(self._pieces)}
        self._encoder = self._encoder_of(document)
        self._encoders_after = dict[Preceding, TokenizersEncoder]()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer, (self.folder,)

    def __repr__(self) -> str:
        from jprep.tokenizer.display import describe

        return describe(self)

    def _repr_html_(self) -> str:
        """Return what Jupyter displays: kind, size, special tokens, scores, and a text cut by it."""
        from jprep.tokenizer.display import tokenizer_html

        return tokenizer_html(self)

    def _encoder_of(self, document: dict[str, Any]) -> BatchEncoder:
        config = self.card.config
        encoder: BatchEncoder
        if config.model in _MAX_CHARACTERS:
            limit = _MAX_CHARACTERS[config.model]
            encoder = SentencePieceEncoder(self.folder / SENTENCEPIECE_MODEL, self._ids["<0x0A>"], limit)
            if config.boundaries != "hard":
                exact = limit if config.model == "unigram" else sys.maxsize
                encoder = SegmentEncoder(encoder, self._pieces, exact)
        else:
            encoder = TokenizersEncoder(batch_encoding_json(document, config, self.special))
        space = " " if config.model == "byte-bpe" else SPACE_PIECE
        return WordEncoder(encoder, config, space) if config.boundaries == "hard" else encoder

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return len(self._pieces)

    def id_of(self, piece: str) -> int:
        """Return the id of a piece, spelt as in the exported files. Raises KeyError if there is none."""
        return self._ids[piece]

    def piece_of(self, number: int) -> str:
        """Return the piece of an id."""
        return self._pieces[number]

    @property
    def bos(self) -> int | None:
        """Id of the beginning-of-sequence token."""
        return self._ids.get(self.special.bos)

    @property
    def eos(self) -> int | None:
        """Id of the end-of-sequence token."""
        return self._ids.get(self.special.eos)

    @property
    def pad(self) -> int | None:
        """Id of the padding token."""
        return self._ids.get(self.special.pad)

    @property
    def unk(self) -> int | None:
        """Id of the unknown token."""
        return self._ids.get(self.special.unk)

    @property
    def mask(self) -> int | None:
        """Id of the mask token."""
        return self._ids.get(self.special.mask)

    @property
    def newline_id(self) -> int | None:
        """Id of a newline; None if a newline becomes a space, or has no piece."""
        newline = {"byte-bpe": "Ċ", "wordpiece": NEWLINE_PIECE}.get(self.card.config.model, "<0x0A>")
        return self._ids.get(newline) if self.card.config.newline == "token" else None

    def encode(self, text: str, *, normalized: bool = False) -> list[int]:
        """Return the ids of one text; see `encode_batch`."""
        ids: list[int] = self.encode_batch([text], normalized=normalized).ids.tolist()
        return ids

    def encode_after(self, before: Preceding, texts: Sequence[str]) -> EncodedBatch:
        """Return the ids of texts with nothing, a special token, or text before them; see `encode_batch`.

        They differ for texts that begin with white space, which is removed at the beginning only. Under hard boundaries
        they do not: each text is segmented by itself.
        """
        if not before or self.card.config.boundaries == "hard":
            return self.encode_batch(texts)
        # A letter or a digit is not white space, and no normalizer makes white space of it.
        alike = np.array([text[:1].isalnum() for text in texts], np.bool_)
        if alike.all():
            return self.encode_batch(texts)
        others = [text for text, same in zip(texts, alike, strict=True) if not same]
        batch = self.encode_batch([text for text, same in zip(texts, alike, strict=True) if same])
        return interleave(batch, self._encoder_after(before)(without_surrogates(others)), alike)

    def _encoder_after(self, before: Preceding) -> TokenizersEncoder:
        """Return the encoder of texts that have something before them; it is made when it is first needed."""
        if before not in self._encoders_after:
            verify_files(self.folder, self.card, (TOKENIZER_JSON,))
            document = within_text(msgspec.json.decode((self.folder / TOKENIZER_JSON).read_bytes()), before)
            document = without_special_tokens(document, self.special.tokens)
            self._encoders_after[before] = TokenizersEncoder(document)
        return self._encoders_after[before]

    def encode_batch(self, texts: Sequence[str], *, normalized: bool = False) -> EncodedBatch:
        """Return the ids of many texts. Special tokens spelt in a text are treated as text, and none are added.

        Under hard boundaries, a text with U+001F counts as normalized and segmented text of a corpus; any other text is
        segmented as the training corpus was.

        Args:
            texts: any number of texts, which may contain newlines.
            normalized: whether the corpus's normalizers have been applied.

        Raises:
            ConfigError: a segmenter is needed, and the tokenizer was trained on word counts.
            MachineError: the segmenter is not installed.
            MismatchError: a step has changed since the tokenizer was trained.
        """
        if isinstance(texts, str):
            raise TypeError("encode_batch expects a list of texts; use encode for one text")
        texts = without_surrogates(texts)
        if self.card.config.boundaries == "hard":
            texts = self._marked(texts, normalized)
        else:
            texts = self._plain(texts, normalized)
        if self.card.config.newline == "space":
            texts = [text.replace("\n", " ") for text in texts]
        return self._encoder(texts)

    def cut(self, text: str) -> CutText:
        """Cut one text into tokens with their positions; Jupyter displays it with the boundaries marked.

        U+001E and U+001F are deleted, as by readers of a corpus.

        Raises:
            ConfigError: see `encode_batch`.
        """
        from jprep.tokenizer.cut_text import cut

        return cut(self, self._prepared(without_surrogates([text])[0]))

    def _prepared(self, text: str) -> str:
        """Return a text normalized and, under hard boundaries, with its words marked."""
        return (self._marked if self.card.config.boundaries == "hard" else self._plain)([text], False)[0]

    def encode_with_spans(self, texts: Sequence[str]) -> TokenSpans:
        """Return the ids of many normalized texts, and the characters that each token covers.

        Raises:
            TypeError: the tokenizer is not one of whole words; see `has_spans`.
        """
        if not isinstance(self._encoder, TokenizersEncoder) or not self.has_spans:
            raise TypeError("the tokens of this tokenizer tell their characters by their pieces")
        return self._encoder.encode_with_spans(self._plain(without_surrogates(texts), True))

    @property
    def has_spans(self) -> bool:
        """Whether `encode_with_spans` tells where tokens are, because their pieces do not."""
        return self.card.config.whole_words

    def _plain(self, texts: list[str], normalized: bool) -> list[str]:
        """Return texts without marks, normalized; under `spaces`, marks are spaces like those of the text."""
        if self.card.config.boundaries == "spaces":
            texts = [unite_spaces(text) for text in texts]
        if normalized or not self._normalizers:
            return texts
        return self._normalize([text.translate(UNMARK) for text in texts])

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """Return the text of some ids. Special tokens are included; bytes that are not UTF-8 become U+FFFD."""
        return self.decode_batch(np.asarray(ids, np.int32), np.array([0, len(ids)]))[0]

    def decode_batch(self, ids: Ids, offsets: Offsets) -> list[str]:
        """Return the texts of a batch as returned by `encode_batch`.

        Raises:
            IndexError: an id does not exist, such as the label -100.
        """
        if ids.size and ids.min() < 0:
            raise IndexError(f"id {ids.min()} does not exist")
        parts = [self._bytes[number] for number in ids.tolist()]
        texts = [b"".join(parts[start:end]).decode(errors="replace") for start, end in pairwise(offsets.tolist())]
        return [text.removeprefix(" ") for text in texts] if self.card.config.whole_words else texts

    @cached_property
    def characters(self) -> npt.NDArray[np.int32]:
        """Number of characters of text that each id covers, (vocab_size,).

        A character of several bytes counts for the id with its first byte; special tokens count 0. The unknown token of
        wordpiece covers one character; under hard boundaries it covers a word of any length, and counts 0. Where tokens
        are whole words, a word counts the space before it.
        """
        lead = np.frombuffer(b"".join(self._bytes), np.uint8) & 0xC0 != 0x80
        before = np.concatenate([[0], np.cumsum(lead, dtype=np.int32)])
        counts: npt.NDArray[np.int32] = np.diff(before[np.cumsum([0, *map(len, self._bytes)])]).astype(np.int32)
        counts[[self._ids[token] for token in self.special.tokens]] = 0
        if self.card.config.model == "wordpiece" and self.card.config.boundaries not in ("hard", "bert"):
            counts[self.unk] = 1
        return counts

    @cached_property
    def _bytes(self) -> list[bytes]:
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
            fix = "separate words by U+001F, or train on a corpus with words"
            raise ConfigError("this tokenizer has no segmenter", where=str(self.folder), fix=fix)
        step = self._step("segmenter", self.card.segmenter)
        atexit.register(step.close)
        return step

    def _step(self, kind: str, description: dict[str, Any]) -> Any:
        step = make_described_step(kind, description)
        if step.version != description["version"]:
            what = f"{kind} {step.name!r} has version {step.version}, expected {description['version']} as in training"
            raise MismatchError(
                what, where=str(self.folder), fix="install the version of jprep or the plugin used in training"
            )
        installed, trained = provenance_of(step), description["provenance"]
        for name, value in trained.items():  # library releases may differ, but another dictionary gives other words
            if value.startswith("sha256:") and installed.get(name) != value:
                what = f"{kind} {step.name!r} has another {name} than in training"
                raise MismatchError(what, where=str(self.folder), fix=f"install {_versions(trained)}")
        return step

    def _normalize(self, texts: list[str]) -> list[str]:
        """Normalize in pages: a normalizer works line by line, and many short calls are slow."""
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
        lines = normalize_lines(texts, self._normalizers)
        if len(lines) == len(texts):
            return lines
        return ["\n".join(lines[start:end]) for start, end in line_ranges(texts)]

    def _marked(self, texts: list[str], normalized: bool) -> list[str]:
        """Return texts with marked words; those without marks are segmented with the corpus's steps."""
        raw = [number for number, text in enumerate(texts) if text and WORD not in text]
        if not raw:
            return texts
        plain = [texts[number].translate(UNMARK) for number in raw]
        plain = plain if normalized else self._normalize(plain)
        marked = dict(zip(raw, self._segment(plain), strict=True))
        return [marked.get(number, text) for number, text in enumerate(texts)]

    def _segment(self, texts: list[str]) -> list[str]:
        docs = [Document("", "", "", "", text, self._splitter.mark(text)) for text in texts]
        with self._lock:  # an analyser may be a process that handles one request at a time
            segment_documents(docs, self._segmenter)
        return [doc.words for doc in docs]


def _versions(provenance: dict[str, str]) -> str:
    """Return a step's libraries as requirements for `pip install`."""
    return " ".join(f"{name}=={value}" for name, value in provenance.items() if not value.startswith("sha256:"))


def without_surrogates(texts: Sequence[str]) -> list[str]:
    """Return the texts with lone surrogates, which have no encoding, replaced as in the corpus."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return [_SURROGATE.sub("\ufffd", text) for text in texts]
    return list(texts)
