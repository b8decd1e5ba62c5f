"""Starter recipes that fine-tune a finished model on labelled rows or conversations."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jprep.errors import ConfigError, InputError
from jprep.pipeline.recipe import load_recipe
from jprep.pipeline.starter.finetuning import FineTuning, compose_finetuning
from jprep.pipeline.starter.starting_model import read_starting_model
from jprep.train.job.config import ModelConfig, Task, TrainConfig
from jprep.train.models import TokenizerInfo, model_config
from tests.conftest import Run
from tests.fakes.hugging_face import write_bert, write_byte_level

CHAT = [{"role": "user", "content": "日本の首都は？"}, {"role": "assistant", "content": "東京です。"}]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_bert(tmp_path / "bert", positions=48)
    causal = write_byte_level(tmp_path / "gpt2")
    info = TokenizerInfo(300, 16, bos=0, eos=2, pad=1)
    (causal / "config.json").write_text(json.dumps(model_config(ModelConfig(preset="gpt2-tiny"), "clm", info)))
    return tmp_path


def write_rows(path: str, rows: list[dict[str, Any]]) -> str:
    Path(path).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def composed(task: Any, *inputs: str, init: str = "bert", **answers: Any) -> TrainConfig:
    """Return `[train]` of the recipe that is written for some files."""
    start = read_starting_model(init, task)
    found = compose_finetuning(
        FineTuning(name="mine", task=task, start=start, inputs=inputs, **answers), Path("m.toml")
    )
    Path("m.toml").write_text(found.text, encoding="utf-8")
    Path("notes").write_text("\n".join([found.about, *found.notes]), encoding="utf-8")
    train = load_recipe(Path("m.toml")).train
    assert train
    return train


def labelled(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"text": f"東京の{number}", "label": "はい" if number % 3 else "いいえ"} | more for number in range(count)]


def test_labelled_rows_are_classified_in_folds(folder: Path) -> None:
    train = composed("classify", write_rows("train.jsonl", labelled(40)))
    assert (train.task, train.data, train.model.init, train.fold) == ("classify", ["train.jsonl"], "bert", 0)
    assert (train.labelled.text, train.labelled.label, train.labelled.folds) == ("text", "label", 5)
    assert train.labelled.stratify == "label" and train.labelled.length == 32
    assert (train.batch, train.epochs, train.checkpoint.best) == (16, 10, "macro_f1")
    text = Path("m.toml").read_text(encoding="utf-8")
    assert "2 labels: はい (26), いいえ (14)" in text and "about 20 steps" in text
    assert "no row is longer" in text and "jprep export work/mine/runs/torch --which best" in text


def test_more_rows_need_fewer_passes(folder: Path) -> None:
    epochs = [composed("classify", write_rows("t.jsonl", labelled(rows))).epochs for rows in (900, 1_000, 5_000)]
    assert epochs == [10, 5, 3]


def test_given_validation_rows_replace_the_folds(folder: Path) -> None:
    held = write_rows("held.jsonl", labelled(4))
    train = composed("classify", write_rows("train.jsonl", labelled(40)), validation=(held,))
    assert train.validation_data == ["held.jsonl"] and train.labelled.folds == 0 and train.fold is None


@pytest.mark.parametrize(
    ("stored", "option"), [("cp932", "cp932"), ("euc_jp", "cp51932"), ("utf-8-sig", "utf-8"), ("utf-16", "")]
)
def test_a_table_in_another_encoding_is_read(folder: Path, stored: str, option: str) -> None:
    rows = [f"とても良い映画でした、{number}回目,{['良い', '悪い'][number % 2]}" for number in range(30)]
    Path("train.csv").write_bytes("\n".join(["本文,分類", *rows]).encode(stored))
    if not option:
        with pytest.raises(ConfigError, match="the file is in utf-16"):
            composed("classify", "train.csv")
        return
    found = composed("classify", "train.csv").labelled
    assert (found.text, found.label, found.encoding) == ("本文", "分類", option)


def test_scores_of_text_pairs(folder: Path) -> None:
    rows = [{"sentence1": "東京", "sentence2": f"京都{number}", "label": number / 10} for number in range(20)]
    train = composed("regress", write_rows("jsts.jsonl", rows))
    found = train.labelled
    assert (found.text, found.pair, found.stratify) == ("sentence1", "sentence2", "quantiles")
    assert train.checkpoint.best == "loss"


def test_columns_that_are_not_found_are_asked_for(folder: Path) -> None:
    path = write_rows("odd.jsonl", [{"文": f"東京{number}", "種類": "甲乙"[number % 2]} for number in range(20)])
    with pytest.raises(ConfigError, match="no column called text") as error:
        composed("classify", path)
    assert error.value.fix == "--text-field with one of '文', '種類'"
    with pytest.raises(ConfigError, match="no column called label"):
        composed("classify", path, text_field="文")
    with pytest.raises(ConfigError, match="no column 'X'"):
        composed("classify", path, text_field="X")
    assert composed("classify", path, text_field="文", label_field="種類").labelled.label == "種類"


@pytest.mark.parametrize(
    ("name", "separator", "fix"),
    [
        ("a.csv", ";", "save it with commas, as .csv"),
        ("a.csv", "\t", "end the file's name in .tsv if no field is quoted"),
        ("a.tsv", ",", "end the file's name in .csv"),
    ],
)
def test_another_separator_is_named(name: str, separator: str, fix: str) -> None:
    lines = ["text,label", *(f"東京{number},{'甲乙'[number % 2]}" for number in range(20))]
    Path(name).write_text("\n".join(lines).replace(",", separator), encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(f"its separator is {separator!r}, not")) as error:
        composed("classify", name)
    assert error.value.fix.startswith(fix)
    if "end the" in fix:
        renamed = Path(name).rename(f"b.{'tc'[separator == ',']}sv")
        assert composed("classify", str(renamed)).labelled.label == "label"


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ({"messages": CHAT}, {"messages": "messages"}),
        ({"conversations": [{"from": "human", "value": "東京"}, {"from": "gpt", "value": "はい"}]},
         {"messages": "conversations"}),
        ({"instruction": "訳せ", "input": "東京", "output": "Tokyo"},
         {"prompt": "instruction", "context": "input", "answer": "output"}),
        ({"question": "首都は", "answer": "東京", "id": 1}, {"prompt": "question", "answer": "answer"}),
    ],
)  # fmt: skip
def test_conversations_in_published_forms(row: dict[str, Any], columns: dict[str, str], folder: Path) -> None:
    train = composed("sft", write_rows("chat.jsonl", [row] * 30), init="gpt2")
    assert train.sft.columns() == columns
    assert (train.length, train.epochs, train.validation.enabled) == (256, 3, False), "a tiny model has 256 positions"


def test_rows_to_validate_on_are_read_as_those_to_train_on(folder: Path) -> None:
    path = write_rows("train.jsonl", labelled(40))
    with pytest.raises(InputError, match="missing column 'label'"):
        composed("classify", path, validation=(write_rows("other.jsonl", [{"text": "東京", "class": "はい"}]),))
    with pytest.raises(ConfigError, match="no row to train on has the label '未知'"):
        composed("classify", path, validation=(write_rows("unknown.jsonl", labelled(3, label="未知")),))
    chat = write_rows("chat.jsonl", [{"messages": CHAT}] * 30)
    with pytest.raises(InputError, match="messages"):
        composed("sft", chat, init="gpt2", validation=(write_rows("pairs.jsonl", [{"prompt": "a"}]),))


def test_rows_are_looked_at_from_the_beginning_to_the_end(folder: Path) -> None:
    rows = [*labelled(4_500), *({"text": "東京 " * 60, "label": "はい"} for _ in range(1_500))]
    train = composed("classify", write_rows("sorted.jsonl", rows))
    assert train.labelled.length == 48, "the model's positions"
    assert "25.0% of the rows are longer" in Path("m.toml").read_text(encoding="utf-8")
    assert "25% of the rows are longer than the recipe's length" in Path("notes").read_text(encoding="utf-8")


@pytest.mark.parametrize(("width", "rate"), [(64, 5e-4), (512, 1e-4), (768, 3e-5), (1024, 1e-5)])
def test_small_models_learn_at_a_higher_rate(width: int, rate: float, folder: Path) -> None:
    config = json.loads(Path("bert/config.json").read_text(encoding="utf-8"))
    Path("bert/config.json").write_text(json.dumps(config | {"hidden_size": width}), encoding="utf-8")
    assert composed("classify", write_rows("train.jsonl", labelled(40))).optimizer.lr == rate


def test_what_no_training_accepts_is_refused_at_once(folder: Path) -> None:
    with pytest.raises(ConfigError, match="all rows have the same label: はい"):
        composed("classify", write_rows("one.jsonl", labelled(9, label="はい")))
    with pytest.raises(ConfigError, match="cannot be both text and label"):
        composed("classify", write_rows("t.jsonl", labelled(9)), label_field="text")
    with pytest.raises(ConfigError, match="no conversation has an answer that fits: 3 conversations"):
        composed("sft", write_rows("asked.jsonl", [{"messages": CHAT[:1]}] * 3), init="gpt2")
    with pytest.raises(ConfigError, match="conversations are files"):
        composed("sft", write_rows("alpaca.json", []), init="gpt2")
    few = composed("classify", write_rows("few.jsonl", labelled(3)))
    assert few.labelled.folds == 3


def test_large_scores_are_pointed_out(folder: Path) -> None:
    rows = [{"Text": f"東京{number}", "score": number, "label": "x"} for number in range(100)]
    found = composed("regress", write_rows("scores.jsonl", rows)).labelled
    assert (found.text, found.label) == ("Text", "score")
    assert "Scores have the mean 49.5 and the standard deviation 28.87." in Path("m.toml").read_text(encoding="utf-8")
    assert "are slow to learn" in Path("notes").read_text(encoding="utf-8")


def test_conversations_are_validated_on_given_files(folder: Path) -> None:
    path = write_rows("chat.jsonl", [{"messages": CHAT}] * 30)
    train = composed("sft", path, init="gpt2", validation=(path,))
    assert train.validation.enabled and train.checkpoint.keep_best == 1


def test_what_cannot_be_used_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="do not fine-tune models of the type 'bert' for sft"):
        read_starting_model("bert", "sft")
    with pytest.raises(ConfigError, match="needs files with rows"):
        composed("classify")
    with pytest.raises(ConfigError, match="the file has no rows"):
        composed("classify", write_rows("empty.jsonl", []))
    with pytest.raises(ConfigError, match="local files"):
        composed("classify", "https://example.org/train.jsonl")
    with pytest.raises(ConfigError, match="no columns for a conversation in 'a'"):
        composed("sft", write_rows("a.jsonl", [{"a": "b"}]), init="gpt2")
    with pytest.raises(InputError, match="missing column 'label'") as error:
        composed("classify", write_rows("cut.jsonl", [*labelled(3), {"text": "東京"}]))
    assert error.value.where == "cut.jsonl, line 4"


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_a_discriminator_can_be_fine_tuned(task: Task, folder: Path) -> None:
    info = TokenizerInfo(300, 16, bos=0, eos=2, pad=1)
    config = model_config(ModelConfig(preset="electra-tiny"), "rtd", info)
    (folder / "bert" / "config.json").write_text(json.dumps(config))
    assert read_starting_model("bert", task).family == "electra"


def test_the_command_writes_a_recipe_and_names_the_next_ones(folder: Path, jprep: Run) -> None:
    write_rows("train.jsonl", labelled(40))
    given = ["--task", "classify", "--input", "train.jsonl", "--init", "bert"]
    said = jprep("init", "mine.toml", *given, cwd=folder)
    assert "jprep train mine.toml --dry-run" in said.stdout and "mine.toml: bert by torch, for classify" in said.stdout
    assert "jprep evaluate work/mine/runs/torch --data test.jsonl" in Path("mine.toml").read_text(encoding="utf-8")
    assert "the file exists" in jprep("init", "mine.toml", *given, cwd=folder, code=2).stderr
    refused = {
        "--model gpt2-small": "--model has no effect",
        "--segmenter none": "--segmenter has no effect",
        "--name a/b": "it contains a path separator",
        "--train fairseq-xla": "fairseq-xla does not classify",
    }
    for words, message in refused.items():
        assert message in jprep("init", "x.toml", *given, *words.split(), cwd=folder, code=2).stderr
    assert "--init DIR|NAME" in jprep("init", "x.toml", *given[:4], cwd=folder, code=2).stderr
    assert "it is for --task" in jprep("init", "x.toml", "--validation", "a.jsonl", cwd=folder, code=2).stderr
