"""Juman++ V2, driven directly: only what surely comes back is sent, and only what surely is right is believed."""

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
from jprep.corpus.segmenters.analyse import Row, builder, read_rows, unknown
from jprep.corpus.segmenters.driver import PROBE, Driver
from jprep.corpus.segmenters.inprocess import refusal, sha256
from jprep.corpus.segmenters.pieces import pieces
from jprep.corpus.segmenters.process import Distrust
from jprep.corpus.step import Segmenter, StepConfig
from jprep.errors import ConfigError, MachineError

if TYPE_CHECKING:
    from pyknp import MList

_KANA = "ぁ-ゟ゠-ヿㇰ-ㇿｦ-ﾟ〜～"
_KANJI = "々-〇〻㐀-䶿一-鿿豈-﫿\U00020000-\U0003ffff"
_SCRIPTS = (f"[{_KANA}]", f"[{_KANJI}]", rf"[^\W\d_{_KANA}{_KANJI}]")
"""What makes Juman++'s lattice explode when it goes on too long. All kana count as one: っ, ー and 〜 lengthen both."""

_CAREFUL = re.compile(f"^# |[\n\0{PROBE}{WORD}\ud800-\udfff]")

_GET = "build it from https://github.com/ku-nlp/jumanpp/releases, or take `jumandic`, which needs nothing but pip"


class JumanppSegmenter(Segmenter):
    """Juman++ with any model of its own, one process a worker, kept alive.

    Counts `unsegmented.<reason>`: `mark` (U+001F in the text), `surrogate` (not valid UTF-8), and the program's faults:
    `died`, `timeout`, `lines` (more or fewer than sent) and `changed` (its words are not the text).
    """

    name = "jumanpp"
    version = 1
    local = frozenset({"program", "model", "timeout", "memory_mb", "batch"})

    class Config(StepConfig, frozen=True):
        """Options.

        Attributes:
            program: its path, or its name on PATH.
            model: the model's path; "" takes the one that the program's own configuration names.
            args: more options, each as `--name=value`.
            timeout: seconds that a batch may take.
            memory_mb: the most address space that the process may have, in MiB (no effect on macOS).
            max_line_bytes: longer sentences are cut at sentence ends, else at commas and spaces.
            max_run: characters of one script in a row; longer runs are cut.
            batch: lines sent at once.
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
            _check(arg)
        self._short = min(self.config.max_run, self.config.max_line_bytes // 4)
        each = "|".join(f"{script}{{{self.config.max_run}}}(?={script})" for script in _SCRIPTS)
        self._run = re.compile(f"({PROBE}|{each})")

    def segment(self, texts: Sequence[str]) -> list[str]:
        """Put U+001F between words; a sentence of which any part failed comes back as it was, and is counted."""
        cuts = [self._lines(text) for text in texts]
        # One character is one word: nothing to ask.
        answers = iter(self._segmenting.ask([line for cut in cuts for line in cut if len(line) > 1]))
        return [self._join(text, cut, answers) for text, cut in zip(texts, cuts, strict=True)]

    def analyse(self, texts: Sequence[str]) -> list[MList]:
        """Full morphological analyses.

        Returns:
            For each text a `pyknp.MList`, the `midasi` of whose morphemes join to the text. What Juman++ cannot take is
            one morpheme of the class 未定義語, counted as `unanalysed.<reason>`.

        Raises:
            MachineError: the extra `pyknp` is not installed, or Juman++ does not work.
        """
        build = builder()
        cuts = [self._lines(text) for text in texts]
        asked = list({line: None for cut in cuts for line in cut if line not in ("", "\n", PROBE)})
        answers = dict(zip(asked, self._analysing.ask(asked), strict=True))
        return [build(self._rows(text, cut, answers)) for text, cut in zip(texts, cuts, strict=True)]

    def provenance(self) -> dict[str, str]:
        """The program's `-v` line, and the hash of its model and of every file that its options name."""
        found = {"jumanpp": self._version()}
        for arg in self._options():
            name, _, value = arg.partition("=")
            if Path(value).is_file():
                found[f"jumanpp {name}"] = sha256(Path(value))
        return found

    def close(self) -> None:
        """Let the processes leave."""
        for driver in ("_segmenting", "_analysing"):
            if driver in self.__dict__:
                self.__dict__.pop(driver).close()

    @cached_property
    def _segmenting(self) -> Driver[str]:
        return self._driver(f"{PROBE}\n".encode(), read_words, 2, "--segment", f"--segment-separator={WORD}")

    @cached_property
    def _analysing(self) -> Driver[list[Row]]:
        return self._driver(b"EOS\n", read_rows, 4096, "--juman")

    def _driver(self, end: bytes, read: Any, growth: int, *mode: str) -> Driver[Any]:
        command, config = [self._program(), *self._options(), *mode], self.config
        bounds = {"batch": config.batch, "timeout": config.timeout, "memory_mb": config.memory_mb}
        return Driver(command, end, read, growth=growth, **bounds)

    def _lines(self, text: str) -> list[str]:
        """Cut a text into lines that Juman++ takes; none where it takes no part of it."""
        careful = _CAREFUL.search(text)
        if not careful and len(text) <= self._short:
            return [text]
        if careful and refusal(text):
            return []
        return [line for piece in pieces(text, self.config.max_line_bytes) for line in self._safe(piece)]

    def _safe(self, piece: str) -> Iterator[str]:
        """Cut the probe, long runs of one script, and `#` before a space, which would make a comment of the line."""
        for part in filter(None, self._run.split(piece)):
            yield from ("#", part[1:]) if part.startswith("# ") else (part,)

    def _join(self, text: str, cut: list[str], answers: Iterator[str | Distrust]) -> str:
        words = [line if len(line) < 2 else next(answers) for line in cut]
        marked = [word for word in words if isinstance(word, str)]
        if cut and len(marked) == len(words):
            return WORD.join(marked)
        self.tally[f"unsegmented.{_reason(text, words)}"] += 1
        return text

    def _rows(self, text: str, cut: list[str], answers: dict[str, Any]) -> list[Row]:
        found = [answers.get(line, [unknown(line)]) for line in cut if line]
        rows = [rows for rows in found if isinstance(rows, list)]
        if cut and len(rows) == len(found):
            return [row for part in rows for row in part]
        self.tally[f"unanalysed.{_reason(text, found)}"] += 1
        return [unknown(text)]

    def _program(self) -> str:
        path = shutil.which(str(Path(self.config.program).expanduser()))
        if path is None:
            what = f"there is no program {self.config.program!r}"
            raise MachineError(what, where="segmenter jumanpp: program", fix=_GET)
        return path

    def _options(self) -> list[str]:
        model = Path(self.config.model).expanduser() if self.config.model else configured_model(self._program())
        if not model.is_file():
            raise MachineError(f"there is no model {str(model)!r}", where="segmenter jumanpp: model", fix=_GET)
        return [f"--model={model}", *self.config.args]

    def _version(self) -> str:
        command = [self._program(), *self._options(), "-v"]
        try:
            ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=self.config.timeout)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MachineError(f"{command[0]} does not tell its version: {error}", fix=_GET) from error
        return ran.stdout.decode(errors="replace").strip()


