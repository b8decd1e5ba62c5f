"""Tasks are read from files in JGLUE's forms, and likelihoods of answers are judged."""

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.compare.statistics.differences import ANSWER_BITS
from jprep.compare.tasks.judging import judge, task_rows, weights
from jprep.compare.tasks.task_files import load_task
from jprep.errors import ConfigError, InputError

TASKS = Path(__file__).parent / "tasks"
BEFORE = 0


class LongestMatch:
    """A tokenizer that takes the longest of its pieces, else a character, from left to right."""

    def __init__(self, *pieces):
        self._pieces = sorted(pieces, key=len, reverse=True)

    def encode_batch(self, texts):
        rows = [self._encode(text) for text in texts]
        return np.concatenate([np.asarray(row, np.int64) for row in rows]), np.cumsum([0, *map(len, rows)])

    def _encode(self, text):
        if not self._pieces:
            return np.frombuffer(text.encode("utf-32-le"), "<u4")
        row, at = [], 0
        while at < len(text):
            piece = next((piece for piece in self._pieces if text.startswith(piece, at)), text[at])
            row.append(ord(piece) if len(piece) == 1 else 0x200000 + self._pieces.index(piece))
            at += len(piece)
        return row


def write(path, *records):
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


def question(label=0, **changes):
    return {"question": f"問い{label}", **{f"choice{n}": f"答え{n}" for n in range(5)}, "label": label, **changes}


def by_character(row):
    """Each scored character costs one bit."""
    return -math.log(2) * (len(row.ids) - row.start)


@pytest.mark.parametrize(
    ("name", "form", "chance", "compared"),
    [
        ("jcommonsenseqa.jsonl", "multiple-choice", 0.2, 1),
        ("jnli.jsonl", "nli", 1 / 3, 2),
        ("marc_ja.jsonl", "sentiment", 0.5, 1),
        ("jsquad.json", "qa", 0, 1),
    ],
)
def test_files_of_jglue_are_recognised(name, form, chance, compared):
    task = load_task(TASKS / name)
    assert (task.config.form, len(task.items), task.repeated) == (form, 40, 0)
    assert task.chance == pytest.approx(chance)
    assert {len(item.compared) for item in task.items} == {compared}
    assert task.name == name.partition(".")[0]


def test_prompts_and_answers():
    choice, nli, review, qa = (
        load_task(TASKS / f"{name}").items[0]
        for name in ("jcommonsenseqa.jsonl", "jnli.jsonl", "marc_ja.jsonl", "jsquad.json")
    )
    assert choice.prompt == "質問：雨の日に外で体がぬれないように使うものは何ですか。\n答え："
    assert (choice.choices, choice.answers) == (("傘", "月", "帽子", "小麦粉", "はさみ"), ("傘",))
    assert nli.prompt.startswith("前提：男の人が公園で犬と走っています。\n仮説：")
    assert (nli.choices, nli.right) == (("含意", "矛盾", "中立"), 0)
    assert review.choices == ("良い", "悪い")
    assert "[SEP]" not in qa.prompt
    assert qa.answers == ("北の山のふもと",)


def test_forms_of_answers_and_labels(tmp_path):
    context = {"context": "東京は日本の首都。", "question": "首都は"}
    task = load_task(
        write(
            tmp_path / "qa.jsonl",
            {**context, "answers": {"text": ["東京", "東京", "東京都"], "answer_start": [0, 0, 0]}},
            {**context, "answers": [{"text": "日本"}]},
            {**context, "answers": "首都"},
        )
    )
    assert [item.answers for item in task.items] == [("東京", "東京都"), ("日本",), ("首都",)]
    pair = {"sentence1": "雨だ", "sentence2": "天気だ"}
    numbered = load_task(write(tmp_path / "nli.jsonl", {**pair, "label": 2}, {**pair, "label": "entailment"}))
    assert [item.right for item in numbered.items] == [2, 0]


