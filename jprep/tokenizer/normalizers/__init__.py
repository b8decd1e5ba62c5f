"""The corpus's normalisers as parts of a `tokenizer.json`, so that raw text is normalised as the corpus was.

A line comes out as `neologdn` and `nfkc` make it, whatever it holds. A few things are a tokenizer's own:

- It normalises each stretch between special tokens by itself. Where a stretch begins in the middle of a text its first
  space stays, if it would stay after a Latin character; where it ends, its last spaces go.
- U+001E and U+001F are deleted, as by every reader and `jprep.normalize`, and used as marks by the steps here. Where a
  text begins with one, a space after it stays. Without any step they are text.
- Its NFKC leaves 71 newer characters as they are (U+A7F2-A7F4, AB69, 10781-107BA, 1F16C, 1FBF0-1FBF9), and does not put
  some hundred newer combining marks in order; tokenizers 0.22.2 and 0.23.3 do the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from jprep.corpus.config import parse_config
from jprep.corpus.normalizers.neologdn import VERIFIED_VERSIONS, NeologdnNormalizer
from jprep.corpus.normalizers.neologdn_rules import NormalizedText
from jprep.corpus.normalizers.neologdn_tables import CharacterTables, probe_text
from jprep.corpus.normalizers.nfkc import NfkcNormalizer
from jprep.errors import ConfigError
from jprep.tokenizer.normalizers.neologdn_replacements import BYTE_ORDER_MARK, KEPT, MARK, neologdn, replace

_VERSIONS = {NeologdnNormalizer.name: NeologdnNormalizer.version, NfkcNormalizer.name: NfkcNormalizer.version}

_NFKC = [replace("㋿", "令和"), {"type": "NFKC"}]
"""The tables of `NFKC` are older than the era's sign."""


class ExportedNormalizers(msgspec.Struct, frozen=True):
    """Parts of a `tokenizer.json`.

    Attributes:
        normalizers: steps to be put first in its sequence of normalisers.
        pre_tokenizers: steps to be put first among its pre-tokenizers; they may be none.
    """

    normalizers: list[dict[str, Any]]
    pre_tokenizers: list[dict[str, Any]]


def export_normalizers(steps: Sequence[dict[str, Any]], space: str, *, keep_marks: bool = False) -> ExportedNormalizers:
    """Normalisers for a `tokenizer.json`.

    Args:
        steps: descriptions as `corpus.json` holds them: name, version, config, provenance; in order.
        space: the character that stands for a space once text is normalised.
        keep_marks: text holds U+001F between words and is normalised already; they stay.

    Raises:
        ConfigError: a step that a `tokenizer.json` cannot do.
    """
    if not steps and not keep_marks:
        return ExportedNormalizers(_spelt(space), [])
    mark = f"{KEPT}*" if keep_marks else ""
    normalizers = [replace(MARK if keep_marks else f"{MARK}|{KEPT}", "")]
    names = [_checked(step)["name"] for step in steps]
    for step in steps:
        normalizers += _neologdn(step["config"], mark) if step["name"] == NeologdnNormalizer.name else _NFKC
    if NeologdnNormalizer.name not in names:
        return ExportedNormalizers(normalizers + _spelt(space), [])
    if names.count(NeologdnNormalizer.name) > 1:
        raise _refusal("neologdn twice")
    late = [_marked(KEPT)] if names[-1] == NfkcNormalizer.name else []  # NFKC makes spaces of other characters
    return ExportedNormalizers([*normalizers, *late, *_spelt(space)], _edges(space, mark))


def _checked(step: dict[str, Any]) -> dict[str, Any]:
    """The step, if it is one that is known here."""
    name, version = step["name"], step["version"]
    if name not in _VERSIONS:
        raise _refusal(f"the normaliser {name!r}")
    if version != _VERSIONS[name]:
        raise _refusal(f"version {version} of the normaliser {name!r}")
    if name == NeologdnNormalizer.name and not _follows_tables(step["provenance"].get("neologdn", "")):
        raise _refusal("this version of neologdn")
    return step


def _follows_tables(version: str) -> bool:
    """Whether that neologdn does what the tables say, as far as can be told here."""
    if version in VERIFIED_VERSIONS:
        return True
    installed, sample = NeologdnNormalizer(), probe_text()
    same = installed.provenance()["neologdn"] == version
    return same and installed.apply(sample) == NormalizedText(sample, CharacterTables("ignore"), True).text()


def _neologdn(options: dict[str, Any], mark: str) -> list[dict[str, Any]]:
    config = parse_config(options, NeologdnNormalizer.Config, where="tokenizer.normalizers")
    if config.repeat:
        raise _refusal("neologdn's `repeat`")
    steps = neologdn(config.tilde, config.remove_space, mark)
    return [*steps, _marked(MARK if config.remove_space else KEPT)]


def _marked(mark: str) -> dict[str, Any]:
    return replace(r"\A ", f"{mark} ")


def _refusal(what: str) -> ConfigError:
    fix = "give [tokenizer] normalizers = [] and normalise text before it is encoded"
    return ConfigError(f"{what} cannot be part of a tokenizer", where="tokenizer.normalizers", fix=fix)


def _spelt(space: str) -> list[dict[str, Any]]:
    return [] if space == " " else [replace(" ", space)]


def _edges(space: str, mark: str) -> list[dict[str, Any]]:
    """What neologdn drops at a text's start goes there, and stays at the start of any other stretch.

    `Metaspace` is the one step that knows the two apart: it puts a space before the first alone. No stretch begins with
    a space of its own by then: the normalisers have put `MARK` before one that goes at a text's start, `KEPT` before
    one that stays there too.
    """
    dropped = rf"{KEPT}{BYTE_ORDER_MARK}?|(?:{MARK}{mark}{space})?{BYTE_ORDER_MARK}?"
    pattern = {"Regex": rf"\A (?:{dropped})|\A[{MARK}{KEPT}]"}
    return [
        {"type": "Metaspace", "replacement": " ", "prepend_scheme": "first", "split": False},
        {"type": "Split", "pattern": pattern, "behavior": "Removed", "invert": False},
    ]
