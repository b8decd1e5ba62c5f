"""Apply single corpus steps to a text in memory: `normalize`, `split_sentences`, `segment`."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Sequence
from typing import Any, overload

import msgspec

from jprep.corpus.document import SENTENCE, UNMARK, WORD


def normalize(text: str, using: str = "neologdn", **options: Any) -> str:
    """Normalize a text line by line, as a corpus build does. U+001E and U+001F are removed.

    Args:
        text: any number of lines.
        using: name of a normalizer: `neologdn`, `nfkc`, or one of a plugin.
        options: options of the normalizer; for neologdn `tilde`, `repeat`, `remove_space`, `max_repeat_substr_length`.

    Returns:
        The normalized text, with the same number of lines.

    Raises:
        TypeError: `text` is not a str.
        ConfigError: unknown normalizer or option.

    >>> normalize("ﾊﾝｶｸとＺｅｎｋａｋｕ　２０２０年〜２０２１年")
    'ハンカクとZenkaku 2020年〜2021年'
    """
    result: str = _step("normalizer", using, options).apply(_without_separators(text))
    return result


def split_sentences(text: str, using: str = "rules") -> list[str]:
    """Split a text into sentences.

    The joined sentences are the text without newlines: white space stays at the end of a sentence, empty lines are
    left out. U+001E and U+001F are removed.

    Args:
        text: any number of paragraphs, one per line.
        using: name of a splitter.

    Raises:
        TypeError: `text` is not a str.
        ConfigError: unknown splitter.

    >>> split_sentences("「行く。」と言った。本当？")
    ['「行く。」と言った。', '本当？']
    """
    marked: str = _step("splitter", using, {}).mark(_without_separators(text))
    return [sentence for sentence in marked.replace("\n", SENTENCE).split(SENTENCE) if sentence]


@overload
def segment(text: str, using: str = "pointwise", **options: Any) -> list[str]: ...
@overload
def segment(text: Sequence[str], using: str = "pointwise", **options: Any) -> list[list[str]]: ...
def segment(text: str | Sequence[str], using: str = "pointwise", **options: Any) -> list[str] | list[list[str]]:
    """Split sentences into words. The joined words are the sentence, with white space, without U+001E and U+001F.

    Args:
        text: one sentence, or a sequence of sentences, which is faster than one call per sentence.
        using: name of a segmenter: `pointwise`, `jumandic`, `jumanpp`, `sudachi`, `unidic`, or one of a plugin.
        options: options of the segmenter.

    Returns:
        The words of the sentence, or a list of words for each sentence.

    Raises:
        TypeError: `text` is neither a str nor a sequence of str.
        ConfigError: unknown segmenter or option.
        MachineError: the segmenter is not installed.

    >>> segment("東京都に住んでいる。")
    ['東京', '都', 'に', '住んで', 'いる', '。']
    """
    if not isinstance(text, str | Sequence) or isinstance(text, bytes):
        raise TypeError(f"expected a str or a sequence of str, got {type(text).__name__}")
    sentences = [_without_separators(sentence) for sentence in ([text] if isinstance(text, str) else text)]
    words = [marked.split(WORD) for marked in _step("segmenter", using, options).segment(sentences)]
    return words[0] if isinstance(text, str) else words


def _without_separators(text: str) -> str:
    """Return a text without U+001E and U+001F.

    Raises:
        TypeError: `text` is not a str.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected a str, got {type(text).__name__}")
    return text.translate(UNMARK)


def _step(kind: str, name: str, options: dict[str, Any]) -> Any:
    from jprep.plugins import plugins

    cls = plugins().get(kind, name)  # another one after a user's file has changed
    return _cached_step(kind, name, cls, msgspec.json.encode(options, order="sorted"))


@functools.cache
def _cached_step(kind: str, name: str, cls: type, options: bytes) -> Any:
    """Return a step, made once per process because dictionaries load slowly, and closed at exit."""
    from jprep.corpus.config import make_step

    step = make_step(kind, {"use": name} | msgspec.json.decode(options))
    atexit.register(step.close)
    return step