def test_csv_tsv_and_parquet_are_read(tmp_path):
    rows = [question(n) for n in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    for suffix, separator in ((".csv", ","), (".tsv", "\t")):
        lines = [separator.join(rows[0]), *(separator.join(map(str, row.values())) for row in rows)]
        (tmp_path / f"a{suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    prompts = [
        [item[1:] for item in load_task(tmp_path / f"a{suffix}").items] for suffix in (".csv", ".tsv", ".parquet")
    ]
    assert prompts[0] == prompts[1] == prompts[2]
    assert len(prompts[0]) == 3


def test_task_of_ones_own(tmp_path):
    write(
        tmp_path / "x.jsonl",
        {"文": "晴れだ", "正解": "はれ"},
        {"文": "雨だ", "正解": "あめ"},
        {"文": "雪だ", "正解": 0},
    )
    (tmp_path / "weather.toml").write_text(
        'form = "sentiment"\nfile = "x.jsonl"\nprompt = "{文}\\n天気は"\nlabel = "正解"\ncompared = ["文"]\nlimit = 2\n'
        '[labels]\n"はれ" = "晴れ"\n"あめ" = "雨"\n',
        encoding="utf-8",
    )
    task = load_task(tmp_path / "weather.toml")
    assert task.name == "weather"
    assert [(item.prompt, item.right, item.compared) for item in task.items] == [
        ("晴れだ\n天気は", 0, ("晴れだ",)),
        ("雨だ\n天気は", 1, ("雨だ",)),
    ]


def test_repeated_items_count_once(tmp_path):
    task = load_task(write(tmp_path / "a.jsonl", question(0), question(1), question(0), question(0)))
    assert ([item.right for item in task.items], task.repeated) == ([0, 1], 2)
    assert task.items[1].id == "a.jsonl, line 2"


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        ("", "no items", "a.jsonl"),
        (json.dumps(question(0)), "only 1 item", "a.jsonl"),
        (json.dumps(question(0)) + "\n{", "invalid JSON", "line 2"),
        (json.dumps(question(0)) + '\n{"question": "x"}', "missing field 'label'", "line 2"),
        (json.dumps(question(0)) + "\n" + json.dumps(question(0, question=" ")), "'question' is empty", "line 2"),
        (json.dumps(question(0)) + "\n" + json.dumps(question(0, question=None)), "must be text, got None", "line 2"),
        (json.dumps(question(5)), "'label' must be the number of a choice, 0 to 4, got 5", "line 1"),
        (json.dumps(question("²")), "'label' must be the number", "line 1"),
        (json.dumps(question(True)), "'label' must be the number", "line 1"),
        ('{"question": "\\ud800"}', "invalid JSON", "line 1"),
        ('{"a": 1, "b": 2}', "no task has these fields: 'a', 'b'", "line 1"),
        ('{"sentence": "x", "label": "とても良い"}', "no label 'とても良い'", "line 1"),
        ('{"context": "x", "question": "y", "answers": []}', "at least one answer", "line 1"),
        ('{"context": "x", "question": "y", "answers": [{"text": ["z"]}]}', "at least one answer", "line 1"),
    ],
)
def test_malformed_items_are_named_with_line_field_and_fix(tmp_path, text, what, where):
    path = tmp_path / "a.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        load_task(path)
    assert what in error.value.what
    assert where in error.value.where
    assert error.value.fix


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('form = "nli"', "missing required field `file`"),
        ('form = "nil"\nfile = "x"', "'nil' is not a valid value of `form`"),
        ('form = "nli"\nfile = "x"\npromt = ""', "unknown field `promt`"),
        ('form = "nli"\nfile = "x"\nprompt = "{sentence1"', "malformed `prompt`"),
        ('form = "nli"\nfile = "x"\nprompt = "{0.__class__}"', "malformed `prompt`"),
        ('form = "nli"\nfile = "x"\nprompt = "{sentence1!r:>10}"', "malformed `prompt`"),
        ('form = "sentiment"\nfile = "x"\n[labels]\na = "b"', "two different words"),
        ('form = "multiple-choice"\nfile = "x"\nchoices = ["a"]', "at least two fields"),
        ("form =", "invalid TOML"),
        ('form = "nli"\nfile = "missing.jsonl"', "cannot read the file"),
        ('form = "nli"\nfile = "missing.xyz"', "unknown format"),
    ],
)
def test_wrong_descriptions_are_named(tmp_path, text, what):
    path = tmp_path / "task.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=what) as error:
        load_task(path)
    assert error.value.where


@pytest.mark.parametrize("text", ['{"data": 1}', '{"data": [1]}', '{"data": [{}]}', "[1]", "3", "{", '"\\ud800"'])
def test_malformed_squad_files_are_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        load_task(tmp_path / "a.json")
    assert error.value.fix


def test_encoding_of_a_table_is_set_in_a_description(tmp_path):
    lines = ["sentence,label", "とても良い本です,positive", "読みにくい本です,negative"]
    (tmp_path / "a.csv").write_text("\n".join(lines), encoding="cp932")
    with pytest.raises(InputError, match="invalid UTF-8") as error:
        load_task(tmp_path / "a.csv")
    assert error.value.fix == "save the file as UTF-8, or give a TOML file with `encoding`"
    assert error.value.where.endswith("line 2")
    (tmp_path / "a.toml").write_text('form = "sentiment"\nfile = "a.csv"\nencoding = "cp932"\n')
    assert [item.right for item in load_task(tmp_path / "a.toml").items] == [0, 1]


