"""Juman++ V2 as an external program. Its input is restricted to what it can process, and its answers are validated."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.analyzer_client import PROBE, AnalyzerClient
from jprep.corpus.segmenters.analyzer_process import InvalidAnswer
from jprep.corpus.segmenters.juman_output import MorphemeRow, morpheme_list_builder, parse_analyses, unknown_morpheme
from jprep.corpus.segmenters.library_segmenter import file_hash, unsupported_reason
from jprep.corpus.segmenters.text_pieces import KANA, split_text
from jprep.corpus.step import Segmenter, StepConfig
from jprep.errors import ConfigError, MachineError

if TYPE_CHECKING:
    from pyknp import MList

# The CJK compatibility ideographs begin at U+F900. This range begins at U+8C48 by mistake, so that long runs of Hangul
# and private-use characters are split like kanji. A correction changes the input of Juman++ and needs a new `version`.
_KANJI_OF_VERSION_1 = "々-〇〻㐀-䶿一-鿿\u8c48-\ufaff\U00020000-\U0003ffff"
_SCRIPTS = (f"[{KANA}]", f"[{_KANJI_OF_VERSION_1}]", rf"[^\W\d_{KANA}{_KANJI_OF_VERSION_1}]")
"""Scripts of which long runs make Juman++'s lattice very large. Hiragana and katakana count as one script, since っ, ー
and 〜 continue runs of both."""

_NEEDS_SPLIT = re.compile(f"^# |[\n\0{PROBE}{WORD}\ud800-\udfff]")

_INSTALL = "build it from https://github.com/ku-nlp/jumanpp/releases, or use `pointwise`, which comes with jprep"


class JumanppSegmenter(Segmenter):
    """Juman++ with any of its models. Each worker keeps one process running.

    Counts `unsegmented.<reason>`, where the reason is a property of the text, `mark` (it contains U+001F) or
    `surrogate` (not valid UTF-8), or a failure of the program: `died`, `timeout`, `lines` (wrong number of lines),
    `changed` (its words do not join to the text).
    """

    name = "jumanpp"
    version = 1
    local = frozenset({"program", "model", "timeout", "memory_mb", "batch"})

    class Config(StepConfig, frozen=True):
        """Options.

        Attributes:
            program: path of the program, or its name on PATH.
            model: path of the model; "" uses the model in the program's configuration.
            args: further options of the program, each as `--name=value`.
            timeout: maximum seconds per batch.
            memory_mb: limit of the address space of the process in MiB (no effect on macOS).
            max_line_bytes: maximum size of a line in bytes; longer sentences are split at sentence ends, else at commas
                and spaces.
            max_run: maximum number of consecutive characters of one script; longer runs are split.
            batch: lines per batch.
        """

        program: str = "jumanpp"
        model: str = ""
        args: tuple[str, ...] = ()
        timeout: Annotated[float, Meta(gt=0)] = 60.0
        memory_mb: Annotated[int, Meta(ge=256)] = 2048
        max_line_bytes: Annotated[int, Meta(ge=4, le=4096)] = 1000
        max_run: Annotated[int, Meta(ge=1, le=200)] = 128
        batch: Annotated[int, Meta(ge=1)] = 500

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        for arg in self.config.args:
            _check_argument(arg)
        self._short = min(self.config.max_run, self.config.max_line_bytes // 4)
        each = "|".join(f"{script}{{{self.config.max_run}}}(?={script})" for script in _SCRIPTS)
        self._run = re.compile(f"({PROBE}|{each})")

    def segment(self, texts: Sequence[str]) -> list[str]:
        """Insert U+001F between words. A sentence with a failed part is returned unchanged and counted."""
        return [text if words is None else words for text, words in zip(texts, self.try_segment(texts), strict=True)]

    def try_segment(self, texts: Sequence[str]) -> list[str | None]:
        """Insert U+001F between words. A sentence with a failed part is None, and counted."""
        cuts = [self._lines(text) for text in texts]
        # One character is one word and needs no analysis.
        answers = iter(self._segmenting.ask([line for cut in cuts for line in cut if len(line) > 1]))
        return [self._join(text, cut, answers) for text, cut in zip(texts, cuts, strict=True)]

    def analyze(self, texts: Sequence[str]) -> list[MList]:
        """Return full morphological analyses.

        Returns:
            For each text a `pyknp.MList`, whose `midasi` join to the text. A text that Juman++ cannot process is one
            morpheme of the class 未定義語, counted as `unanalysed.<reason>`.

        Raises:
            MachineError: the extra `pyknp` is not installed, or Juman++ does not work.
        """
        build = morpheme_list_builder()
        cuts = [self._lines(text) for text in texts]
        asked = list({line: None for cut in cuts for line in cut if line not in ("", "\n", PROBE)})
        answers = dict(zip(asked, self._analyzing.ask(asked), strict=True))
        return [build(self._rows(text, cut, answers)) for text, cut in zip(texts, cuts, strict=True)]

    def provenance(self) -> dict[str, str]:
        """Return the version line of the program, and the hashes of its model and of every file in its options."""
        found = {"jumanpp": self._version()}
        for arg in self._options():
            name, _, value = arg.partition("=")
            if Path(value).is_file():
                found[f"jumanpp {name}"] = file_hash(Path(value))
        return found

    def close(self) -> None:
        """Stop the processes."""
        for client in ("_segmenting", "_analyzing"):
            if client in self.__dict__:
                self.__dict__.pop(client).close()

    @cached_property
    def _segmenting(self) -> AnalyzerClient[str]:
        return self._client(f"{PROBE}\n".encode(), parse_words, 2, "--segment", f"--segment-separator={WORD}")

    @cached_property
    def _analyzing(self) -> AnalyzerClient[list[MorphemeRow]]:
        return self._client(b"EOS\n", parse_analyses, 4096, "--juman")

    def _client(self, end: bytes, read: Any, growth: int, *mode: str) -> AnalyzerClient[Any]:
        command, config = [self._program(), *self._options(), *mode], self.config
        bounds = {"batch": config.batch, "timeout": config.timeout, "memory_mb": config.memory_mb}
        return AnalyzerClient(command, end, read, growth=growth, **bounds)

    def _lines(self, text: str) -> list[str]:
        """Split a text into lines that Juman++ accepts; return no lines if it cannot process the text."""
        needs_split = _NEEDS_SPLIT.search(text)
        if not needs_split and len(text) <= self._short:
            return [text]
        if needs_split and unsupported_reason(text):
            return []
        return [line for piece in split_text(text, self.config.max_line_bytes) for line in self._safe(piece)]

    def _safe(self, piece: str) -> Iterator[str]:
        """Split off the probe, long runs of one script, and `# `, which begins a comment line."""
        for part in filter(None, self._run.split(piece)):
            yield from ("#", part[1:]) if part.startswith("# ") else (part,)

    def _join(self, text: str, cut: list[str], answers: Iterator[str | InvalidAnswer]) -> str | None:
        words = [line if len(line) < 2 else next(answers) for line in cut]
        marked = [word for word in words if isinstance(word, str)]
        if cut and len(marked) == len(words):
            return WORD.join(marked)
        self.tally[f"unsegmented.{_reason(text, words)}"] += 1
        return None

    def _rows(self, text: str, cut: list[str], answers: dict[str, Any]) -> list[MorphemeRow]:
        found = [answers.get(line, [unknown_morpheme(line)]) for line in cut if line]
        rows = [rows for rows in found if isinstance(rows, list)]
        if cut and len(rows) == len(found):
            return [row for part in rows for row in part]
        self.tally[f"unanalysed.{_reason(text, found)}"] += 1
        return [unknown_morpheme(text)]

    def _program(self) -> str:
        path = shutil.which(str(Path(self.config.program).expanduser()))
        if path is None:
            what = f"program {self.config.program!r} not found"
            raise MachineError(what, where="segmenter jumanpp: program", fix=_INSTALL)
        return path

    def _options(self) -> list[str]:
        model = Path(self.config.model).expanduser() if self.config.model else configured_model(self._program())
        if not model.is_file():
            raise MachineError(f"model {str(model)!r} not found", where="segmenter jumanpp: model", fix=_INSTALL)
        return [f"--model={model}", *self.config.args]

    def _version(self) -> str:
        command = [self._program(), *self._options(), "-v"]
        try:
            ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=self.config.timeout)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MachineError(f"cannot get the version of {command[0]}: {error}", fix=_INSTALL) from error
        return ran.stdout.decode(errors="replace").strip()


def parse_words(sent: bytes, answer: bytes) -> list[str]:
    """Parse the words of a batch of lines.

    Args:
        sent: the lines as sent to Juman++.
        answer: its output.

    Returns:
        The lines with U+001F between words.

    Raises:
        InvalidAnswer: the words do not join to the lines.
    """
    if answer.count(b"\n") != sent.count(b"\n"):
        raise InvalidAnswer("lines")
    try:
        words = answer.decode()
    except UnicodeDecodeError:
        raise InvalidAnswer("changed") from None
    if answer.replace(WORD.encode(), b"") != sent:
        raise InvalidAnswer("changed")
    return words.split("\n")[:-1]


def configured_model(program: str) -> Path:
    """Return the default model of an installed Juman++, named in its `jumandic.config`.

    Raises:
        MachineError: the configuration file is not where the program looks for it.
    """
    shared = Path(program).resolve().parent.parent / "libexec" / "jumanpp"
    for folder in (shared, Path("~/.config/jumanpp").expanduser()):
        config = folder / "jumandic.config"
        if config.is_file() and (named := re.search(r"--model=(\S+)", config.read_text(encoding="utf-8"))):
            return folder / named[1]
    where = f"{program} has no jumandic.config in {shared}"
    raise MachineError("cannot find the default model of Juman++", where=where, fix="set model = '….jppmdl'")


def _check_argument(arg: str) -> None:
    """Refuse input files, with which Juman++ would never exit, and options that jprep sets itself."""
    name, _, value = arg.partition("=")
    if not (name.startswith("--") and value):
        raise ConfigError(f"{arg!r} is not of the form --name=value", where="segmenter jumanpp: args")
    if name in ("--model", "--output", "--format", "--segment-separator", "--lattice", "--specifics"):
        fix = "leave it out; for a model, set `model`"
        raise ConfigError(f"{name} is set by jprep", where="segmenter jumanpp: args", fix=fix)


def _reason(text: str, parts: Sequence[object]) -> str:
    return next((part.reason for part in parts if isinstance(part, InvalidAnswer)), "") or unsupported_reason(text)