def read_words(sent: bytes, answer: bytes) -> list[str]:
    """Believe a batch whose words, joined, are what was sent.

    Raises:
        Distrust: they are not.
    """
    if answer.count(b"\n") != sent.count(b"\n"):
        raise Distrust("lines")
    try:
        words = answer.decode()
    except UnicodeDecodeError:
        raise Distrust("changed") from None
    if answer.replace(WORD.encode(), b"") != sent:
        raise Distrust("changed")
    return words.split("\n")[:-1]


def configured_model(program: str) -> Path:
    """The model that an installed Juman++ takes by itself: the one that its `jumandic.config` names.

    Raises:
        MachineError: there is no such file where the program looks for it.
    """
    shared = Path(program).resolve().parent.parent / "libexec" / "jumanpp"
    for folder in (shared, Path("~/.config/jumanpp").expanduser()):
        config = folder / "jumandic.config"
        if config.is_file() and (named := re.search(r"--model=(\S+)", config.read_text(encoding="utf-8"))):
            return folder / named[1]
    where = f"{program} has no jumandic.config in {shared}"
    raise MachineError("it is not known which model Juman++ takes", where=where, fix="name it: model = '….jppmdl'")


def _check(arg: str) -> None:
    """Refuse what would be read as an input file, after which Juman++ never exits, and what jprep says itself."""
    name, _, value = arg.partition("=")
    if not (name.startswith("--") and value):
        raise ConfigError(f"{arg!r} is not of the form --name=value", where="segmenter jumanpp: args")
    if name in ("--model", "--output", "--format", "--segment-separator", "--lattice", "--specifics"):
        fix = "leave it out; for a model, set `model`"
        raise ConfigError(f"{name} is for jprep to say", where="segmenter jumanpp: args", fix=fix)


def _reason(text: str, parts: Sequence[object]) -> str:
    return next((part.reason for part in parts if isinstance(part, Distrust)), "") or refusal(text)