def test_missing_file_is_named(tmp_path):
    for name in ("a.jsonl", "a.json", "a.toml"):
        with pytest.raises(ConfigError, match="cannot read the file"):
            load_task(tmp_path / name)


def test_line_of_ten_megabytes_is_an_item(tmp_path):
    task = load_task(write(tmp_path / "a.jsonl", question(0, question="長" * 3_500_000), question(1)))
    made = task_rows(task.items, LongestMatch(), BEFORE, 64)
    assert made.shortened == 1
    assert max(len(row.ids) for row in made.rows) == 64


def test_rows_score_exactly_the_answers_where_tokens_do_not_join(tmp_path):
    task = load_task(write(tmp_path / "a.jsonl", question(0), question(1)))
    made = task_rows(task.items, LongestMatch(), BEFORE, 100)
    assert made.shared == [None, None]
    for item, rows in zip(task.items, made.whole, strict=True):
        for choice, number in zip(item.choices, rows, strict=True):
            row = made.rows[number]
            assert row.ids[0] == BEFORE
            assert "".join(map(chr, row.ids[1:])) == item.prompt + choice
            assert "".join(map(chr, row.ids[row.start :])) == choice


def test_tokens_across_the_boundary_are_scored_for_all_choices_alike(tmp_path):
    task = load_task(write(tmp_path / "a.jsonl", question(0, choice0="傘", choice1="月"), question(1)))
    made = task_rows(task.items[:1], LongestMatch("え：傘", "：月"), BEFORE, 100)
    prompt = task.items[0].prompt
    starts = {made.rows[number].start for number in made.whole[0]}
    assert starts == {len(prompt) - 1}  # `え：` is scored again with every choice, and taken off again
    shared = made.rows[made.shared[0]]
    assert "".join(map(chr, shared.ids[shared.start :])) == "え："


def test_choices_are_compared_per_character(tmp_path):
    task = load_task(write(tmp_path / "a.jsonl", question(1, choice0="あ", choice1="長い答え"), question(1)))
    item = task.items[0]
    made = task_rows([item], LongestMatch(), BEFORE, 100)
    assert len(item.choices) == 5
    per_choice = [-2.0, -4.0, -9.0, -9.0, -9.0]  # -2 and -1 per character
    assert judge(task, [item], made, per_choice).tolist() == [1.0]
    assert judge(task, [item], made, [-0.5, -4.0, -9.0, -9.0, -9.0]).tolist() == [0.0]


def test_equally_likely_labels_share_the_score():
    task = load_task(TASKS / "jnli.jsonl")
    made = task_rows(task.items, LongestMatch(), BEFORE, 200)
    assert judge(task, task.items, made, [-1.0] * len(made.rows)).tolist() == [pytest.approx(1 / 3)] * 40
    right = [-1.0 * (at != item.right) for item in task.items for at in range(3)]
    assert judge(task, task.items, made, right).sum() == 40


def test_answers_cost_bits_for_their_characters():
    task = load_task(TASKS / "jsquad.json")
    assert task.measure == ANSWER_BITS
    made = task_rows(task.items, LongestMatch("え：北"), BEFORE, 500)
    found = judge(task, task.items, made, [by_character(row) for row in made.rows])
    characters = weights(task, task.items)
    assert characters[0] == len("北の山のふもと")
    assert found[1:].tolist() == pytest.approx(characters[1:].tolist())
    assert found[0] == pytest.approx(characters[0] - 2)  # one token instead of three characters


@given(
    st.text(min_size=1, max_size=8),
    st.text(min_size=1, max_size=8),
    st.lists(st.text(min_size=2, max_size=3), max_size=5),
)
def test_any_tokenizer_gives_rows_that_cover_the_answer(prompt, answer, pieces):
    task = load_task(TASKS / "jsquad.json")
    item = task.items[0]._replace(prompt=prompt, choices=(answer,), answers=(answer,))
    tokenizer = LongestMatch(*pieces)
    made = task_rows([item], tokenizer, BEFORE, 100)
    row = made.rows[made.whole[0][0]]
    assert 1 <= row.start < len(row.ids)
    if made.shared[0] is None:
        assert row.ids[1 : row.start] == list(tokenizer._encode(prompt))
    else:
        shared = made.rows[made.shared[0]]
        assert shared.start == row.start
        assert shared.ids[: shared.start] == row.ids[: row.start]
