"""The normalizer `pii`: replace personal data by placeholders of its kind."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Literal

from jprep.corpus.normalizers.pii.addresses import postal_addresses
from jprep.corpus.normalizers.pii.match import Detector, Match, simplified
from jprep.corpus.normalizers.pii.network import ip_addresses, mail_addresses
from jprep.corpus.normalizers.pii.numbers import bank_accounts, cards, my_numbers, telephones
from jprep.corpus.normalizers.pii.places import licence_plates, postal_codes
from jprep.corpus.step import Normalizer, StepConfig

Kind = Literal[
    "email", "card", "my_number", "phone", "bank_account", "postal_code", "address", "ip_address", "licence_plate"
]
DETECTORS: dict[str, Detector] = {
    "email": mail_addresses,
    "card": cards,
    "my_number": my_numbers,
    "phone": telephones,
    "bank_account": bank_accounts,
    "postal_code": postal_codes,
    "address": postal_addresses,
    "ip_address": ip_addresses,
    "licence_plate": licence_plates,
}
"""The kinds of personal data, in order of precedence where two overlap."""


class PiiNormalizer(Normalizer):
    """Replaces personal data by placeholders such as `<PHONE>`, and counts each kind.

    Rules find the data: they know the formats of Japan and verify check digits. Names of people are not found.
    """

    name = "pii"
    version = 3

    class Config(StepConfig, frozen=True):
        """What to mask.

        Attributes:
            kinds: the kinds to mask.
            placeholder: the replacement; `{kind}` becomes the kind in capital letters.
        """

        kinds: tuple[Kind, ...] = (
            "email", "card", "my_number", "phone", "bank_account", "postal_code", "address", "ip_address",
            "licence_plate",
        )  # fmt: skip
        placeholder: str = "<{kind}>"

    def apply(self, text: str) -> str:
        """Mask personal data, and count it by kind; and changed lines."""
        found = find_personal_data(text, self.config.kinds)
        if not found:
            return text
        parts, done = [], 0
        for match, kind in found:
            parts += [text[done : match.start], self.config.placeholder.replace("{kind}", kind.upper())]
            done = match.end
            self.tally[kind] += 1
        self.tally["lines_changed"] += _count_lines(text, [match.start for match, _ in found])
        return "".join([*parts, text[done:]])


def _count_lines(text: str, places: list[int]) -> int:
    """Return in how many lines of a text some places lie, which are in order."""
    lines, after_line = 0, 0
    for place in places:
        if place >= after_line:
            lines += 1
            after_line = text.find("\n", place) + 1 or len(text)
    return lines


def find_personal_data(text: str, kinds: tuple[str, ...] = tuple(DETECTORS)) -> list[tuple[Match, str]]:
    """Return the places of personal data in a text with their kinds, in order and without overlaps."""
    simple = simplified(text)
    taken: list[tuple[Match, str]] = []
    for kind in DETECTORS:
        if kind in kinds:
            others = sorted(taken)
            matches = _merge_overlapping(DETECTORS[kind](simple))
            taken += [(match, kind) for match in matches if not _overlaps(match, others)]
    return sorted(taken)


def _merge_overlapping(matches: Iterable[Match]) -> list[Match]:
    """Return matches of one kind in order, those that overlap as one."""
    united: list[Match] = []
    for match in sorted(matches):
        if united and match.start < united[-1].end:
            united[-1] = Match(united[-1].start, max(match.end, united[-1].end))
        else:
            united.append(match)
    return united


def _overlaps(match: Match, others: list[tuple[Match, str]]) -> bool:
    """Return whether a match overlaps one of others, which are in order and apart from each other."""
    before = bisect_right(others, match.end - 1, key=lambda other: other[0].start)
    return before > 0 and others[before - 1][0].end > match.start
