"""The inference pipeline: raw text in, predictions in text out."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import msgspec

from jprep.dataset.conversations.encoding import ChatEncoder
from jprep.dataset.labelled.dataset import encode_row
from jprep.dataset.labelled.reader import LabelledConfig
from jprep.errors import ConfigError, InputError
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.formats.file_names import TOKENIZER_JSON
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.train.exporting.custom_head import refuse_custom_head
from jprep.train.exporting.manifest import ModelExportManifest, read_config, read_export, verify_export
from jprep.train.inference.client import InferenceClient
from jprep.train.inference.masked_text import filled_text, masked_request
from jprep.train.inference.protocol import Classify, Generate, Request, Response, TokenProbability
from jprep.train.models import max_positions

_NEW_TOKENS = 64  # by default


class GenerationConfig(NamedTuple):
    """Options of predictions.

    Attributes:
        top: the number of tokens to return for each mask.
        tokens: the maximum number of new tokens; 0 is 64, or half of the model's positions if that is less.
        temperature: the sampling temperature; 0 always selects the most likely token.
        top_k: sample among the `top_k` most likely tokens; 0 is all.
        top_p: sample among the most likely tokens whose probabilities add up to `top_p`.
        seed: the seed of sampling.
        system: the system message before the text, for a model of `sft`; "" for none.
        num_return_sequences: the number of continuations, sampled independently of one another; more than one needs a
            temperature above 0.
    """

    top: int = 5
    tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    num_return_sequences: int = 1
    system: str = ""


_DEFAULT = GenerationConfig()


class TokenCandidate(msgspec.Struct, frozen=True):
    """A candidate for a masked token."""

    token: str
    id: int
    probability: float


class Prediction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model's prediction for a text.

    Attributes:
        text: the input.
        masks: for each mask, the most likely tokens.
        filled: the text with each mask replaced by the most likely token.
        continuation: the generated continuation of the text, or the answer to it (`sft`); the first one of several.
        continuations: all continuations, if there are several.
        label: the most likely class.
        probabilities: the probability of each class.
        score: the score of a model for `regress`.
        note: how the input was changed, if it was, e.g. truncated.
        error: why there is no prediction.
    """

    text: str
    masks: list[list[TokenCandidate]] = []
    filled: str = ""
    continuation: str | None = None
    continuations: list[str] = []
    label: str | None = None
    probabilities: dict[str, float] = {}
    score: float | None = None
    note: str = ""
    error: str = ""


