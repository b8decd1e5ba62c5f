"""The steps of the corpus for a text at hand: `normalize`, `split_sentences`, `segment`."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Sequence
from typing import Any, overload

import msgspec

from jprep.corpus.document import SENTENCE, UNMARK, WORD


def normalize(text: str, using: str = "neologdn", **options: Any) -> str:
    """Normalise a text line by line, as the corpus does.

    As in every reader, U+001E and U+001F go.

    Args:
        text: any number of lines.
        using: a normaliser's name: `neologdn`, `nfkc`, or a plugin's.
        options: its options; for neologdn `tilde`, `repeat`, `remove_space`, `max_repeat_substr_length`.

    Returns:
        the text with as many lines as it had.

    Raises:
        TypeError: `text` is no str.
        ConfigError: no such normaliser, or no such option.

    >>> normalize("ﾊﾝｶｸとＺｅｎｋａｋｕ　２０２０年〜２０２１年")
    'ハンカクとZenkaku 2020年〜2021年'
    """
    result: str = _step("normalizer", using, options).apply(_unmarked(text))
    return result


def split_sentences(text: str, using: str = "rules") -> list[str]:
    """Split a text into sentences. Joined, they are the text without its newlines.

    White space after a sentence stays with it; empty lines are left out. As in every reader, U+001E and U+001F go.

    Args:
        text: any number of paragraphs, one a line.
        using: a splitter's name.

    Raises:
        TypeError: `text` is no str.

    >>> split_sentences("「行く。」と言った。本当？")
    ['「行く。」と言った。', '本当？']
    """
    marked: str = _step("splitter", using, {}).mark(_unmarked(text))
    return [sentence for sentence in marked.replace("\n", SENTENCE).split(SENTENCE) if sentence]


@overload
def segment(text: str, using: str = "jumandic", **options: Any) -> list[str]: ...
@overload
def segment(text: Sequence[str], using: str = "jumandic", **options: Any) -> list[list[str]]: ...
def segment(text: str | Sequence[str], using: str = "jumandic", **options: Any) -> list[str] | list[list[str]]:
    """Cut sentences into words. Joined, the words are the sentence, white space included (but not U+001E and U+001F).

    Args:
        text: one sentence, or many: many at once are faster.
        using: a segmenter's name: `jumandic`, `jumanpp`, `sudachi`, `unidic`, or a plugin's.
        options: its options.

    Returns:
        the words of the sentence, or a list of them for each sentence.

    Raises:
        TypeError: `text` is neither a str nor a sequence of them.
        ConfigError: no such segmenter or option.
        MachineError: what it needs is not installed.

    >>> segment("すもももももも。")
    ['すもも', 'も', 'もも', 'も', '。']
    """
    if not isinstance(text, str | Sequence) or isinstance(text, bytes):
        raise TypeError(f"expected a str or a sequence of them, got {type(text).__name__}")
    sentences = [_unmarked(sentence) for sentence in ([text] if isinstance(text, str) else text)]
    words = [marked.split(WORD) for marked in _step("segmenter", using, options).segment(sentences)]
    return words[0] if isinstance(text, str) else words


def _unmarked(text: str) -> str:
    """Return a text without jprep's own marks.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected a str, got {type(text).__name__}")
    return text.translate(UNMARK)


def _step(kind: str, name: str, options: dict[str, Any]) -> Any:
    return _opened(kind, name, msgspec.json.encode(options, order="sorted"))


@functools.cache
def _opened(kind: str, name: str, options: bytes) -> Any:
    """A step, made once and closed when the interpreter ends: a dictionary takes a while to load."""
    from jprep.corpus.config import make_step

    step = make_step(kind, {"use": name} | msgspec.json.decode(options))
    atexit.register(step.close)
    return step
