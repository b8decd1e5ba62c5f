"""Filters judge and measure many documents as they do one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.document import SENTENCE, UNMARK, Document
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.step import Filter
from jprep.testing.conformance.step import TEXTS as HOSTILE
from tests.unit.corpus.test_filter_measures import OPTIONS, TEXTS

MANY = st.lists(
    st.one_of(TEXTS, st.sampled_from(HOSTILE), st.text(st.characters(categories=["Cs", "Lo", "Zs", "So", "Nd"]))),
    max_size=12,
)


def documents(texts: list[str]) -> list[Document]:
    return [
        Document(f"a:{number}", "a", "", "", text, text.replace("。", f"。{SENTENCE}"))
        for number, text in enumerate(text.translate(UNMARK) for text in texts)
    ]


@pytest.mark.parametrize("kind", OPTIONS, ids=lambda kind: kind.name)
@given(data=st.data(), texts=MANY)
def test_a_batch_gives_what_its_documents_give(kind: type[Filter], data: st.DataObject, texts: list[str]) -> None:
    options: dict[str, Any] = {name: data.draw(values, name) for name, values in OPTIONS[kind].items()}
    step = kind(msgspec.convert(options, kind.Config))
    docs = documents(texts)
    assert step.judge_all(TextBatch(docs)) == [step.judge(doc) for doc in docs]
    assert step.measure_all(TextBatch(docs)) == [step.measure(doc) for doc in docs]


@pytest.mark.parametrize("kind", [kind for kind in OPTIONS if kind.name != "threshold"], ids=lambda kind: kind.name)
def test_hostile_texts_are_judged_like_alone(kind: type[Filter]) -> None:
    docs = documents([*HOSTILE, "\n".join(HOSTILE), ""])
    step = kind()
    assert step.judge_all(TextBatch(docs)) == [step.judge(doc) for doc in docs]
