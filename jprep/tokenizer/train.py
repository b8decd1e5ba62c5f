"""Trains a tokenizer: counts, learns, writes, scores; and at the end the card."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.config import make_step
from jprep.corpus.document import WORD
from jprep.corpus.processing import describe_step
from jprep.engine.checksummed_json import encode_checksummed
from jprep.engine.fingerprint import fingerprint, plain
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import TOKENIZER
from jprep.engine.runner import Executor, ProgressReporter, read_claim, refuse_mismatch
from jprep.errors import ConfigError
from jprep.io.atomic import file_sha256, remove_tree, write_atomic
from jprep.io.failpoints import failpoint
from jprep.tokenizer import learning
from jprep.tokenizer.card import CARD_JSON, FORMAT, TokenizerCard, read_card, verify_files, write_card
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting import UnitCounts, units
from jprep.tokenizer.evaluation import score_tokenizer
from jprep.tokenizer.export import FILES, write_tokenizer_files
from jprep.tokenizer.model_card import README, model_card
from jprep.tokenizer.normalizers import export_normalizers
from jprep.tokenizer.special_tokens import special_tokens
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.training_data import TrainingData
from jprep.tokenizer.vocabulary import Vocabulary

_CLAIM, _STAGED = "training.json", "staged"
_LIBRARIES = ("sentencepiece", "tokenizers", "pyarrow", "regex")
_SCORED = 2  # one paragraph of the sample in so many is scored: a quick look, not an evaluation
_COMPARED = 1_000  # paragraphs on which the exported tokenizer's ids are held against ours


def train(
    material: TrainingData,
    config: TokenizerConfig,
    folder: Path,
    executor: Executor,
    progress: ProgressReporter,
    *,
    restart: bool = False,
) -> TokenizerCard:
    """Train a tokenizer, or bring one that was begun to its end, or see that it is whole.

    Args:
        material: what to train it on.
        config: what it is to be.
        folder: where; new, empty, or holding this very tokenizer.
        executor: where the counting runs.
        progress: is told of it.
        restart: throw away another tokenizer that the folder holds.

    Raises:
        MismatchError: the folder holds another tokenizer; the message names what differs.
        ConfigError: the config asks for what cannot be, or for what this material cannot give; or the folder holds
            something else than a tokenizer.
        JprepError: see its kinds; what was counted stays, and the same call goes on.
    """
    out = OutputDirectory(folder, TOKENIZER, files=(*FILES, README))
    with out.claim():
        return _Training(material, config, out, executor, progress).run(restart=restart)


class _Training:
    """One run of `train`, under the folder's lock."""

    def __init__(
        self,
        material: TrainingData,
        config: TokenizerConfig,
        out: OutputDirectory,
        executor: Executor,
        progress: ProgressReporter,
    ) -> None:
        self._material, self._config, self._out = material, config, out
        self._folder, self._state = out.path, out.state
        self._executor, self._progress = executor, progress
        self._special = special_tokens(config)
        material.look()
        self._normalizers = _normalizers(material, config)
        export_normalizers(self._normalizers, " ")  # what cannot be exported is found out before hours of counting
        self._made_from = plain(
            {
                "format": FORMAT,
                "material": material.fields(),
                "config": config,
                "normalizers": self._normalizers,
                "splitter": self._at_use(material.splitter),
                "segmenter": self._at_use(material.segmenter),
                "versions": {"units": units.VERSION, "learning": learning.VERSION},
                "libraries": {name: version(name) for name in _LIBRARIES},
            }
        )

    def _at_use(self, step: dict[str, Any] | None) -> dict[str, Any] | None:
        """What finds sentences and words in raw text, where words are needed."""
        return step if self._config.boundaries == "hard" else None

    def run(self, *, restart: bool) -> TokenizerCard:
        """Train."""
        self._out.remove_leftovers()
        if restart:  # a model of another kind would leave files that loaders prefer
            self._out.restart(last=_CLAIM)
        if self._out.finished:
            return self._finished()
        self._claim()
        counted = self._material.count(self._config, self._state, self._executor, self._progress)
        failpoint("tokenizer.counted")
        self._progress.begin("learning", 0)
        vocabulary = self._learn(counted)
        failpoint("tokenizer.learnt")
        card = self._publish(self._stage(vocabulary, counted))
        self._forget()
        return card

    def _learn(self, counted: UnitCounts) -> Vocabulary:
        """Learn. What was asked for and cannot be is forgotten, so that the counts serve the next attempt."""
        try:
            return _aside(lambda: learning.learn(counted, self._config, self._special, self._state / "learning"))
        except ConfigError:
            write_atomic(self._state / _CLAIM, b"")
            raise

    def _claim(self) -> None:
        """Say what is being made here, or see that it is what was begun."""
        path = self._state / _CLAIM
        if begun := read_claim(path):
            refuse_mismatch(self._made_from, begun, self._folder)
        else:
            write_atomic(path, encode_checksummed(self._made_from))

    def _finished(self) -> TokenizerCard:
        """The card that stands, if it says just what this call would, and its files stand."""
        self._material.refuse_unknowable(self._folder)
        card = read_card(self._folder)
        refuse_mismatch(self._made_from, card.made_from, self._folder)
        verify_files(self._folder, card)
        self._forget()
        return card

    def _stage(self, vocabulary: Vocabulary, counted: UnitCounts) -> TokenizerCard:
        """Write the directory aside, and score it."""
        staged = self._state / _STAGED
        remove_tree(staged)
        write_tokenizer_files(vocabulary, self._normalizers, staged)
        counts = counted.counts | vocabulary.counts | {"characters.in_alphabet": len(vocabulary.alphabet)}
        card = self._card(counts)
        write_card(staged, card)
        return msgspec.structs.replace(card, figures=_figures(Tokenizer(staged), counted.sample))

    def _card(self, counts: dict[str, int]) -> TokenizerCard:
        mark = fingerprint(self._made_from)
        return TokenizerCard(
            jprep=version("jprep"),
            format=FORMAT,
            name=self._material.name,
            signature=_signature(self._material.name, self._config, mark),
            fingerprint=mark,
            made_from=self._made_from,
            config=self._config,
            normalizers=self._normalizers,
            splitter=self._at_use(self._material.splitter),
            segmenter=self._at_use(self._material.segmenter),
            sources=self._material.sources,
            counts=dict(sorted(counts.items())),
            figures={},
            files={},
        )

    def _publish(self, card: TokenizerCard) -> TokenizerCard:
        """Move what was staged to its place, the card last."""
        staged = self._state / _STAGED
        (staged / CARD_JSON).unlink()
        write_atomic(staged / README, model_card(card).encode())
        files = {path.name: file_sha256(path) for path in sorted(staged.iterdir())}
        card = msgspec.structs.replace(card, files=files)
        for name in files:
            (staged / name).replace(self._folder / name)
        failpoint("tokenizer.moved")
        write_card(self._folder, card)
        return card

    def _forget(self) -> None:
        """Delete work under way, all but the lock that is held; the claim, which says whose it is, last."""
        self._out.remove_state(last=_CLAIM)


