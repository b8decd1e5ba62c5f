"""Normalization of widths and composed kana that deletes nothing that has a meaning."""

from __future__ import annotations

import operator
import re
import unicodedata
from collections import Counter
from typing import Literal

from jprep.corpus.step import Normalizer, StepConfig

_ASCII = "".join(map(chr, range(0xFF01, 0xFF5E)))  # ～ is not a tilde but a wave dash
_KANA = "".join(map(chr, range(0xFF61, 0xFF9E)))
_SIGNS = "￠￡￢￤￥￦￨￩￪￫￬￭￮"

FORMS: dict[str, tuple[str, str]] = {
    "full_width": (_ASCII, unicodedata.normalize("NFKC", _ASCII)),
    "half_width_kana": (_KANA, "".join(unicodedata.normalize("NFKC", one) for one in _KANA)),
    "signs": (_SIGNS, "".join(unicodedata.normalize("NFKC", one) for one in _SIGNS)),
    "spaces": ("\u3000\u00a0", "  "),
    "hyphens": ("‐‑", "--"),
    "wave_dashes": ("～", "〜"),
    "voicing_marks": ("ﾞﾟ", "゛゜"),
}
"""Kind → (characters, the form of each). No form is a character that is replaced itself."""

_COMBINING = {"゛": "\u3099", "゜": "\u309a"}
MARKS = {mark: combining for spacing, combining in _COMBINING.items() for mark in (spacing, combining)}
"""Voicing mark after its form was replaced → the combining mark of the same sound."""


def _joined() -> dict[str, str]:
    kana = map(chr, (*range(0x3041, 0x3097), 0x309D, *range(0x30A1, 0x30FB), 0x30FD))
    pairs = ((one + mark, unicodedata.normalize("NFC", one + MARKS[mark])) for one in kana for mark in MARKS)
    return {pair: joined for pair, joined in pairs if len(joined) == 1}


JOINED = _joined()
"""Kana and voicing mark → the voiced kana. No voiced kana joins with another mark."""

JAPANESE, LATIN = "ぁ-ゖゝゞァ-ヺーヽヾ一-鿿々〆〇", "A-Za-z0-9"
"""Letters of words between which `latin_spaces = "remove"` removes single spaces."""
SPACE_BETWEEN = rf"(?<=[{JAPANESE}]) (?=[{LATIN}])|(?<=[{LATIN}]) (?=[{JAPANESE}])"

REPLACED = {one: form for characters, forms in FORMS.values() for one, form in zip(characters, forms, strict=True)}
"""Character → its form."""
_KINDS = {one: kind for kind, (characters, _) in FORMS.items() for one in characters}
_FORM = re.compile(f"[{re.escape(''.join(REPLACED))}]")
_MARK = re.compile(f"[{''.join(MARKS)}]")
_JOIN = re.compile(f"[{''.join(dict.fromkeys(pair[0] for pair in JOINED))}][{''.join(MARKS)}]")
_SPACE = re.compile(SPACE_BETWEEN)


class GentleNormalizer(Normalizer):
    """Gives ASCII, kana and common signs one width, and joins kana with their voicing marks.

    A second pass changes nothing.

    Dashes (— ― – − ─), wave dashes, quotation marks, runs of the same sign, symbols and variants of kanji stay. So do
    spaces, also in indents and columns, and those between words of Korean.
    """

    name = "gentle"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options.

        Attributes:
            latin_spaces: single spaces between Japanese and Latin words or numbers: `keep` them, or `remove` them on
                both sides of such a word alike. Runs of spaces stay.
        """

        latin_spaces: Literal["keep", "remove"] = "keep"

    def apply(self, text: str) -> str:
        """Normalize each line. Count changed characters by kind, and changed lines."""
        result = self._with_forms(text)
        if _MARK.search(result):
            before = len(result)
            result = _JOIN.sub(lambda pair: JOINED.get(pair[0], pair[0]), result)
            self._count("voicing_marks.removed", before - len(result))
        if self.config.latin_spaces == "remove":
            result, removed = _SPACE.subn("", result)
            self._count("spaces.removed", removed)
        if result is not text and result != text:
            self._count("lines_changed", sum(map(operator.ne, text.split("\n"), result.split("\n"))))
        return result

    def _with_forms(self, text: str) -> str:
        found = Counter(_FORM.findall(text))
        for one, count in found.items():
            self._count(f"{_KINDS[one]}.replaced", count)
        return _FORM.sub(lambda one: REPLACED[one[0]], text) if found else text

    def _count(self, name: str, count: int) -> None:
        if count:
            self.tally[name] += count
