"""What a model is trained on: files of words, text with a segmenter that labels it, and a dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jprep.corpus.config import make_named_step
from jprep.corpus.segmenters.pointwise.dictionary import jumandic_words, make_dictionary
from jprep.corpus.segmenters.pointwise.training.labelled import label_text, read_lines, read_words
from jprep.corpus.step import describe_step
from jprep.errors import ConfigError
from jprep.io.hashing import cached_sha256

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from jprep.corpus.segmenters.pointwise.features import FeatureConfig
    from jprep.corpus.step import Segmenter

JUMANDIC, NO_DICTIONARY = "jumandic", "none"


class TrainingInputs:
    """The inputs of a training. As a context manager it stops the teacher's processes.

    Args:
        words: files of word-segmented sentences.
        text: files with one sentence per line, which the teacher labels.
        teacher: name of a segmenter; used if there is text.
        overrides: options of the teacher, `KEY=VALUE`.
        dictionary: `jumandic`, `none`, or the path of a file with one word per line.

    Attributes:
        tally: the number of lines that the teacher could not segment, as `unsegmented`.

    Raises:
        ConfigError: there is no such dictionary, or an input is not a regular file: inputs are hashed and then read.
    """

    def __init__(
        self, words: Sequence[Path], text: Sequence[Path], teacher: str, overrides: Sequence[str], dictionary: str
    ) -> None:
        self._words, self._text, self.tally = words, text, Counter[str]()
        for path in (*words, *text):
            if not path.is_file():
                raise ConfigError(
                    "expected a file, got a pipe or device", where=str(path), fix="write it to a file first"
                )
        self._named_teacher = teacher, overrides
        self._dictionary = dictionary
        if dictionary not in (JUMANDIC, NO_DICTIONARY) and not Path(dictionary).is_file():
            fix = f"give {JUMANDIC!r}, {NO_DICTIONARY!r}, or a file with one word per line"
            raise ConfigError(f"there is no dictionary {dictionary!r}", where="--dictionary", fix=fix)

    def __enter__(self) -> TrainingInputs:
        """Return the inputs."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop the teacher's processes."""
        if "_teacher" in self.__dict__:
            self._teacher.close()

    @cached_property
    def _teacher(self) -> Segmenter:
        made: Segmenter = make_named_step("segmenter", *self._named_teacher)
        return made

    def sentences(self) -> Iterator[list[str]]:
        """Yield the words of each sentence.

        Raises:
            JprepError: see `read_words` and `label_text`.
        """
        for path in self._words:
            yield from read_words(str(path))
        for path in self._text:
            yield from label_text(str(path), self._teacher, self.tally)

    def dictionary(self, config: FeatureConfig) -> NDArray[np.uint8]:
        """Return the table of the dictionary.

        Raises:
            JprepError: it cannot be read.
        """
        if self._dictionary == NO_DICTIONARY:
            return make_dictionary((), config)
        words = jumandic_words() if self._dictionary == JUMANDIC else read_lines(self._dictionary)
        return make_dictionary(words, config)

    def described(self) -> dict[str, Any]:
        """Return names and hashes of the inputs, for the card."""
        found: dict[str, Any] = {"words": _hashes(self._words), "text": _hashes(self._text)}
        if self._text:
            found["teacher"] = describe_step(self._teacher)
        named = self._dictionary in (JUMANDIC, NO_DICTIONARY)
        found["dictionary"] = self._dictionary if named else _hashes([Path(self._dictionary)])[0]
        return found


def _hashes(paths: Sequence[Path]) -> list[dict[str, str]]:
    return [{"file": path.name, "sha256": cached_sha256(path)} for path in paths]
