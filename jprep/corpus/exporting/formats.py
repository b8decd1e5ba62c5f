"""The text formats of documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import msgspec

from jprep.corpus.document import SENTENCE, WORD, Document
from jprep.errors import ConfigError

TextForm = Literal["text", "words", "jsonl"]
LineUnit = Literal["sentence", "paragraph"]

FORMS: tuple[str, ...] = get_args(TextForm)


class TextFormat(msgspec.Struct, frozen=True):
    """How documents become lines.

    Attributes:
        form: `text`; `words`, the same with spaces between words, which loses the text's own white space, as in
            published recipes; or `jsonl`, one document per line, lossless.
        unit: `text`, `words`: what a line is.
        blank_lines: `text`, `words`: whether a blank line follows each document, as google-research/bert expects.
    """

    form: TextForm = "text"
    unit: LineUnit = "sentence"
    blank_lines: bool = True

    def __post_init__(self) -> None:
        """Refuse an unknown format, and options that it does not have.

        Raises:
            ConfigError: the message names the option.
        """
        if self.form not in FORMS:
            raise ConfigError(f"unknown export format {self.form!r}", fix=f"choose one of: {', '.join(FORMS)}")
        if self.unit not in get_args(LineUnit):
            raise ConfigError(f"unknown unit of a line {self.unit!r}", fix="choose sentence or paragraph")
        if self.form == "jsonl" and (self.unit != "sentence" or not self.blank_lines):
            what = "jsonl has one document per line: unit and blank lines are for text and words"
            raise ConfigError(what, where="format = jsonl", fix="remove --unit and --no-blank-lines")

    def lines(self, document: Document) -> str:
        """Return the lines of a document, each with its end. Only the one after the document is blank."""
        if self.form == "jsonl":
            return msgspec.json.encode(document).decode() + "\n"
        marked = document.words if self.unit == "paragraph" else document.words.replace(SENTENCE, "\n")
        lines = map(_UNITS[self.form], marked.split("\n"))
        return "".join(f"{line}\n" for line in lines if line) + ("\n" if self.blank_lines else "")


def _as_text(line: str) -> str:
    return line.replace(SENTENCE, "").replace(WORD, "").strip()


def _as_words(line: str) -> str:
    return " ".join(line.replace(SENTENCE, " ").replace(WORD, " ").split())


_UNITS: dict[str, Callable[[str], str]] = {"text": _as_text, "words": _as_words}
