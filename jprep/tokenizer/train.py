"""Train a tokenizer: count units, learn a vocabulary, write and score the directory, and write the card."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jprep.corpus.config import make_step
from jprep.corpus.document import WORD
from jprep.corpus.step import describe_step
from jprep.engine.fingerprint import fingerprint, plain
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import TOKENIZER
from jprep.engine.runner import Executor, ProgressReporter
from jprep.errors import ConfigError
from jprep.io.atomic import file_sha256, remove_tree, write_atomic
from jprep.io.failpoints import failpoint
from jprep.tokenizer import learning
from jprep.tokenizer.card import CARD_JSON, FORMAT, TRAIN_AGAIN, TokenizerCard, read_own_card, write_card
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting import UnitCounts, units
from jprep.tokenizer.evaluation import score_tokenizer
from jprep.tokenizer.export import FILES, write_tokenizer_files
from jprep.tokenizer.formats.file_names import TOKENIZER_JSON
from jprep.tokenizer.model_card import README, model_card
from jprep.tokenizer.normalizers import export_normalizers, for_raw_text
from jprep.tokenizer.sources.required import check_normalized, resolve_required
from jprep.tokenizer.special_tokens import special_tokens
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.training_data import TrainingData
from jprep.tokenizer.vocabulary import Vocabulary
from jprep.tokenizer.word_spaces import keep_spaces

_log = logging.getLogger(__name__)

T = TypeVar("T")

_STAGED = "staged"
_LIBRARIES = ("sentencepiece", "tokenizers", "pyarrow", "regex")
_SCORED_EVERY = 2  # every n-th paragraph of the sample is scored: a quick check, not an evaluation
_COMPARED = 1_000  # paragraphs on which the ids of the exported tokenizer are compared with ours


def train(
    data: TrainingData,
    config: TokenizerConfig,
    folder: Path,
    executor: Executor,
    progress: ProgressReporter,
    *,
    restart: bool = False,
) -> TokenizerCard:
    """Train a tokenizer, resume an interrupted training, or verify a finished tokenizer.

    Args:
        data: training data.
        config: configuration of the tokenizer.
        folder: output directory; new, empty, or with this very tokenizer.
        executor: runs the counting.
        progress: progress callback.
        restart: discard another tokenizer in the output directory.

    Raises:
        MismatchError: the directory holds another tokenizer; the message names the differences.
        ConfigError: the config is impossible, or impossible with this data; or the directory holds something other than
            a tokenizer.
        JprepError: any other failure; finished counts are kept, and the same call resumes.
    """
    kind = _kind_of(config)
    out = tokenizer_directory(folder, kind.files)
    with out.claim():
        return kind(data, config, out, executor, progress).run(restart=restart)


def _kind_of(config: TokenizerConfig) -> type[Training]:
    if not config.extended:
        return Training
    from jprep.tokenizer.extending.training import ExtensionTraining  # it imports this module

    return ExtensionTraining


def option_fields(config: TokenizerConfig) -> dict[str, Any]:
    """Return what the fingerprint of a tokenizer has of its options, and of this version of jprep.

    If it extends another tokenizer, `model` is not known: it is that of the other one.

    Raises:
        ConfigError: a file of required pieces cannot be read.
    """
    resolved = _without_sources(resolve_required(config))
    own = plain(msgspec.structs.replace(resolved, extends=msgspec.UNSET) if config.extended else resolved)
    if config.extended:
        del own["model"]
    return {"format": FORMAT, "config": own, "versions": _versions(), "libraries": _libraries()}


def tokenizer_directory(folder: Path, files: tuple[str, ...] = FILES) -> OutputDirectory:
    """Return the output directory of a tokenizer, with the names of its files."""
    return OutputDirectory(folder, TOKENIZER, files=(*files, README))


class Training:
    """A run of `train` that holds the directory's lock.

    Attributes:
        files: names of the files that the tokenizer may have.
    """

    files: tuple[str, ...] = FILES

    def __init__(
        self,
        data: TrainingData,
        config: TokenizerConfig,
        out: OutputDirectory,
        executor: Executor,
        progress: ProgressReporter,
    ) -> None:
        self._data, self._config, self._out = data, resolve_required(self._resolve(config)), out
        self._folder, self._state, self._staged = out.path, out.state, out.state / _STAGED
        self._executor, self._progress = executor, progress
        self._special = special_tokens(self._config)
        data.inspect()
        self._normalizers = self._choose_normalizers()
        check_normalized(self._config.required_list, self._normalizers)
        export_normalizers(self._normalizers, " ")  # fail before hours of counting if a normalizer cannot be exported
        self._made_from = plain(self._fields())

    def _resolve(self, config: TokenizerConfig) -> TokenizerConfig:
        """Return the config with what the training determines. Called before anything else."""
        return config

    def _choose_normalizers(self) -> list[dict[str, Any]]:
        """Return the descriptions of the normalizers for raw text."""
        config, data = self._config, self._data
        if config.normalizers is not None:
            return [plain(describe_step(make_step("normalizer", ref))) for ref in config.normalizers]
        normalizers = for_raw_text(data.normalizers)
        if not data.same_normalizers:
            _log.warning("the sources have different normalizers: the tokenizer has none (see tokenizer.normalizers)")
        return keep_spaces(normalizers) if config.boundaries == "spaces" else normalizers

    def _fields(self) -> dict[str, Any]:
        """Return the fingerprint fields."""
        return {
            "format": FORMAT,
            "material": self._data.fields(),
            "config": self._without_places(),
            "normalizers": self._normalizers,
            "splitter": self._for_raw_text(self._data.splitter),
            "segmenter": self._for_raw_text(self._data.segmenter),
            "versions": _versions(),
            "libraries": _libraries(),
        }

    def _without_places(self) -> TokenizerConfig:
        """Return the config without what `material` has: the contents of the sources, wherever they are."""
        return _without_sources(self._config)

    def _for_raw_text(self, step: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return a step if the tokenizer needs it to segment raw text."""
        return step if self._config.boundaries == "hard" else None

    def run(self, *, restart: bool) -> TokenizerCard:
        """Run all steps of the training."""
        if restart:  # a model of another type would leave files that loaders prefer
            self._out.restart()
        if self._out.finished:
            return self._verify_finished()
        self._out.resume(self._made_from)
        counted = self._data.count(self._config, self._state, self._executor, self._progress)
        failpoint("tokenizer.counted")
        self._progress.begin("learning", 0)
        card = self._publish(self._make(counted))
        self._out.clean()
        return card

    def _make(self, counted: UnitCounts) -> TokenizerCard:
        """Learn the tokenizer, write it to the staging folder and score it."""
        scratch = self._state / "learning"
        vocabulary = self._learn(lambda: learning.learn(counted, self._config, self._special, scratch))
        return self._stage(vocabulary, counted)

    def _learn(self, learn: Callable[[], T]) -> T:
        """Call what learns. After a config error, other settings may reuse the counts."""
        try:
            learnt = _in_thread(learn)
        except ConfigError:
            self._out.forget_made_from()
            raise
        failpoint("tokenizer.learnt")
        self._progress.begin("scoring", 0)
        return learnt

    def _verify_finished(self) -> TokenizerCard:
        """Return the card of a finished tokenizer if it is the requested one and its files are intact."""
        self._data.check_comparable(self._folder)
        card = read_own_card(self._folder)
        self._out.verify(self._made_from, card.made_from, card.files.items(), TRAIN_AGAIN)
        self._out.clean()
        return card

    def _stage(self, vocabulary: Vocabulary, counted: UnitCounts) -> TokenizerCard:
        """Write the directory to a staging folder, and score it."""
        staged = self._staged
        remove_tree(staged)
        write_tokenizer_files(vocabulary, self._normalizers, staged)
        counts = counted.counts | vocabulary.counts | {"characters.in_alphabet": len(vocabulary.alphabet)}
        card = self._card(counts)
        write_card(staged, card)
        tokenizer = Tokenizer(staged)
        return msgspec.structs.replace(
            card, figures=_figures(tokenizer, counted.sample) | _figures_by_source(tokenizer, counted)
        )

    def _card(self, counts: dict[str, int]) -> TokenizerCard:
        identity = fingerprint(self._made_from)
        return TokenizerCard(
            jprep=version("jprep"),
            format=FORMAT,
            name=self._data.name,
            signature=_signature(self._data.name, self._config, identity),
            fingerprint=identity,
            made_from=self._made_from,
            config=self._recorded_config(),
            normalizers=self._normalizers,
            splitter=self._for_raw_text(self._data.splitter),
            segmenter=self._for_raw_text(self._data.segmenter),
            sources=self._data.sources,
            counts=dict(sorted(counts.items())),
            figures={},
            files={},
        )

    def _recorded_config(self) -> TokenizerConfig:
        """Return the config for the card, without places on this machine."""
        if not self._config.source_list:
            return self._config
        sources = [msgspec.structs.replace(source, paths=[], corpus="") for source in self._config.source_list]
        return msgspec.structs.replace(self._config, sources=sources)

    def _publish(self, card: TokenizerCard) -> TokenizerCard:
        """Move the staged files to the output directory, the card last."""
        staged = self._staged
        (staged / CARD_JSON).unlink()
        write_atomic(staged / README, model_card(card).encode())
        files = {path.name: file_sha256(path) for path in sorted(staged.iterdir())}
        card = msgspec.structs.replace(card, files=files)
        for name in files:
            (staged / name).replace(self._folder / name)
        failpoint("tokenizer.moved")
        self._out.seal(card)
        return card


