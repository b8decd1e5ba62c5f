"""Labelled data: the four file formats, building rows, folds, and errors with locations."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from jprep.dataset.conversations.config import SftConfig
from jprep.dataset.conversations.reader import read_conversations
from jprep.dataset.labelled.dataset import (
    LabelledSampler,
    encode_labelled,
    fold_of,
    sort_labels,
    truncate_longest_first,
)
from jprep.dataset.labelled.reader import LabelledConfig, LabelledRow, read_labelled_rows
from jprep.errors import ConfigError, InputError
from jprep.tokenizer.special_tokens import SPECIAL_TOKEN_SETS


class Characters:
    """A tokenizer whose ids are code points after the special tokens."""

    def __init__(self, name: str) -> None:
        self.special, self.vocab_size = SPECIAL_TOKEN_SETS[name], 1 << 17

    def id_of(self, piece: str) -> int:
        return self.special.tokens.index(piece)

    def encode_batch(self, texts):
        ids = [ord(character) for text in texts for character in text]
        return np.array(ids, np.int32), np.cumsum([0, *map(len, texts)], dtype=np.int64)


BERT, ROBERTA = Characters("bert"), Characters("roberta")
CLS, SEP, PAD = 2, 3, 0
ROWS = [("猫は\n寝る。", "猫, 犬", "b"), ('彼は「"はい"」と言った', "x", "a"), ("🐈", "", "b"), ("四", "五", "10")]
PAIRS = LabelledConfig(pair="other", length=40)


def write(folder: Path, suffix: str, rows=ROWS) -> Path:
    path, names = folder / f"rows{suffix}", ("text", "other", "label")
    records = [dict(zip(names, row, strict=True)) for row in rows]
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    elif suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    elif suffix == ".csv":
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file).writerows([names, *rows])
    else:
        lines = ["\t".join(field.replace("\n", " ") for field in row) for row in [names, *rows]]
        path.write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    return path


def rows_of(data) -> list[list[int]]:
    return [data.ids[data.offsets[i] : data.offsets[i + 1]].tolist() for i in range(len(data))]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv", ".parquet"])
def test_every_file_format_gives_the_same_rows(tmp_path: Path, suffix):
    found = [row[:3] for row in read_labelled_rows(write(tmp_path, suffix), PAIRS, "classify")]
    assert found == [(text.replace("\n", " ") if suffix == ".tsv" else text, *row) for text, *row in ROWS]


def test_pair_matches_the_tokenizers_template(tmp_path: Path):
    data = encode_labelled([write(tmp_path, ".jsonl", ROWS[3:])], BERT, PAIRS, "classify")
    assert rows_of(data) == [[CLS, ord("四"), SEP, ord("五"), SEP]]
    batch = LabelledSampler(data, 1, 1, "train").batch(0)
    assert batch.token_types[0].tolist() == [0, 0, 0, 1, 1] + [0] * 35
    assert batch.attention_mask.sum() == 5
    data = encode_labelled([write(tmp_path, ".jsonl", ROWS[3:])], ROBERTA, PAIRS, "classify")
    assert rows_of(data) == [[0, ord("四"), 2, 2, ord("五"), 2]]
    assert not LabelledSampler(data, 1, 1, "train").batch(0).token_types.any()


def test_long_rows_are_truncated_and_counted(tmp_path: Path):
    path = write(tmp_path, ".jsonl", [("あ" * 50, "い", "x"), ("う" * 3, "え" * 3, "x"), ("", "", "y")])
    data = encode_labelled([path], BERT, LabelledConfig(length=10), "classify")
    assert rows_of(data)[0] == [CLS, *[ord("あ")] * 8, SEP]
    assert data.counts == {"rows": 3, "truncated": 1, "empty": 1}
    data = encode_labelled([path], BERT, LabelledConfig(pair="other", length=8), "classify")
    assert [len(row) for row in rows_of(data)] == [8, 8, 3]
    assert data.counts["truncated"] == 2


LIBRARY = Tokenizer(WordLevel({"a": 0, "b": 1}, unk_token="a"))
LIBRARY.pre_tokenizer = Whitespace()


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 40))
def test_pairs_are_truncated_as_by_tokenizers(first, second, room):
    LIBRARY.enable_truncation(room, strategy="longest_first")
    ids = LIBRARY.encode("a " * first, "b " * second).ids
    assert truncate_longest_first(first, second, room) == (ids.count(0), ids.count(1))


def test_labels_are_sorted():
    assert sort_labels(["b", "a", "b", "10"]) == ("10", "a", "b")
    assert sort_labels(["10", "9", "-1", "9"]) == ("-1", "9", "10")
    assert sort_labels(["9", "1" * 5000]) == ("1" * 5000, "9")  # Python converts no such integer


def test_order_of_training_labels_is_kept(tmp_path: Path):
    data = encode_labelled([write(tmp_path, ".csv")], BERT, PAIRS, "classify", ["b", "10", "c", "a"])
    assert (data.names, data.targets.tolist()) == (("b", "10", "c", "a"), [0, 3, 0, 1])
    with pytest.raises(InputError, match=r"the label 'b' did not occur in training") as error:
        encode_labelled([write(tmp_path, ".csv")], BERT, PAIRS, "classify", ["a", "10"])
    assert error.value.where.endswith("rows.csv, line 2")


@pytest.mark.parametrize(
    ("label", "task", "expected"),
    [(3, "classify", "3"), (True, "classify", "true"), (3, "regress", 3.0), ("1.5", "regress", 1.5)],
)
def test_labels_can_be_numbers(tmp_path: Path, label, task, expected):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"text": "t", "label": label}))
    assert [row.label for row in read_labelled_rows(path, LabelledConfig(), task)] == [expected]


def numbered(folder: Path, rows: int) -> Path:
    path = folder / "numbered.jsonl"
    records = [{"text": "字" * (i % 17) + str(i), "label": i / 7, "number": i} for i in range(rows)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


FOLDS = [4, 2, 4]


def test_hash_folds_partition_rows_and_are_stable(tmp_path: Path):
    data = encode_labelled([numbered(tmp_path, 1000)], BERT, LabelledConfig(folds=5), "regress")
    held = [data.split(fold)[1] for fold in range(5)]
    assert sorted(np.concatenate(held).tolist()) == list(range(1000))
    assert all(150 < len(rows) < 250 for rows in held)
    train, out = data.split(2)
    assert sorted([*train.tolist(), *out.tolist()]) == list(range(1000))
    # Listed in docs/sampling.md.
    texts = ("吾輩は猫である。", "名前はまだ無い。", "どこで生れたか")
    assert [fold_of(LabelledRow(text, "", "x", 0, ""), LabelledConfig(folds=5)) for text in texts] == FOLDS


def test_folds_by_column(tmp_path: Path):
    config = LabelledConfig(folds=3, fold="number")
    data = encode_labelled([numbered(tmp_path, 10)], BERT, config, "regress")
    assert data.folds.tolist() == [i % 3 for i in range(10)]


def test_sampler_returns_each_row_once_per_epoch(tmp_path: Path):
    data = encode_labelled([numbered(tmp_path, 60)], BERT, LabelledConfig(length=20, folds=3), "regress")
    train, held = data.split(0)
    sampler = LabelledSampler(data, 6, 1, "train", train)
    seen = {}
    for step in range(-(-sampler.samples // 6)):
        batch = sampler.batch(step)
        for row, index in enumerate(batch.indices.tolist()):
            if batch.epochs[row] == 0:
                assert index not in seen
                seen[index] = batch.input_ids[row, : batch.lengths[row]].tolist()
                assert batch.labels[row] == np.float32(index / 7)
    assert seen == {index: rows_of(data)[index] for index in train.tolist()}
    assert not set(seen) & set(held.tolist())


def test_ranks_agree_on_the_width_of_a_batch(tmp_path: Path):
    config = LabelledConfig(length=32, buckets=[8, 16])
    data = encode_labelled([numbered(tmp_path, 60)], BERT, config, "regress")
    sampler, widths = LabelledSampler(data, 4, 1, "train"), set()
    for step in range(15):
        whole, parts = sampler.batch(step), [sampler.batch(step, rank, 2) for rank in range(2)]
        widths.add(whole.input_ids.shape[1])
        assert whole.input_ids.shape[1] == min(width for width in (8, 16, 32) if width >= whole.lengths.max())
        assert (np.concatenate([part.input_ids for part in parts]) == whole.input_ids).all()
    assert widths > {16}


BAD = [
    (".jsonl", b'{"text": "a", "label": 1}\n\n{"text": \n', "invalid JSON", "line 3"),
    (".jsonl", b'{"text": "a", "label": 1}\n{"txet": "a", "label": 1}\n', "missing column 'text'", "line 2"),
    (".jsonl", b'{"text": 5, "label": 1}', "must be text, got 5", "line 1"),
    (".jsonl", b'{"text": "a", "label": null}', "not a label: None", "line 1"),
    (".jsonl", b'{"text": "a", "label": 0.5}', "not a label: 0.5", "line 1"),
    (".jsonl", b"[1]", "invalid JSON", "line 1"),
    (".jsonl", b'{"text": ' + b"[" * 5000 + b"]" * 5000 + b"}", "invalid JSON", "line 1"),
    (".csv", b'text,label\n"a\nb",x\nc\n', "found 1 fields, expected 2", "line 4"),
    (".csv", b"text,label\na,\n", "not a label: ''", "line 2"),
    (".csv", b"text,lable\na,b\n", "missing column 'label'", "line 2"),
    (".csv", b'text,label\n"a,b\n', "invalid CSV", "line 2"),
    (".csv", b"text,text\na,b\n", "the same name", "line 1"),
    (".tsv", b"text\tlabel\na\tb\tc\n", "3 fields", "line 2"),
    (".csv", b"text,label\n" + b"a,b\n" * 5000 + "あ,b\n".encode("cp932"), "invalid UTF-8", "line 5002"),
    (".parquet", b"PAR1", "invalid Parquet", "row 0"),
]


@pytest.mark.parametrize(("suffix", "data", "what", "where"), BAD)
def test_errors_name_file_and_line(tmp_path: Path, suffix, data, what, where):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(data)
    with pytest.raises(InputError) as error:
        list(read_labelled_rows(path, LabelledConfig(), "classify"))
    assert what in error.value.what
    assert error.value.where.startswith(f"{path}, {where}")


def test_invalid_json_numbers_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "a", "label": NaN}')
    with pytest.raises(InputError) as error:
        list(read_labelled_rows(path, LabelledConfig(), "regress"))
    assert "JSON has no NaN" in error.value.fix


@pytest.mark.parametrize("label", ["high", True, None, "nan", "1_000", 1e39, "-1e39", 10**400])
def test_scores_must_be_finite(tmp_path: Path, label):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"text": "a", "label": label}))
    with pytest.raises(InputError, match="not a score"):
        list(read_labelled_rows(path, LabelledConfig(), "regress"))


def test_the_largest_score_is_that_of_float32(tmp_path: Path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "a", "label": 3.4028235e38}')
    assert [row.label for row in read_labelled_rows(path, LabelledConfig(), "regress")] == [3.4028235e38]


def test_parquet_file_without_the_column_is_rejected(tmp_path: Path):
    with pytest.raises(InputError, match="missing column 'score'") as error:
        list(read_labelled_rows(write(tmp_path, ".parquet"), LabelledConfig(label="score"), "regress"))
    assert "other" in error.value.fix


def test_columns_without_header_are_numbered(tmp_path: Path):
    path = tmp_path / "x.tsv"
    path.write_text("よい\t1\nわるい\t0\n", encoding="utf-8")
    config = LabelledConfig(text="0", label="1", header=False)
    assert [row[:3] for row in read_labelled_rows(path, config, "classify")] == [("よい", "", "1"), ("わるい", "", "0")]


@pytest.mark.parametrize("name", ["x.jsonl", "x.xlsx"])
def test_missing_or_unknown_files_are_rejected(tmp_path: Path, name):
    with pytest.raises(ConfigError):
        list(read_labelled_rows(tmp_path / name, LabelledConfig(), "classify"))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"length": 2}, "no room"),
        ({"buckets": [200]}, "bucket"),
        ({"folds": 1}, "2 or more"),
        ({"fold": "x"}, "2 or more"),
    ],
)
def test_numbers_out_of_range_are_rejected(tmp_path: Path, change, what):
    with pytest.raises(ConfigError, match=what):
        encode_labelled([write(tmp_path, ".csv")], BERT, LabelledConfig(**change), "classify")


def test_unknown_fold_and_empty_file_are_rejected(tmp_path: Path):
    path = tmp_path / "x.jsonl"
    path.write_text("")
    data = encode_labelled([path], BERT, LabelledConfig(), "classify")
    with pytest.raises(ConfigError, match="no sample"):
        LabelledSampler(data, 1, 1, "train")
    with pytest.raises(ConfigError, match="fold 0 does not exist"):
        data.split(0)


def test_encodings_and_names_of_columns(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes('"ソ表示\n能",1\nb,0\n'.encode("cp932"))
    config = LabelledConfig(header=False, columns=["text", "label"], encoding="cp932")
    assert [(row.text, row.label) for row in read_labelled_rows(path, config, "classify")] == [
        ("ソ表示\n能", "1"),
        ("b", "0"),
    ]
    with pytest.raises(InputError, match=r"(?s)invalid UTF-8.*line 1.*labelled.encoding"):
        list(read_labelled_rows(path, LabelledConfig(header=False), "classify"))
    with pytest.raises(ConfigError, match="both header and columns"):
        encode_labelled([path], BERT, LabelledConfig(columns=["text", "label"]), "classify")


def test_a_directory_is_no_file_of_rows(tmp_path: Path):
    for path in (tmp_path / "rows", tmp_path / "rows.parquet"):
        path.mkdir()
        with pytest.raises(ConfigError, match="expected a file, got a directory") as refused:
            next(read_labelled_rows(path, LabelledConfig(), "classify"))
        assert refused.value.where == str(path) and ".jsonl, .csv, .tsv, .parquet" in refused.value.fix
        with pytest.raises(ConfigError, match="expected a file, got a directory") as refused:
            next(read_conversations(path, SftConfig()))
        assert ".jsonl, .parquet" in refused.value.fix
