"""Raw text to an exported model, and its answer in words."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import msgspec
import regex

from jprep.dataset.labelled.dataset import encode_row
from jprep.dataset.labelled.reader import LabelledConfig
from jprep.errors import ConfigError, InputError
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.formats.tokenizer_json import TOKENIZER_JSON
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.train.exporting.manifest import ModelExportManifest, read_config, read_export, verify_export
from jprep.train.inference.client import InferenceClient
from jprep.train.inference.protocol import Classify, FillMask, Generate, Request, Response, TokenProbability
from jprep.train.models import max_positions

MASKS = ("<mask>", "[MASK]")
"""How a mask may be spelt, beside the tokenizer's own way."""

_TOKENS = 64  # that a text is continued with


class GenerationConfig(NamedTuple):
    """What is wanted of a model.

    Attributes:
        top: tokens for each mask.
        tokens: to continue with, at most; 0 for 64, or half of the model's positions if that is less.
        temperature, top_k, top_p, seed: of the sampling, see `Generate`.
    """

    top: int = 5
    tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1


class TokenCandidate(msgspec.Struct, frozen=True):
    """A token that could stand at a mask."""

    token: str
    id: int
    probability: float


class Prediction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model's answer to a text.

    Attributes:
        text: what was given.
        masks: for each mask, the likeliest tokens.
        filled: the text with the likeliest token at each mask.
        continuation: what follows the text.
        label: the likeliest class.
        probabilities: of each class.
        score: what a model of task `regress` gives.
        note: what was done to the text that a user should know.
        error: why there is no answer.
    """

    text: str
    masks: list[list[TokenCandidate]] = []
    filled: str = ""
    continuation: str | None = None
    label: str | None = None
    probabilities: dict[str, float] = {}
    score: float | None = None
    note: str = ""
    error: str = ""


class InferencePipeline:
    """An exported model that is asked in raw text; `with` ends its worker.

    Args:
        folder: the exported directory.
        backend: the backend whose worker answers.

    Attributes:
        exported: what it is.

    Raises:
        ConfigError: there is no exported model, it has no tokenizer, or there is no such backend.
        MismatchError: its files are not what was written.
        MachineError: the backend is not installed.
    """

    def __init__(self, folder: Path, backend: str = "torch") -> None:
        self.exported: ModelExportManifest = read_export(folder)
        if TOKENIZER_JSON not in self.exported.files:
            fix = "load it with AutoModel, and give it ids"
            raise ConfigError("this model was exported without a tokenizer", where=str(folder), fix=fix)
        verify_export(folder, self.exported)
        self._config = read_config(folder)
        self._tokenizer: Tokenizer = load_tokenizer(folder)
        self._worker = InferenceClient(folder, backend)

    def __enter__(self) -> InferencePipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.close()

    def ask(self, text: str, wish: GenerationConfig, pair: str | None = None) -> Prediction:
        """Fill its masks, continue it, or tell its class or score, as the model's task is.

        A text that cannot be answered gets a reply with an error.

        Args:
            text: raw text.
            wish: what is wanted.
            pair: the second text, for a model that judges two.

        Raises:
            MachineError: the worker died.
        """
        try:
            request, note = self._request(text, wish, pair)
        except InputError as error:
            return Prediction(text, error=error.what)
        answer = self._worker.ask(request)
        if answer.error:
            return Prediction(text, note=note, error=answer.error)
        return msgspec.structs.replace(self._reply(text, answer), note=note)

    def _request(self, text: str, wish: GenerationConfig, pair: str | None) -> tuple[Request, str]:
        if self.exported.task == "clm":
            return self._to_continue(text, wish)
        if self.exported.task == "mlm":
            return masked_request(text, self._tokenizer, self.exported, wish.top, max_positions(self._config)), ""
        return self._to_judge(text, pair)

    def _to_continue(self, text: str, wish: GenerationConfig) -> tuple[Generate, str]:
        special, end = self.exported.special, self.exported.end
        ids = self._tokenizer.encode(text)
        most = max_positions(self._config)
        tokens = wish.tokens or min(_TOKENS, most // 2)
        room = most - tokens - len(special.before)
        if room < 1:
            raise InputError(f"the model has {most} positions: no room for {tokens} more tokens")
        note = "" if len(ids) <= room else f"only its last {room} of {len(ids)} tokens were read"
        row = [*special.before, *ids[-room:]] or [max(end, 0)]  # a document begins where another ends
        never = [number for number in special.special if number != end]
        ends = [end] if end >= 0 else []
        sampling = tokens, wish.temperature, wish.top_k, wish.top_p, wish.seed
        return Generate(row, *sampling, end=ends, never=never), note

    def _to_judge(self, text: str, pair: str | None) -> tuple[Classify, str]:
        special, length = self.exported.special, self.exported.length
        texts = [text] if pair is None else [text, pair]
        ids, offsets = self._tokenizer.encode_batch(texts)
        first, second = ids[: offsets[1]], None if pair is None else ids[offsets[1] :]
        row, told = encode_row(first, second, special, LabelledConfig(length=length))
        types = [0] * (len(row) - told) + [1] * told if self._takes_types else []
        whole = len(ids) + (special.around if pair is None else special.around_pair)
        note = "" if len(row) == whole else f"cut from {whole} tokens to {length}, as in training"
        return Classify(row.tolist(), types), note

    @property
    def _takes_types(self) -> bool:
        return self.exported.special.types and self._config.get("type_vocab_size", 0) >= 2

    def _reply(self, text: str, answer: Response) -> Prediction:
        if self.exported.task == "clm":
            return Prediction(text, continuation=self._tokenizer.decode(answer.ids))
        if self.exported.task == "mlm":
            masks = [[self._token(guess) for guess in guesses] for guesses in answer.masks]
            return Prediction(text, masks=masks, filled=_filled(text, self._tokenizer, masks))
        if self.exported.task == "regress":
            return Prediction(text, score=answer.scores[0])
        names = [self._config["id2label"][str(number)] for number in range(len(answer.scores))]
        shares = dict(zip(names, answer.scores, strict=True))
        return Prediction(text, label=max(shares, key=lambda name: shares[name]), probabilities=shares)

    def _token(self, guess: TokenProbability) -> TokenCandidate:
        spelt = self._tokenizer.decode([guess.id])
        whole = "\ufffd" not in spelt  # else a byte of a character
        return TokenCandidate(spelt if whole else self._tokenizer.piece_of(guess.id), guess.id, guess.probability)


def masked_request(text: str, tokenizer: Tokenizer, exported: ModelExportManifest, top: int, room: int) -> FillMask:
    """A text with masks as a row: the ids that `AutoTokenizer` gives for it with its own spelling of the mask.

    Raises:
        InputError: there is no mask, or the row is longer than the model's positions.
    """
    special, mask = exported.special, exported.special.mask
    parts = _mask_pattern(tokenizer).split(text)
    if mask is None or len(parts) < 2:
        raise InputError(f"there is no {tokenizer.special.mask or MASKS[0]} in it")
    ids, offsets = tokenizer.encode_batch(parts)
    row = list(special.before)
    for number in range(len(parts)):
        row += [mask] if number else []
        row += ids[offsets[number] : offsets[number + 1]].tolist()
    row += special.after
    if len(row) > room:
        raise InputError(f"it has {len(row)} tokens, and the model takes {room} at once")
    return FillMask(row, mask, top)


def _mask_pattern(tokenizer: Tokenizer) -> Any:
    """A mask, in any spelling; white space before it is its own, as in the published tokenizers."""
    spellings = sorted({tokenizer.special.mask or MASKS[0], *MASKS})
    return regex.compile(rf"\p{{White_Space}}*(?:{'|'.join(map(regex.escape, spellings))})")


def _filled(text: str, tokenizer: Tokenizer, masks: list[list[TokenCandidate]]) -> str:
    parts: list[str] = _mask_pattern(tokenizer).split(text)
    tokens = [guesses[0].token for guesses in masks]
    return parts[0] + "".join(token + part for token, part in zip(tokens, parts[1:], strict=True))