def _versions() -> dict[str, int]:
    return {"units": units.VERSION, "learning": learning.VERSION}


def _libraries() -> dict[str, str]:
    return {name: version(name) for name in _LIBRARIES}


def _without_sources(config: TokenizerConfig) -> TokenizerConfig:
    return msgspec.structs.replace(config, sources=msgspec.UNSET)


def _in_thread(work: Callable[[], T]) -> T:
    """Run a function in a thread, so that the main thread can handle Ctrl-C, which the training library ignores."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done.result()


def _figures(tokenizer: Tokenizer, sample: Path) -> dict[str, float]:
    """Score a tokenizer on the sample, and count the paragraphs for which the exported tokenizer gives other ids.

    Only pieces of several words make it worth stating how many tokens cut words.
    """
    figures = score_tokenizer(tokenizer, read_sample([sample])).figures()
    if tokenizer.card.config.boundaries != "super":
        figures.pop("word_cut_rate", None)
    with sample.open(encoding="utf-8", newline="\n") as lines:
        compared = [line.rstrip("\n") for line in islice(lines, _COMPARED)]
    if differing := _differing(tokenizer, compared):
        figures["paragraphs_with_other_ids_when_exported"] = differing
    return figures


def _figures_by_source(tokenizer: Tokenizer, counted: UnitCounts) -> dict[str, float]:
    """Return the share of each source, and characters per token and the share of restored paragraphs on its sample."""
    figures: dict[str, float] = {}
    for name, share in counted.shares.items():
        scores = score_tokenizer(tokenizer, read_sample(counted.samples[name])).figures()
        kept = ("characters_per_token", "lossless_rate")
        figures |= {f"share.{name}": share} | {f"{key}.{name}": scores[key] for key in kept if key in scores}
    return figures


def read_sample(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the paragraphs of a sample that are scored."""
    for path in paths:
        with path.open(encoding="utf-8", newline="\n") as lines:
            yield from (line.rstrip("\n") for line in islice(lines, 0, None, _SCORED_EVERY))


def _differing(tokenizer: Tokenizer, marked: list[str]) -> int:
    from tokenizers import Tokenizer as Exported

    hard = tokenizer.card.config.boundaries == "hard"  # a single word has no mark, and would be segmented again
    texts = [line + WORD if hard else line.replace(WORD, "") for line in marked]
    exported = Exported.from_file(str(tokenizer.folder / TOKENIZER_JSON))
    exported_ids = [each.ids for each in exported.encode_batch_fast(texts, add_special_tokens=False)]
    ids, offsets = tokenizer.encode_batch(texts)
    return sum(ids[offsets[i] : offsets[i + 1]].tolist() != other for i, other in enumerate(exported_ids))


def _signature(name: str, config: TokenizerConfig, identity: str) -> str:
    """Return one line to cite with figures."""
    what = [f"tokenizer:{name}", config.model, f"vocab:{config.vocab_size}", f"boundaries:{config.boundaries}"]
    return "|".join([f"jprep:{version('jprep')}", *what, f"id:{identity[:12]}"])
