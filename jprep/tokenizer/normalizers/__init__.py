"""Express the corpus's normalizers as components of a `tokenizer.json`, so that it normalizes raw text like the corpus.

The result for a line equals that of `neologdn`, `gentle`, `nfkc` and `characters`, with these exceptions:

- Each stretch of text between special tokens is normalized separately. If a stretch begins in the middle of a text, its
  first space is kept where it would be kept after a Latin character; spaces at the end of a stretch are removed.
- U+001E and U+001F are deleted, as by every reader and `jprep.normalize`, and used as markers by the steps here. If a
  text begins with one, a space after it is kept. Without any step they are ordinary text.
- NFKC of `tokenizers` leaves 71 newer characters unchanged (U+A7F2-A7F4, AB69, 10781-107BA, 1F16C, 1FBF0-1FBF9), and
  does not reorder some hundred newer combining marks; tokenizers 0.22.2 and 0.23.3 do the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from jprep.config import parse_config
from jprep.corpus.normalizers.characters import CharactersNormalizer
from jprep.corpus.normalizers.gentle import GentleNormalizer
from jprep.corpus.normalizers.neologdn import VERIFIED_VERSIONS, NeologdnNormalizer
from jprep.corpus.normalizers.neologdn_rules import NormalizedText
from jprep.corpus.normalizers.neologdn_tables import CharacterTables, probe_text
from jprep.corpus.normalizers.nfkc import NfkcNormalizer
from jprep.errors import ConfigError
from jprep.tokenizer.normalizers.character_replacements import characters
from jprep.tokenizer.normalizers.gentle_replacements import gentle
from jprep.tokenizer.normalizers.neologdn_replacements import BYTE_ORDER_MARK, KEPT, MARK, neologdn, replace

_EXPORTED = (NeologdnNormalizer, GentleNormalizer, NfkcNormalizer, CharactersNormalizer)
_VERSIONS = {step.name: step.version for step in _EXPORTED}

_NFKC = [replace("㋿", "令和"), {"type": "NFKC"}]
"""`NFKC` uses tables older than the character ㋿."""


class ExportedNormalizers(msgspec.Struct, frozen=True):
    """Components of a `tokenizer.json`.

    Attributes:
        normalizers: steps for the beginning of the sequence of normalizers.
        pre_tokenizers: steps for the beginning of the sequence of pre-tokenizers; may be empty.
    """

    normalizers: list[dict[str, Any]]
    pre_tokenizers: list[dict[str, Any]]


def for_raw_text(steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a corpus's normalizers without `pii`: training text is masked, and what users type is not."""
    return [step for step in steps if step["name"] != "pii"]


def export_normalizers(steps: Sequence[dict[str, Any]], space: str, *, keep_marks: bool = False) -> ExportedNormalizers:
    """Convert normalizers to components of a `tokenizer.json`.

    Args:
        steps: descriptions as in `corpus.json`: name, version, config, provenance; in order.
        space: the character that represents a space in normalized text.
        keep_marks: the text is normalized already and has U+001F between words, which are kept.

    Raises:
        ConfigError: a step cannot be expressed in a `tokenizer.json`.
    """
    if not steps and not keep_marks:
        return ExportedNormalizers(_replace_spaces(space), [])
    mark = f"{KEPT}*" if keep_marks else ""
    normalizers = [replace(MARK if keep_marks else f"{MARK}|{KEPT}", "")]
    names = [_check_supported(step)["name"] for step in steps]
    for number, step in enumerate(steps):
        normalizers += _converted(step, steps[number + 1 :], mark)
    if NeologdnNormalizer.name not in names:
        return ExportedNormalizers(normalizers + _replace_spaces(space), [])
    if names.count(NeologdnNormalizer.name) > 1:
        raise _unsupported("using neologdn twice")
    last = names[-1] == NeologdnNormalizer.name
    restored = [] if last else [_marked(KEPT)]  # another step may have brought a space to the start
    return ExportedNormalizers([*normalizers, *restored, *_replace_spaces(space)], _start_pre_tokenizers(space, mark))


