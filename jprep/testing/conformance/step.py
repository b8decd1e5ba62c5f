"""Conformance tests that steps of every kind share."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import msgspec

from jprep.corpus.document import SENTENCE, WORD
from jprep.corpus.step import Step

TEXTS = (
    "",
    "\n",
    "\n\n",
    "一行だけ",
    "　字下げと、末尾の空白 　",
    "「今日は寒い。」と言った。そうですか！？　はい。\nHello, world. See you!\n\n最後の段落",
    "閉じない「かっこ。次の文。\n（別の（入れ子。）も）。",
    "ﾊﾝｶｸｶﾅとＡＢＣと①㌔ｶﾞ〜～ーーー!!!",
    "𠮷野家で😀👨‍👩‍👧 か\u3099き\u3099",
    "a\u2028b\u2029c\u0085d\u200be\ufefff",
    "。。。\n！\n）\n",
    "同じ行\n同じ行\n同じ行",
    "https://example.com/?q=%E3%81%82#x と www.example.jp",
    "あ" * 5000,
)
"""Difficult texts: empty, unusual spaces, brackets, half width, beyond the BMP, separators, repetition."""

MARKS = {ord(WORD), ord(SENTENCE)}
_WORD = re.compile(r"[a-z][a-z0-9_]*\Z")


class StepSuite:
    """Subclass it with `step`, and with `options` where the defaults are not suitable.

    Attributes:
        step: the class under test.
        options: its options, as in a recipe.
    """

    step: ClassVar[type[Step]]
    options: ClassVar[dict[str, Any]] = {}

    def make(self) -> Any:
        """Return a new step with the suite's options, checked like those of a recipe."""
        return self.step(msgspec.convert(self.options, self.step.Config))

    def samples(self, name: str, example: str) -> Any:
        """Return the samples that a subclass has to define.

        Args:
            name: the class attribute that holds them.
            example: a line that defines it, for the message.

        Raises:
            AssertionError: there are none, so the suite would test nothing.
        """
        found = getattr(self, name, ())
        assert found, f"{type(self).__name__} defines no samples `{name}`, so nothing is tested; add e.g. `{example}`"
        return found

    def test_has_a_name_and_a_version(self) -> None:
        """Recipes use the name, fingerprints use the version."""
        assert _WORD.match(self.step.name)
        assert isinstance(self.step.version, int)
        assert self.step.version >= 1

    def test_every_option_has_a_default(self) -> None:
        """A recipe may leave out any option."""
        assert msgspec.convert({}, self.step.Config) == self.step.Config()

    def test_refuses_unknown_options(self) -> None:
        """A misspelt key must not be ignored."""
        try:
            msgspec.convert({"no_such_option": 1}, self.step.Config)
        except msgspec.ValidationError:
            return
        raise AssertionError("an unknown option was accepted")

    def test_provenance_is_text(self) -> None:
        """It is part of manifests and fingerprints, and is the same each time."""
        step = self.make()
        try:
            assert all(isinstance(part, str) for pair in step.provenance().items() for part in pair)
            assert step.provenance() == step.provenance()
        finally:
            step.close()

    def test_closing_twice_is_harmless(self) -> None:
        """A pipeline closes every step, also after a failure."""
        step = self.make()
        step.close()
        step.close()


def is_identifier(reason: str) -> bool:
    """Return whether a reason or a part of a tally is an identifier, by which reports can group."""
    return bool(_WORD.match(reason))