def _aside(work: Callable[[], Vocabulary]) -> Vocabulary:
    """Do something in a thread: the main one has to be free for a Ctrl-C, which the learning library does not take."""
    done: Future[Vocabulary] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done.result()


def _normalizers(material: TrainingData, config: TokenizerConfig) -> list[dict[str, Any]]:
    """The descriptions of what is done to raw text."""
    if config.normalizers is None:
        return material.normalizers
    return [plain(describe_step(make_step("normalizer", ref))) for ref in config.normalizers]


def _figures(tokenizer: Tokenizer, sample: Path) -> dict[str, float]:
    """How a tokenizer scores on the sample, and on how many of its paragraphs the exported one gives other ids."""
    with sample.open(encoding="utf-8", newline="\n") as lines:
        scored = islice(lines, 0, None, _SCORED)
        figures = score_tokenizer(tokenizer, (line.rstrip("\n") for line in scored)).figures()
    with sample.open(encoding="utf-8", newline="\n") as lines:
        compared = [line.rstrip("\n") for line in islice(lines, _COMPARED)]
    if differing := _differing(tokenizer, compared):
        figures["paragraphs_with_other_ids_when_exported"] = differing
    return figures


def _differing(tokenizer: Tokenizer, marked: list[str]) -> int:
    from tokenizers import Tokenizer as Exported

    hard = tokenizer.card.config.boundaries == "hard"  # a word alone has no mark, and would be segmented again
    texts = [line + WORD if hard else line.replace(WORD, "") for line in marked]
    exported = Exported.from_file(str(tokenizer.folder / "tokenizer.json"))
    theirs = [each.ids for each in exported.encode_batch_fast(texts, add_special_tokens=False)]
    ids, offsets = tokenizer.encode_batch(texts)
    return sum(ids[offsets[i] : offsets[i + 1]].tolist() != their for i, their in enumerate(theirs))


def _signature(name: str, config: TokenizerConfig, mark: str) -> str:
    """One line that says what a tokenizer is: to be cited beside figures."""
    what = [f"tokenizer:{name}", config.model, f"vocab:{config.vocab_size}", f"boundaries:{config.boundaries}"]
    return "|".join([f"jprep:{version('jprep')}", *what, f"id:{mark[:12]}"])