def _converted(step: dict[str, Any], later: Sequence[dict[str, Any]], mark: str) -> list[dict[str, Any]]:
    if step["name"] == NeologdnNormalizer.name:
        return _neologdn(step["config"], mark)
    if step["name"] == NfkcNormalizer.name:
        return _NFKC
    if step["name"] == GentleNormalizer.name:
        return gentle(step["config"])
    names = [one["name"] for one in later]
    removes_spaces = any(one["config"].get("remove_space") for one in later)
    if removes_spaces and NfkcNormalizer.name in names[: names.index(NeologdnNormalizer.name)]:
        raise _unsupported("characters before nfkc before neologdn")
    follows = NeologdnNormalizer.name in names
    return characters(step["config"], before_neologdn=follows, before_spaces=removes_spaces)


def _check_supported(step: dict[str, Any]) -> dict[str, Any]:
    """Return a step if it is supported."""
    name, version = step["name"], step["version"]
    if name not in _VERSIONS:
        raise _unsupported(f"the normalizer {name!r}")
    if version != _VERSIONS[name]:
        raise _unsupported(f"version {version} of the normalizer {name!r}")
    if name == NeologdnNormalizer.name and not _follows_tables(step["provenance"].get("neologdn", "")):
        raise _unsupported("this version of neologdn")
    if name == CharactersNormalizer.name and step["provenance"] != _made(step).provenance():
        raise _unsupported("`categories` of another version of Unicode")
    return step


def _follows_tables(version: str) -> bool:
    """Return whether that version of neologdn follows our tables, as far as can be tested here."""
    if version in VERIFIED_VERSIONS:
        return True
    installed, sample = NeologdnNormalizer(), probe_text()
    same = installed.provenance()["neologdn"] == version
    return same and installed.apply(sample) == NormalizedText(sample, CharacterTables("ignore"), True).text()


def _made(step: dict[str, Any]) -> CharactersNormalizer:
    options = parse_config(step["config"], CharactersNormalizer.Config, where="tokenizer.normalizers")
    return CharactersNormalizer(options)


def _neologdn(options: dict[str, Any], mark: str) -> list[dict[str, Any]]:
    config = parse_config(options, NeologdnNormalizer.Config, where="tokenizer.normalizers")
    if config.repeat:
        raise _unsupported("neologdn's `repeat`")
    steps = neologdn(config.tilde, config.remove_space, mark, keep_hangul=config.hangul_spaces == "keep")
    return [*steps, _marked(MARK if config.remove_space else KEPT)]


def _marked(mark: str) -> dict[str, Any]:
    return replace(r"\A ", f"{mark} ")


def _unsupported(what: str) -> ConfigError:
    fix = "set [tokenizer] normalizers = [] and normalize text before encoding it"
    return ConfigError(f"{what} cannot be exported with a tokenizer", where="tokenizer.normalizers", fix=fix)


def _replace_spaces(space: str) -> list[dict[str, Any]]:
    return [] if space == " " else [replace(" ", space)]


def _start_pre_tokenizers(space: str, mark: str) -> list[dict[str, Any]]:
    """Return the pre-tokenizers that remove what neologdn drops at the start of a text, but not of other stretches.

    Only `Metaspace` can tell the two apart: it adds a space to the first stretch only. No stretch begins with a space
    of its own at that point: the normalizers have put `MARK` before a space to remove at the start of a text, and
    `KEPT` before one to keep there too.
    """
    dropped = rf"{KEPT}{BYTE_ORDER_MARK}?|(?:{MARK}{mark}{space})?{BYTE_ORDER_MARK}?"
    pattern = {"Regex": rf"\A (?:{dropped})|\A[{MARK}{KEPT}]"}
    return [
        {"type": "Metaspace", "replacement": " ", "prepend_scheme": "first", "split": False},
        {"type": "Split", "pattern": pattern, "behavior": "Removed", "invert": False},
    ]
