"""Starter recipes: every combination of answers gives a recipe that loads, and what is written suits the answers."""

from __future__ import annotations

import bz2
import itertools
import json
import logging
import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jprep import samples
from jprep.cli.pipeline import starter_names
from jprep.errors import ConfigError
from jprep.pipeline.recipe import Recipe, load_recipe
from jprep.pipeline.run import plan_run
from jprep.pipeline.starter import choices
from jprep.pipeline.starter.choices import Answers, BackendName, SourceKind
from jprep.pipeline.starter.inputs import HUB, hub_pattern, local_inputs
from jprep.pipeline.starter.starter_recipe import compose_recipe, refuse_existing, write_recipe
from jprep.pipeline.starter.toml_lines import Key, table
from jprep.train.models.presets import PRESETS

COMBINATIONS = list(itertools.product(choices.SOURCES, choices.BACKENDS))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "novels.txt"
    path.write_bytes(samples.crawl_bytes())
    return path


def written(answers: Answers, folder: Path) -> Recipe:
    path = folder / "recipe.toml"
    write_recipe(compose_recipe(answers, path), path, force=True)
    return load_recipe(path)


def answers_for(source: SourceKind, text: Path, **more: object) -> Answers:
    return Answers(name="mine", source=source, inputs=(str(text),) if source == "text" else (), **more)


def test_the_command_accepts_the_same_names() -> None:
    assert tuple(choices.SOURCES) == starter_names.SOURCES
    assert tuple(choices.BACKENDS) == starter_names.BACKENDS
    assert tuple(choices.TOKENIZERS) == starter_names.TOKENIZERS
    assert tuple(PRESETS) == starter_names.MODELS


