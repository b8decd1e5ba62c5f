"""The columns of the signals that a corpus keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jprep.corpus.signals.per_line import of_documents, of_lines
from jprep.corpus.step import Signal, describe_step
from jprep.engine.fingerprint import fingerprint
from jprep.errors import ConfigError


def check_columns(signals: Sequence[Signal]) -> None:
    """Check that no two signals of documents, or of lines, have a column of the same name.

    Raises:
        ConfigError: two signals have the same column.
    """
    for key, own in (("signals", of_documents(signals)), ("line_signals", of_lines(signals))):
        owners = dict[str, str]()
        for signal in own:
            for column in signal.columns:
                if column in owners:
                    what = f"the signals {owners[column]!r} and {signal.name!r} both have the column {column!r}"
                    raise ConfigError(what, where=f"signals (key `corpus.{key}`)", fix="keep one of them")
                owners[column] = signal.name


def describe_signals(signals: Sequence[Signal]) -> dict[str, Any]:
    """Return the signals of a corpus for its fingerprint, each with its columns; nothing if there are none."""
    kinds = {"signals": of_documents(signals), "line_signals": of_lines(signals)}
    return {key: [_described(signal) for signal in own] for key, own in kinds.items() if own}


def _described(signal: Signal) -> dict[str, Any]:
    return describe_step(signal) | {"columns": list(signal.columns)}


def signal_hash(described: Mapping[str, Any]) -> str:
    """Return the hash of a signal as a fingerprint describes it, see `jprep.corpus.processing.refuse_changed_steps`."""
    return fingerprint({key: value for key, value in described.items() if key != "columns"})
