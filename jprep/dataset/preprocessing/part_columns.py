"""Check that a corpus keeps the signals and clusters by which the parts of a mixture are chosen."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from jprep.config import suggest_name
from jprep.corpus.api import Corpus
from jprep.corpus.config import CorpusConfig
from jprep.corpus.signals.lookup import signal_to_keep
from jprep.corpus.signals.per_line import of_documents
from jprep.corpus.step import Signal
from jprep.dataset.mix import WHERE
from jprep.dataset.mix_parts import MixPart
from jprep.errors import ConfigError


def check_corpus_columns(parts: Sequence[MixPart], corpus: Corpus) -> None:
    """Check that a corpus keeps what parts compare.

    Raises:
        ConfigError: it lacks the column of a signal, or clusters of near-duplicates.
    """

    def fix(signal: str) -> str:
        made = f"{corpus.folder}-with-signals"
        command = ("jprep", "corpus", "filter", str(corpus.folder), "--signal", signal, "-o", made)
        return f"`{shlex.join(command)}` adds it; then pack that corpus"

    clusters = "near" in corpus.manifest.made_from["documents"].get("dedup", {})
    _check_kept(parts, corpus.manifest.signals, clusters, f"{WHERE}, {corpus.folder}", fix)


def check_recipe_columns(parts: Sequence[MixPart], config: CorpusConfig, signals: Sequence[Signal]) -> None:
    """Check that the corpus of a recipe will keep what parts compare.

    Args:
        parts: the parts.
        config: the section `[corpus]`.
        signals: its signals.

    Raises:
        ConfigError: see `check_corpus_columns`.
    """

    def fix(signal: str) -> str:
        quoted = signal if signal.startswith("{") else f'"{signal}"'
        return f"add it to the recipe: [corpus] signals = [{quoted}]"

    columns = [column for signal in of_documents(signals) for column in signal.columns]
    _check_kept(parts, columns, config.dedup.near is not None, WHERE, fix)


def _check_kept(
    parts: Sequence[MixPart], columns: Sequence[str], clusters: bool, where: str, fix: Callable[[str], str]
) -> None:
    """Check parts against the columns of a corpus, and whether it has clusters; `fix` says how to keep a signal."""
    for part in parts:
        for column in (limits.signal for limits in part.where):
            if column not in columns:
                what = f"the part {part.name!r} compares {column}, which the corpus does not keep"
                kept = f"it keeps {', '.join(columns) or 'no signal'}"
                signal = signal_to_keep(column)
                solution = fix(signal) if signal else suggest_name(column, columns)
                raise ConfigError(f"{what}; {kept}", where=where, fix=solution)
        if part.cluster_size and not clusters:
            what = f"the part {part.name!r} compares the size of clusters of near-duplicates, and the corpus has none"
            raise ConfigError(what, where=where, fix="build the corpus with clusters: [corpus] dedup = { near = {} }")
