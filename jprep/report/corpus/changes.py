"""What the reader and the normalizers changed in the texts, by the counts of the manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_PHRASES = {
    "spaces.removed": ("spaces between Japanese characters, doubled spaces", "日本 語 → 日本語"),
    "spaces.replaced": ("ideographic spaces that became a space", "A　B → A B"),
    "spaces.between_hangul": ("of these, spaces between Korean words", "안녕 하세요 → 안녕하세요"),
    "tildes.removed": ("tildes", "ええ〜 → ええ"),
    "tildes.replaced": ("tildes of another form", "〜 → ~"),
    "long_vowels.removed": ("repeated long-vowel marks", "スーーパー → スーパー"),
    "long_vowels.replaced": ("dashes that became a long-vowel mark", "ス─パ─ → スーパー"),
    "hyphens.removed": ("hyphens after a hyphen", "‐‐ → -"),
    "hyphens.replaced": ("hyphens of another form", "‐ → -"),
    "full_width.replaced": ("full-width letters, digits and signs", "ＡＢＣ１２３ → ABC123"),
    "half_width_kana.replaced": ("half-width kana", "ｶﾅ → カナ"),
    "voicing_marks.removed": ("voicing marks joined with their kana", "カ゛ → ガ"),
    "voicing_marks.replaced": ("voicing marks of another form", "゛ ↔ ﾞ"),
    "signs.replaced": ("currency signs, lines and arrows of another width", "￥ → ¥"),
    "wave_dashes.replaced": ("wave dashes of another form", "～ → 〜"),
    "quotes.replaced": ("curved quotation marks", '“” → ""'),
    "yen_signs.replaced": ("yen signs", "¥ → \\"),
    "byte_order_marks.removed": ("byte order marks inside the text", ""),
    "repeats.removed": ("characters repeated too often", "wwwww → w"),
    "surrogates.replaced": ("lone surrogates", "→ �"),
    "wide.replaced": ("full-width forms", "Ａ → A"),
    "narrow.replaced": ("half-width forms", "ｶ → カ"),
    "compat.replaced": ("compatibility characters", "㈱ → (株)"),
    "circle.replaced": ("circled characters", "① → 1"),
    "square.replaced": ("squared characters", "㌔ → キロ"),
    "canonical.replaced": ("characters with a canonical form", "\ufa19 → 神"),
    "composed.removed": ("marks joined with the character before", "カ + ﾞ → ガ"),
    "pii.email": ("email addresses, masked", ""),
    "pii.card": ("card numbers, masked", ""),
    "pii.my_number": ("individual numbers (My Number), masked", ""),
    "pii.phone": ("telephone numbers, masked", ""),
    "pii.bank_account": ("bank account numbers, masked", ""),
    "pii.postal_code": ("postal codes, masked", ""),
    "pii.address": ("postal addresses, masked", ""),
    "pii.ip_address": ("public IP addresses, masked", ""),
    "pii.licence_plate": ("licence plates, masked", ""),
    "lines_changed": ("lines that differ from the input", ""),
    "characters.removed": ("characters removed in all", ""),
    "bom.deleted": ("byte order marks at the start of a file", ""),
    "crlf.to_lf": ("line ends of Windows", "CRLF → LF"),
    "cr.to_lf": ("line ends of old Macs", "CR → LF"),
    "page_breaks.to_lf": ("form feeds and vertical tabs that end a line", "FF → LF"),
    "control.deleted": ("control characters", ""),
    "malformed.lines_joined": ("lines after the first in rejected rows of CSV", ""),
    "categories": ("links to categories, removed", "[[Category:…]]"),
    "comments": ("comments, removed", "<!-- … -->"),
    "files": ("pictures and other files, removed", "[[ファイル:…]]"),
    "refs": ("footnotes, removed", "<ref>…</ref>"),
    "tables": ("tables, removed", "{| … |}"),
    "templates.expanded": ("templates replaced by their text", "{{読み仮名|…}}"),
    "templates.hidden": ("templates that show nothing", ""),
    "templates.from_pages": ("templates expanded from the dump's own pages", ""),
    "templates.loops": ("templates within themselves, removed", ""),
    "templates.too_deep": ("templates nested too deep, removed", ""),
    "templates.over_limit": ("templates that expand to too much, removed", ""),
    "templates.unknown": ("templates without a rule, removed", ""),
    "incomplete.sentences": ("sentences without a number or name that a template showed, removed", "人口は人である。"),
    "incomplete.brackets": ("brackets without such a number or name, removed", "（面積はkm²）"),
    "templates.functions": ("parser functions, removed", "{{#if: …}}"),
    "headings": ("headings", "== 概要 =="),
    "headings.empty": ("headings without text below, removed", ""),
    "sections.dropped": ("lines of sections such as references, removed", ""),
    "lists.dropped": ("list items, removed", "* …"),
    "interlanguage": ("links to other languages, removed", "[[en:…]]"),
    "brackets.emptied": ("brackets left empty, removed", "（） →"),
    "brackets.trimmed": ("brackets cleaned of left-over signs", "（、英語） → （英語）"),
    "residue.lines": ("lines with markup that could not be read", ""),
    "files.truncated": ("files that end early", ""),
}
"""Meaning and example of a count, by the name below its step; of some, with the name of the step."""

_CODE_POINT = re.compile(r"(deleted|replaced)\.U\+([0-9A-F]{4,6})")
_LIMIT = 60  # rows of each table


class Change(NamedTuple):
    """A kind of change.

    Attributes:
        step: the step, e.g. `normalizer.neologdn`.
        name: name of the count below the step.
        phrase: what it counts, or "".
        example: before → after, or "".
        times: how often, mostly in characters.
    """

    step: str
    name: str
    phrase: str
    example: str
    times: int


def changes(counts: Mapping[str, int], kinds: tuple[str, ...]) -> list[Change]:
    """Return the changes of some kinds of steps, the most frequent first.

    Args:
        counts: counts of a manifest.
        kinds: kinds of steps, e.g. `("normalizer",)`.
    """
    found = [_change(name, count) for name, count in counts.items() if name.split(".")[0] in kinds and count]
    return sorted(found, key=lambda change: (-change.times, change.step, change.name))[:_LIMIT]


def _change(full: str, count: int) -> Change:
    kind, _, rest = full.partition(".")
    own, _, name = rest.partition(".")
    if kind == "lines":
        return Change("", full, "lines without visible characters, removed", "", count)
    phrase, example = _PHRASES.get(f"{own}.{name}") or _PHRASES.get(name, ("", ""))
    if found := _CODE_POINT.fullmatch(name):
        phrase, example = f"{found[1]}: U+{found[2]}", chr(min(int(found[2], 16), 0x10FFFF))
    if name.startswith("unclosed."):
        phrase = f"opened and never closed: {name.removeprefix('unclosed.')}"
    if name.startswith("elements."):
        phrase, example = "elements", f"<{name.removeprefix('elements.')}>"
    return Change(f"{kind}.{own}", name, phrase, example, count)
