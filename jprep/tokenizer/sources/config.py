"""The `[[tokenizer.sources]]` tables of a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from jprep.config import ConfigSection
from jprep.corpus.config import StepRef

_MAX_WEIGHT = 10**6


class TokenizerSource(ConfigSection, frozen=True):
    """A source of a tokenizer's training text: files, a finished corpus, or sources of the recipe's own corpus.

    Attributes:
        name: name of the source, for figures and messages. Without `paths` and `corpus`, the source of this name in the
            recipe's corpus is used.
        weight: share of the source in all counted units, relative to the weights of the other sources.
        paths: local paths, globs or URLs, from which a temporary corpus is built.
        reader: the reader of `paths` and its options.
        as_is: keep the text of `paths` byte for byte, as in `corpus.sources`; no normalizers.
        normalizers: normalizers for `paths`; by default none.
        corpus: directory of a finished corpus, instead of `paths`.
        corpus_sources: names of sources in the corpus that belong to this one; by default all of `corpus`.
        segmenter: `none` counts raw text; for `paths`, the segmenter and its options, by default `none`; a finished
            corpus keeps its own words.
        licence: licence of `paths`, for the card.
        homepage: web page of `paths`, for the card.
        required: pieces that enter the vocabulary however rare they are: a list, or the path of a file with one piece
            in each line.
    """

    name: str
    weight: float = 1.0
    paths: list[str] = []
    reader: StepRef = "text"
    as_is: bool = False
    normalizers: list[StepRef] = []
    corpus: str = ""
    corpus_sources: list[str] = []
    segmenter: StepRef = ""
    licence: str = ""
    homepage: str = ""
    required: list[str] | str = []

    @property
    def share(self) -> Fraction:
        """The weight as it is written, exactly."""
        return Fraction(repr(self.weight))

    @property
    def names_in_corpus(self) -> list[str]:
        """Names of the sources in the corpus; empty for all of them."""
        return self.corpus_sources or ([] if self.corpus else [self.name])


def find_problems(sources: Sequence[TokenizerSource]) -> Iterator[tuple[str, str, str]]:
    """Yield the key, the problem and its fix for what is wrong in a list of sources."""
    for number, source in enumerate(sources):
        problems = [*_weight_problems(source), *_input_problems(source)]
        yield from ((f"tokenizer.sources.{number}.{key}", what, fix) for key, what, fix in problems)


def _weight_problems(source: TokenizerSource) -> Iterator[tuple[str, str, str]]:
    if not 1 / _MAX_WEIGHT <= source.weight <= _MAX_WEIGHT:
        yield "weight", f"{source.weight:g} cannot be a weight", f"a number from {1 / _MAX_WEIGHT:g} to {_MAX_WEIGHT:,}"


def _input_problems(source: TokenizerSource) -> Iterator[tuple[str, str, str]]:
    """Yield keys that exclude each other."""
    if source.paths:
        given = [key for key in ("corpus", "corpus_sources") if getattr(source, key)]
        reason = "`paths` are files, from which a corpus is built"
    else:
        given = [key for key in ("as_is", "normalizers", "licence", "homepage") if getattr(source, key)]
        reason = "a finished corpus has been read and normalized"
        if source.segmenter not in ("", "none"):
            fix = 'leave it out for the words of the corpus, use "none" for raw text, or give `paths`'
            yield "segmenter", f"the source {source.name!r} is not segmented again", fix
    for key in given:
        yield key, f"`{key}` does not apply to the source {source.name!r}: {reason}", f"remove `{key}`"
    if source.as_is and source.normalizers:
        yield "as_is", f"the source {source.name!r} keeps its text, and has normalizers", "remove one of them"
