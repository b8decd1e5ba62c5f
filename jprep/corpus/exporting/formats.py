"""The text formats of documents."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from jprep.corpus.document import SENTENCE, UNMARK, WORD, Document
from jprep.errors import ConfigError

TextForm = Literal["text", "words", "jsonl"]
LineUnit = Literal["sentence", "paragraph"]

FORMS: tuple[str, ...] = get_args(TextForm)


class TextFormat(msgspec.Struct, frozen=True):
    """How documents become lines.

    Attributes:
        form: `text`, lines without white space at their ends, and sentences without any around them; `words`, the same
            with spaces between words, which loses the text's own white space, as in published recipes; or `jsonl`, one
            document per line, lossless.
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
        lines = (line for paragraph in document.words.split("\n") for line in self._lines(paragraph))
        return "".join(f"{line}\n" for line in lines if line) + ("\n" if self.blank_lines else "")

    def _lines(self, paragraph: str) -> list[str]:
        units = [paragraph] if self.unit == "paragraph" else paragraph.split(SENTENCE)
        if self.form == "words":
            return [" ".join(unit.replace(SENTENCE, " ").replace(WORD, " ").split()) for unit in units]
        first, *others = (unit.translate(UNMARK) for unit in units)
        return [first.rstrip(), *(other.strip() for other in others)]  # code and verse are indented