@pytest.mark.parametrize(("source", "backend"), COMBINATIONS)
def test_every_combination_loads_without_a_warning(
    source: SourceKind, backend: BackendName, text: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for model, segmenter in itertools.product(choices.models_for(backend), ("pointwise", "none")):
        for tokenizer in choices.TOKENIZERS:
            chosen = answers_for(source, text, backend=backend, model=model, tokenizer=tokenizer, segmenter=segmenter)
            with caplog.at_level(logging.WARNING):
                recipe = written(chosen, tmp_path)
            assert recipe.train and recipe.train.model.preset == model
            assert list(recipe.train.backend) == [backend]
            assert recipe.tokenizer and recipe.tokenizer.model == tokenizer
    assert caplog.messages == []


@pytest.mark.parametrize(("source", "backend"), COMBINATIONS)
def test_every_combination_is_planned_at_both_scales(
    source: SourceKind, backend: BackendName, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "recipe.toml"
    model = choices.BACKENDS[backend].model
    chosen = answers_for(source, text, backend=backend, model=model, tokenizer=choices.usual_tokenizer(model))
    write_recipe(compose_recipe(chosen, path), path)
    for scale in (None, "tiny"):
        plan = plan_run(path, scale=scale)
        assert plan.backend == backend
        assert plan.steps == ["corpus", "tokenizer", "dataset", "train", "export"]


def test_each_key_has_a_comment(text: Path) -> None:
    for source in choices.SOURCES:
        lines = compose_recipe(answers_for(source, text), Path("r.toml")).splitlines()
        for above, line in itertools.pairwise(lines):
            if line and not line.startswith(("#", "[")):
                assert " # " in line or above.startswith("# "), line
            assert len(line) <= 120


def test_models_that_a_backend_cannot_train_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"keras does not train electra-small") as refused:
        compose_recipe(Answers(name="x", backend="keras", model="electra-small"), Path("x.toml"))
    assert "bert-base" in refused.value.fix and "electra" not in refused.value.fix
    with pytest.raises(ConfigError, match="no model 'gpt5'"):
        choices.check_model("torch", "gpt5")


def test_without_a_segmenter_nothing_needs_words(text: Path, tmp_path: Path) -> None:
    recipe = written(answers_for("text", text, model="bert-base", segmenter="none"), tmp_path)
    assert recipe.tokenizer and recipe.tokenizer.boundaries == "none"
    assert recipe.train and not recipe.train.masking.whole_word


def test_modernbert_has_its_published_masking(text: Path, tmp_path: Path) -> None:
    rates = {}
    for model in ("bert-base", "modernbert-base", "modernbert-tiny"):
        recipe = written(answers_for("text", text, model=model), tmp_path)
        assert recipe.train
        rates[model] = recipe.train.masking.rate
    assert rates == {"bert-base": 0.15, "modernbert-base": 0.3, "modernbert-tiny": 0.3}


@pytest.mark.parametrize(
    ("model", "size"), [("gpt2-tiny", "one of jprep's small sizes"), ("gpt2-small", "a published size")]
)
def test_only_published_sizes_are_called_so(model: str, size: str, text: Path) -> None:
    [line] = [each for each in compose_recipe(answers_for("text", text, model=model), Path("r.toml")).splitlines()
              if each.startswith("model = { preset")]  # fmt: skip
    assert f"# {size};" in line


def test_values_suit_the_size_of_the_text(text: Path, tmp_path: Path) -> None:
    small, large = (written(answers_for(source, text), tmp_path) for source in ("text", "cc100"))
    assert small.tokenizer and large.tokenizer and small.train and large.train
    assert small.tokenizer.vocab_size < 2_000 and large.tokenizer.vocab_size == 32_000
    assert small.train.batch < large.train.batch and small.train.steps < large.train.steps


@pytest.mark.parametrize("source", ["wikipedia", "cc100"])
@pytest.mark.parametrize("pack", [bytes, bz2.compress])
def test_local_files_of_published_corpora_are_sized(
    source: SourceKind, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    content = bz2.decompress(samples.dump_bytes()) if source == "wikipedia" else samples.crawl_bytes()
    (tmp_path / "part").write_bytes(pack(content))
    small = written(Answers(name="mine", source=source, inputs=(str(tmp_path / "part"),)), tmp_path)
    assert small.tokenizer and small.train and small.dataset and isinstance(small.dataset.validation, float)
    assert small.tokenizer.vocab_size < 4_000
    assert (small.train.batch, small.train.steps) == (32, 200)
    assert small.dataset.validation > 0.005
    assert small.corpus.sources[0].paths == [str(tmp_path / "part")]


@pytest.mark.parametrize("source", ["wikipedia", "cc100"])
def test_inputs_of_unknown_size_and_huge_ones_count_as_the_whole_corpus(source: SourceKind, tmp_path: Path) -> None:
    with (tmp_path / "all").open("wb") as file:
        file.truncate(10**12)
    os.mkfifo(tmp_path / "pipe")
    whole = written(Answers(name="mine", source=source), tmp_path)
    for given in ("https://example.org/a.bz2", "later.bz2", "-", str(tmp_path / "pipe"), str(tmp_path / "all")):
        assert written(Answers(name="mine", source=source, inputs=(given,)), tmp_path).train == whole.train


def test_the_comment_tells_how_often_the_text_is_read(text: Path) -> None:
    lines = compose_recipe(answers_for("text", text), Path("r.toml")).splitlines()
    line = next(line for line in lines if line.startswith("steps"))
    steps, passes = int(line.split()[2]), int(line.partition("about ")[2].split()[0].replace(",", ""))
    assert passes == round(steps * 32 * 1024 * 6 / text.stat().st_size) > 3


@pytest.mark.parametrize(
    "name", ['it\'s "quoted".txt', "a\\b.txt", "tab\there.txt", "\x1b[31m\u202etxt.txt", "空 白.txt"]
)
def test_hostile_file_names_come_back_from_the_recipe(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("吾輩は猫である。\n名前はまだ無い。\n", encoding="utf-8")
    answers = Answers(name="x", source="text", inputs=(str(path),))
    composed = compose_recipe(answers, tmp_path / "r.toml")
    assert tomllib.loads(composed)["corpus"]["sources"][0]["paths"] == [str(path)]
    assert "\x1b" not in composed and "\u202e" not in composed


def test_the_head_of_a_recipe_cannot_be_broken_by_its_file_name(tmp_path: Path) -> None:
    file = tmp_path / "a\nname = 'b'.toml"
    assert tomllib.loads(compose_recipe(Answers(name="x"), file))["name"] == "x"


@pytest.mark.parametrize(
    ("content", "documents", "count"),
    [("一。\n二。\n三。\n", "line", 3), ("一。\n一。\n\n二。\n", "blank_line", 2)],
)
def test_documents_of_a_text_file(content: str, documents: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(content, encoding="utf-8")
    found = local_inputs([str(tmp_path / "t.txt")])
    assert found.reader == {"use": "text", "documents": documents}
    assert found.documents == count


def test_many_text_files_are_documents_and_a_directory_stands_for_its_files(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number}.txt").write_text("一。\n二。\n", encoding="utf-8")
    found = local_inputs([str(tmp_path)])
    assert (found.reader, found.documents) == ({"use": "text", "documents": "file"}, 30)
    assert found.paths == (f"{tmp_path}/**/*.txt",)


def test_fields_of_records_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": 1, "content": "本文"}) + "\n", encoding="utf-8")
    (tmp_path / "a.csv").write_text("id,本文\n1,吾輩\n", encoding="utf-8")
    (tmp_path / "a.tsv").write_text("id\ttext\n1\t吾輩\n", encoding="utf-8")
    pq.write_table(pa.table({"article": ["吾輩"], "n": [1]}), tmp_path / "a.parquet")
    for end, field in (("jsonl", "content"), ("csv", "本文"), ("tsv", "text"), ("parquet", "article")):
        assert local_inputs([str(tmp_path / f"a.{end}")]).reader == {"use": end, "text": field}
    with pytest.raises(ConfigError, match="several formats: csv, jsonl"):
        local_inputs([str(tmp_path / "a.jsonl"), str(tmp_path / "a.csv")])
    with pytest.raises(ConfigError, match="no field 'body'") as refused:
        local_inputs([str(tmp_path / "a.jsonl")], "body")
    assert "'content'" in refused.value.fix


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"[1, 2]\n", b'{"text"'])
@pytest.mark.parametrize("end", ["jsonl", "parquet", "csv"])
def test_damaged_records_are_errors(content: bytes, end: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{end}"
    path.write_bytes(content)
    with pytest.raises(ConfigError):
        local_inputs([str(path)])


def test_the_field_of_a_record_of_several_megabytes_is_found(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"content": "a" * 3_000_000}) + "\n", encoding="utf-8")
    assert local_inputs([str(path)]).reader == {"use": "jsonl", "text": "content"}


def test_a_header_that_is_no_header_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    for length in (2_000, 200_000):  # the second is beyond the limit of Python's csv, unless another step has raised it
        path.write_text("a" * length + "\n", encoding="utf-8")
        with pytest.raises(ConfigError, match="no names of columns"):
            local_inputs([str(path)])


def test_a_name_that_cannot_be_one_is_refused_by_its_option(tmp_path: Path) -> None:
    """Before a recipe is composed: the error would name a temporary file, and a line break would end a comment."""
    for name in ("a\x1b[31m", "x\ny = 1", "..", ""):
        with pytest.raises(ConfigError, match="cannot be called") as caught:
            compose_recipe(Answers(name=name), tmp_path / "recipe.toml")
        assert caught.value.where == "--name"


def test_names_on_the_hub() -> None:
    assert hub_pattern("org/name") == f"{HUB}org/name/**/*.parquet"
    assert hub_pattern(f"{HUB}org/name/data/train-*.parquet") == f"{HUB}org/name/data/train-*.parquet"
    for wrong in ("name", "", "https://example.org/a/b", "a//b"):
        with pytest.raises(ConfigError, match="no dataset"):
            hub_pattern(wrong)


def test_files_are_not_overwritten_without_force(tmp_path: Path) -> None:
    path, link = tmp_path / "r.toml", tmp_path / "link.toml"
    path.write_text("mine", encoding="utf-8")
    link.symlink_to("nowhere.toml")
    for existing in (path, link):
        with pytest.raises(ConfigError, match="the file exists"):
            refuse_existing(existing, force=False)
        with pytest.raises(ConfigError, match="the file exists"):
            write_recipe("name = 'x'", existing)
    assert path.read_text(encoding="utf-8") == "mine"
    write_recipe("name = 'x'", path, force=True)
    assert path.read_text(encoding="utf-8") == "name = 'x'"
    with pytest.raises(ConfigError, match=r"ends in \.toml"):
        refuse_existing(tmp_path / "r.txt", force=True)
    with pytest.raises(ConfigError, match="got a directory"):
        (tmp_path / "d.toml").mkdir()
        refuse_existing(tmp_path / "d.toml", force=True)


def test_keys_of_a_table() -> None:
    value = {"a": 'x"\\\n\x7f\u2028', "キー": [1, 2.5, True], "c": {"use": "length"}}
    assert tomllib.loads(table("[t]", [Key(name, each, "why") for name, each in value.items()]))["t"] == value