class InferencePipeline:
    """Predictions of an exported model for raw text. Use it in a `with` block, which stops the worker at its end.

        with InferencePipeline(Path("export")) as pipeline:
            print(pipeline.predict("吾輩は").continuation)

    Args:
        folder: the exported directory.
        backend: the backend to run on.
        on_cpu: whether to use one CPU core only, beside a training.

    Attributes:
        exported: the manifest of the exported model.

    Raises:
        ConfigError: there is no exported model, it is a discriminator or has no tokenizer, or there is no such backend.
        MismatchError: a file differs from what was exported.
        MachineError: the backend is not installed.
    """

    def __init__(self, folder: Path, backend: str = "torch", *, on_cpu: bool = False) -> None:
        self.exported: ModelExportManifest = read_export(folder)
        refuse_custom_head(folder)
        if self.exported.task == "rtd":
            fix = "use the generator of its run (`jprep export RUN --generator`), or fine-tune this model"
            raise ConfigError("a discriminator makes no predictions for texts", where=str(folder), fix=fix)
        if not (self.exported.tokenizer or TOKENIZER_JSON in self.exported.files):
            fix = "load it with AutoModel, which takes token ids"
            raise ConfigError("this model was exported without a tokenizer", where=str(folder), fix=fix)
        verify_export(folder, self.exported)
        self._config = read_config(folder)
        self._tokenizer: Tokenizer = load_tokenizer(folder)
        self._chat = ChatEncoder(self._tokenizer) if self.exported.task == "sft" else None
        self._client = InferenceClient(folder, backend, on_cpu=on_cpu)

    def __enter__(self) -> InferencePipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def predict(self, text: str, config: GenerationConfig = _DEFAULT, pair: str | None = None) -> Prediction:
        """Fill the masks of a text, continue it, answer it, classify it or score it, depending on the model's task.

        An invalid text gets a prediction with an error.

        Args:
            text: raw text.
            config: the options.
            pair: the second text, for a model of text pairs.

        Raises:
            ConfigError: several sequences without sampling.
            MachineError: the worker died.
        """
        try:
            request, note = self._request(text, config, pair)
        except InputError as error:
            return Prediction(text, error=error.what)
        responses = [self._client.send(one) for one in _sequences(request, config)]
        if problem := next((response.error for response in responses if response.error), ""):
            return Prediction(text, note=note, error=problem)
        found = self._prediction(text, responses[0], config.top)
        if len(responses) > 1:
            decoded = [self._continuation(response.ids) for response in responses]
            found = msgspec.structs.replace(found, continuations=decoded)
        return msgspec.structs.replace(found, note=note)

    def _request(self, text: str, config: GenerationConfig, pair: str | None) -> tuple[Request, str]:
        if self.exported.generates:
            return self._generate_request(text, config)
        if self.exported.task == "mlm":
            positions = max_positions(self._config)
            top = config.top + len(self._without_token)
            return masked_request(text, self._tokenizer, self.exported, top, positions), ""
        return self._classify_request(text, pair)

    def _generate_request(self, text: str, config: GenerationConfig) -> tuple[Generate, str]:
        special, end = self.exported.special, self.exported.end
        ids = self._prompt(text, config)
        positions = max_positions(self._config)
        tokens = config.tokens or min(_NEW_TOKENS, positions // 2)
        available = positions - tokens - len(special.before)
        if available < 1:
            raise InputError(f"the model has {positions} positions: no room for {tokens} more tokens")
        if self._chat and len(ids) > available:
            raise InputError(f"the message takes {len(ids)} tokens, and there is room for {available}")
        note = "" if len(ids) <= available else f"truncated to its last {available} of {len(ids)} tokens"
        row = [*special.before, *ids[-available:]] or [max(end, 0)]  # a document begins where another one ends
        never = [*(number for number in special.special if number != end), *self._without_token]
        ends = [end] if end >= 0 else []
        sampling = tokens, config.temperature, config.top_k, config.top_p, config.seed
        return Generate(row, *sampling, end=ends, never=never), note

    def _prompt(self, text: str, config: GenerationConfig) -> list[int]:
        """Return the ids to continue: those of the text, or of a conversation in which the user says it."""
        if not self._chat:
            return self._tokenizer.encode(text)
        system = [{"role": "system", "content": config.system}] if config.system else []
        return self._chat.encode_prompt([*system, {"role": "user", "content": text}])

    def _classify_request(self, text: str, pair: str | None) -> tuple[Classify, str]:
        special, length = self.exported.special, self.exported.length
        texts = [text] if pair is None else [text, pair]
        ids, offsets = self._tokenizer.encode_batch(texts)
        first, second = ids[: offsets[1]], None if pair is None else ids[offsets[1] :]
        row, second_length = encode_row(first, second, special, LabelledConfig(length=length))
        types = [0] * (len(row) - second_length) + [1] * second_length if self._has_token_types else []
        whole = len(ids) + (special.around if pair is None else special.around_pair)
        note = "" if len(row) == whole else f"truncated from {whole} to {length} tokens, as in training"
        return Classify(row.tolist(), types), note

    @property
    def _has_token_types(self) -> bool:
        return self.exported.special.types and self._config.get("type_vocab_size", 0) >= 2

    @property
    def _without_token(self) -> range:
        """Ids of the model that its tokenizer lacks: published models may have more rows."""
        return range(self._tokenizer.vocab_size, self._config.get("vocab_size", 0))

    def _prediction(self, text: str, response: Response, top: int) -> Prediction:
        if self.exported.generates:
            return Prediction(text, continuation=self._continuation(response.ids))
        if self.exported.task == "mlm":
            known = self._tokenizer.vocab_size
            masks = [
                [self._candidate(one) for one in candidates if one.id < known][:top] for candidates in response.masks
            ]
            best = [(candidates[0].id, candidates[0].token) for candidates in masks]
            return Prediction(text, masks=masks, filled=filled_text(text, self._tokenizer, best))
        if self.exported.task == "regress":
            return Prediction(text, score=response.scores[0])
        names = [self._config["id2label"][str(number)] for number in range(len(response.scores))]
        probabilities = dict(zip(names, response.scores, strict=True))
        label = max(probabilities, key=lambda name: probabilities[name])
        return Prediction(text, label=label, probabilities=probabilities)

    def _continuation(self, ids: list[int]) -> str:
        """Return the text that follows the prompt; whole words have no space of their own."""
        decoded = self._tokenizer.decode(ids)
        return f" {decoded}" if decoded and self._tokenizer.card.config.whole_words else decoded

    def _candidate(self, found: TokenProbability) -> TokenCandidate:
        decoded = self._tokenizer.decode([found.id])
        complete = "\ufffd" not in decoded  # otherwise it is one byte of a character
        token = decoded if complete else self._tokenizer.piece_of(found.id)
        return TokenCandidate(token, found.id, found.probability)


def _sequences(request: Request, config: GenerationConfig) -> list[Request]:
    """Return the requests for all continuations of a row; any other request by itself.

    Raises:
        ConfigError: several sequences without sampling.
    """
    count = config.num_return_sequences
    if not isinstance(request, Generate) or count == 1:
        return [request]
    if count < 1 or not config.temperature:
        what = f"num_return_sequences = {count} needs sampling: without it all continuations are the same"
        raise ConfigError(what, fix="set temperature, e.g. to 0.8, and num_return_sequences to 1 or more")
    return [msgspec.structs.replace(request, sequence=number) for number in range(count)]
