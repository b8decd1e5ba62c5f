"""Documents of a row: numbers of tokens, labels at their beginnings, and no change without them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.dataset.sampling.config import MaskingConfig
from jprep.dataset.sampling.documents import NO_DOCUMENT, number_documents
from jprep.dataset.sampling.masking import IGNORE_INDEX, Masking
from jprep.dataset.sampling.sample_index import SeparatorIds
from jprep.dataset.sampling.sampler import Sampler, SamplerConfig, SplitData
from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.errors import ConfigError
from jprep.train.job.config import parse_train_config
from tests.unit.dataset.test_sampler import END, MEMORY, NEWLINE, PLAIN, ROBERTA

DOCUMENTS = st.lists(st.lists(st.integers(3, 9), max_size=5), min_size=1, max_size=5)
PAD = 1


@given(st.lists(st.tuples(DOCUMENTS, st.booleans()), min_size=1, max_size=4), st.integers(0, 2), st.integers(0, 2))
def test_numbers_count_the_documents_of_each_row(rows, before, after):
    texts, expected = [], []
    for documents, cut in rows:
        parts = [[*document, END] for document in documents]
        parts[-1] = [*parts[-1], 3] if cut else parts[-1]  # the row ends before its last document does
        numbers = [number for number, part in enumerate(parts) for _ in part]
        if cut:
            numbers[-1] += 1
        texts.append([token for part in parts for token in part])
        expected.append([0] * before + numbers + [numbers[-1]] * after)
    width = max(map(len, expected)) + 1
    ids = np.full((len(rows), width), PAD, np.int32)
    for row, text in enumerate(texts):
        ids[row, : before + len(text) + after] = [END] * before + text + [END] * after
    pieces = np.arange(len(rows)), np.full(len(rows), before)
    found = number_documents(ids, END, np.array([len(text) for text in texts]), before, after, pieces)
    assert found.dtype == np.int32
    assert found.tolist() == [one + [NO_DOCUMENT] * (width - len(one)) for one in expected]


def sampler(tmp_path: Path, special: SpecialIds, *, documents: bool) -> Sampler:
    source = SplitData(MEMORY, SeparatorIds(END, NEWLINE), "f" * 32, 1000, tmp_path)
    masking = None if special is PLAIN else Masking(MaskingConfig(), special, NEWLINE)
    return Sampler(source, SamplerConfig(batch=4, length=100, documents=documents), special, masking)


def test_first_tokens_of_documents_have_no_label(tmp_path: Path):
    plain, divided = (sampler(tmp_path, PLAIN, documents=documents).batch(0) for documents in (False, True))
    np.testing.assert_array_equal(plain.input_ids, divided.input_ids)
    first = np.zeros_like(divided.labels, np.bool_)
    first[:, 1:] = plain.input_ids[:, :-1] == END
    first &= divided.documents != NO_DOCUMENT
    assert first.sum() > 2
    np.testing.assert_array_equal(divided.labels, np.where(first, IGNORE_INDEX, plain.labels))


def test_masks_do_not_depend_on_documents(tmp_path: Path):
    plain, divided = (sampler(tmp_path, ROBERTA, documents=documents).batch(0) for documents in (False, True))
    np.testing.assert_array_equal(plain.input_ids, divided.input_ids)
    np.testing.assert_array_equal(plain.labels, divided.labels)
    assert divided.documents.max() >= 1 and plain.documents is None


@pytest.mark.parametrize(
    "section",
    [{"task": "classify", "data": ["x.jsonl"]}, {"packing": "line"}, {"task": "mlm", "next_sentence": True}],
)
def test_document_masks_without_use_are_refused(section):
    with pytest.raises(ConfigError, match="document_masks has no use"):
        parse_train_config({"steps": 1, "document_masks": True, **section}, "recipe.toml")
