"""The conformance suites fail for every kind of broken step, and for suites that define no samples."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from jprep.corpus.document import KEEP, SENTENCE, WORD, Document, Reject, Verdict
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.step import Filter, Normalizer, Reader, Segmenter, Shard, Signal, Splitter, Step
from jprep.errors import ConfigError
from jprep.testing.conformance.filter import FilterSuite
from jprep.testing.conformance.normalizer import NormalizerSuite
from jprep.testing.conformance.reader import ReaderSuite
from jprep.testing.conformance.segmenter import SegmenterSuite
from jprep.testing.conformance.signal import SignalSuite
from jprep.testing.conformance.splitter import SplitterSuite
from tests.conftest import ROOT

numbers = itertools.count()


class Digits(Filter):
    """Drop documents of digits only, and lines of them."""

    name, version = "digits", 1

    def judge(self, doc: Document) -> Verdict:
        lines = tuple(at for at, line in enumerate(doc.text.split("\n")) if line.isdecimal())
        if len(lines) == doc.text.count("\n") + 1:
            return Verdict(False, "digits")
        return Verdict(True, "digits", lines) if lines else KEEP


class Wide(Normalizer):
    """Make ASCII exclamation marks full-width."""

    name, version = "wide", 1

    def apply(self, text: str) -> str:
        self.tally["wide"] += text.count("!")
        if not text.count("!"):
            del self.tally["wide"]
        return text.replace("!", "！")


class Stops(Splitter):
    """Split behind full stops."""

    name, version = "stops", 1

    def mark(self, text: str) -> str:
        return "\n".join(f"。{SENTENCE}".join(line.split("。")).removesuffix(SENTENCE) for line in text.split("\n"))


class Lines(Reader):
    """Read a document from each line, a shard from each file."""

    name, version = "lines", 1

    def shards(self, path: str) -> Any:
        if not Path(path).exists():
            raise ConfigError(f"{path} is not there")
        yield Shard(path, 0)

    def read(self, shard: Shard, source: str) -> Any:
        for at, line in enumerate(Path(shard.path).read_text().splitlines()):
            text = line.translate({ord(SENTENCE): None, ord(WORD): None})
            found = Document(f"{source}:{at}", source, "", "", text)
            yield found if text.strip() else Reject(found.id, "", "reader.lines", "empty")


class Stars(Signal):
    """Stars per text, and lines."""

    name, version = "stars", 1
    columns = ("stars", "star_lines")

    def measure(self, batch: TextBatch) -> dict[str, Any]:
        return {"stars": batch.sums(batch.codes == ord("★")), "star_lines": batch.counts(batch.line_docs)}


class Letters(Segmenter):
    """Make every character a word."""

    name, version = "letters", 1

    def segment(self, texts: Any) -> list[str]:
        return [self._words(text) for text in texts]

    def _words(self, text: str) -> str:
        if WORD in text or any("\ud800" <= char < "\ue000" for char in text):
            self.tally["unsegmented.other"] += 1
            return text
        return WORD.join(text)


class DigitsSuite(FilterSuite):
    step, kept, dropped = Digits, ("文書です。",), ("123",)
    trimmed = (("文書です。\n12\nまだ続く", "文書です。\nまだ続く"),)


class WideSuite(NormalizerSuite):
    step, pairs = Wide, (("あ!", "あ！"),)


class StopsSuite(SplitterSuite):
    step, pairs = Stops, (("一。二", ["一。", "二"]),)


class LinesSuite(ReaderSuite):
    step, texts, rejects = Lines, ("一", "二"), ("empty",)

    def write(self, folder: Path) -> str:
        path = folder / "lines.txt"
        path.write_text(f"一{WORD}\n \n二")
        return str(path)


class StarsSuite(SignalSuite):
    step, measured = Stars, {"★★\n★": {"stars": 3.0, "star_lines": 2.0}, "": {"stars": 0.0}}


class LettersSuite(SegmenterSuite):
    step: ClassVar[type[Segmenter]] = Letters


SUITES: dict[type[Step], type[Any]] = {
    Digits: DigitsSuite, Wide: WideSuite, Stops: StopsSuite, Lines: LinesSuite, Stars: StarsSuite,
    Letters: LettersSuite,
}  # fmt: skip


def failures(suite: type[Any]) -> dict[str, BaseException]:
    """Run every test of a suite as pytest would; those that fail."""
    found: dict[str, BaseException] = {}
    for name, test in inspect.getmembers(suite(), inspect.ismethod):
        if name.startswith("test_"):
            with tempfile.TemporaryDirectory() as folder:
                values = {"tmp_path": Path(folder), "segmenter": suite.step() if hasattr(suite, "step") else None}
                try:
                    test(**{key: values[key] for key in inspect.signature(test).parameters})
                except Exception as error:
                    found[name] = error
    return found


@pytest.mark.parametrize("step", SUITES)
def test_a_correct_step_passes(step: type[Step]) -> None:
    assert failures(SUITES[step]) == {}


def fail(*_: Any) -> Any:
    raise ValueError("broken")


def add_mark(text: str) -> str:
    return f"{text}{SENTENCE}"


def changed_document(result: Any, given: Any) -> Any:
    given[0].meta["seen"] = "yes"
    return result


BROKEN = [
    (Digits, "judge", lambda verdict, given: None),
    (Digits, "judge", lambda verdict, given: KEEP),
    (Digits, "judge", lambda verdict, given: Verdict(False, "all")),
    (Digits, "judge", lambda verdict, given: Verdict(verdict.keep, "", verdict.lines)),
    (Digits, "judge", lambda verdict, given: Verdict(verdict.keep, "Not One Word", verdict.lines)),
    (Digits, "judge", lambda verdict, given: Verdict(True, "far", (1 << 20,))),
    (Digits, "judge", lambda verdict, given: Verdict(verdict.keep, verdict.reason) if verdict.lines else verdict),
    (Digits, "judge", lambda verdict, given: verdict if next(numbers) % 7 else Verdict(False, "chance")),
    (Digits, "judge", changed_document),
    (Digits, "judge", fail),
    (Wide, "apply", lambda text, given: None),
    (Wide, "apply", lambda text, given: given[0]),
    (Wide, "apply", lambda text, given: ""),
    (Wide, "apply", lambda text, given: text.replace("\n", " ")),
    (Wide, "apply", lambda text, given: text.strip()),
    (Wide, "apply", lambda text, given: text.replace("。", f"。{SENTENCE}")),
    (Wide, "apply", lambda text, given: f"{text}{next(numbers)}"),
    (Wide, "apply", lambda text, given: text.replace("。", "．")),
    (Wide, "apply", fail),
    (Stops, "mark", lambda text, given: None),
    (Stops, "mark", lambda text, given: given[0]),
    (Stops, "mark", lambda text, given: add_mark(text)),
    (Stops, "mark", lambda text, given: text.replace("Ａ", "A")),
    (Stops, "mark", lambda text, given: text.replace(SENTENCE, "") if next(numbers) % 7 == 0 else text),
    (Stops, "mark", lambda text, given: text.replace("\n", "")),
    (Stops, "mark", fail),
    (Lines, "shards", lambda shards, given: []),
    (Lines, "shards", lambda shards, given: [Shard(given[0], next(numbers))]),
    (Lines, "shards", fail),
    (Lines, "read", lambda items, given: []),
    (Lines, "read", lambda items, given: list(items)[:1]),
    (Lines, "read", lambda items, given: [one for one in items if isinstance(one, Document)]),
    (Lines, "read", lambda items, given: [with_text(one, f"{one.text} ") for one in documents(items)]),
    (Lines, "read", lambda items, given: [with_text(one, f"{one.text}{WORD}") for one in documents(items)]),
    (Lines, "read", lambda items, given: [with_text(one, f"{one.text}{next(numbers)}") for one in documents(items)]),
    (Lines, "read", lambda items, given: [with_id(one, given[0].path) for one in items]),
    (Lines, "read", lambda items, given: [with_id(one, "same") for one in items]),
    (Lines, "read", fail),
    (Stars, "measure", lambda columns, given: None),
    (Stars, "measure", lambda columns, given: {}),
    (Stars, "measure", lambda columns, given: columns | {"more": columns["stars"]}),
    (Stars, "measure", lambda columns, given: dict(reversed(columns.items()))),
    (Stars, "measure", lambda columns, given: with_values(columns, lambda values: values + 1)),
    (Stars, "measure", lambda columns, given: with_values(columns, lambda values: values[:-1])),
    (Stars, "measure", lambda columns, given: with_values(columns, lambda values: values[:, None])),
    (Stars, "measure", lambda columns, given: with_values(columns, lambda values: values.astype("int64"))),
    (Stars, "measure", lambda columns, given: with_values(columns, lambda values: values * len(values))),
    (Stars, "measure", lambda columns, given: with_values(columns, np.sort)),
    (Stars, "measure", lambda columns, given: with_values(columns, lambda values: values + (next(numbers) % 7 == 0))),
    (Stars, "measure", lambda columns, given: changed_document(columns, given[0].docs or [Document(*"abcde")])),
    (Stars, "measure", fail),
    (Letters, "segment", lambda texts, given: []),
    (Letters, "segment", lambda texts, given: list(given[0])),
    (Letters, "segment", lambda texts, given: texts[::-1]),
    (Letters, "segment", lambda texts, given: [text.replace("。", "") for text in texts]),
    (Letters, "segment", lambda texts, given: [f"{text}{WORD}" for text in texts]),
    (Letters, "segment", lambda texts, given: [text if next(numbers) % 7 else "" for text in texts]),
    (Letters, "segment", fail),
]


def documents(items: Any) -> list[Document]:
    return [item for item in items if isinstance(item, Document)]


def with_values(columns: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    return columns | {"stars": change(columns["stars"])}


def with_text(doc: Document, text: str) -> Document:
    return Document(doc.id, doc.source, "", "", text)


def with_id(item: Document | Reject, identity: str) -> Document | Reject:
    if isinstance(item, Document):
        return Document(identity, item.source, "", "", item.text)
    return Reject(identity, "", item.step, item.reason)


@pytest.mark.parametrize(("step", "method", "change"), BROKEN)
def test_a_broken_step_fails(
    step: type[Any], method: str, change: Callable[[Any, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "numbers", itertools.count())

    def wrapped(self: Any, *given: Any) -> Any:
        return change(getattr(super(kind, self), method)(*given), given)

    kind = type("Broken", (step,), {method: wrapped})
    assert failures(type("BrokenSuite", (SUITES[step],), {"step": kind}))


@pytest.mark.parametrize("step", SUITES)
@pytest.mark.parametrize(
    "attributes", [{"name": "No Name"}, {"version": 0}, {"provenance": lambda self: {"a": object()}}]
)
def test_a_step_with_wrong_attributes_fails(step: type[Any], attributes: dict[str, Any]) -> None:
    kind = type("Broken", (step,), attributes)
    assert failures(type("BrokenSuite", (SUITES[step],), {"step": kind}))


@pytest.mark.parametrize(
    ("suite", "attributes", "missing"),
    [
        (FilterSuite, {"step": Digits, "dropped": ("123",)}, "kept = ("),
        (FilterSuite, {"step": Digits, "kept": ("文書",)}, "dropped = ("),
        (FilterSuite, {"step": Digits, "kept": (), "dropped": ()}, "dropped = ("),
        (NormalizerSuite, {"step": Wide}, "pairs = ("),
        (NormalizerSuite, {"step": Wide, "pairs": (("あ", "あ"),)}, "add one that does"),
        (SplitterSuite, {"step": Stops}, "pairs = ("),
        (SignalSuite, {"step": Stars}, "measured = {"),
        (ReaderSuite, {"step": Lines, "write": LinesSuite.write}, "texts = ("),
        (ReaderSuite, {"step": Lines, "texts": ("一",)}, "must define write(folder)"),
        (FilterSuite, {"kept": ("文書",), "dropped": ("123",)}, "step"),
    ],
)
def test_a_suite_without_samples_fails_with_a_hint(suite: type[Any], attributes: dict[str, Any], missing: str) -> None:
    found = failures(type("EmptySuite", (suite,), attributes))
    assert any(missing in str(error) for error in found.values()), found


def test_positions_as_ids_have_to_name_the_file() -> None:
    attributes = {"ids_are_positions": property(lambda self: True)}
    broken = failures(type("Suite", (LinesSuite,), {"step": type("PositionLines", (Lines,), attributes)}))
    assert list(broken) == ["test_ids_of_positions_name_the_file"]


def test_a_signal_that_remembers_documents_fails() -> None:
    class Remembering(Stars):
        def __init__(self, config: Any = None) -> None:
            super().__init__(config)
            self._seen: set[str] = set()

        def measure(self, batch: TextBatch) -> dict[str, Any]:
            new = np.array([text not in self._seen for text in batch.texts], float)
            self._seen.update(batch.texts)
            return {"stars": super().measure(batch)["stars"], "star_lines": new}

    attributes = {"step": Remembering, "measured": {"★": {"stars": 1.0}}}
    assert list(failures(type("Suite", (SignalSuite,), attributes))) == ["test_has_no_memory"]


def test_a_filter_may_only_drop_lines() -> None:
    attributes = {"step": Digits, "kept": ("文書",), "trimmed": (("文\n12", "文"),)}
    assert failures(type("Trimming", (FilterSuite,), attributes)) == {}


def test_the_documented_suite_tests_the_documented_plugin() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    [plugin] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    suite = textwrap.dedent(page[page.index("    from jprep.testing.conformance") : page.index("| suite | samples |")])
    found: dict[str, Any] = {"__name__": "jprep_shout"}
    exec(plugin + suite.replace("from jprep_shout import Shout", ""), found)
    assert failures(found["TestShout"]) == {}
