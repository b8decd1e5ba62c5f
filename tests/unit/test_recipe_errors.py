"""Invalid recipes: the error names the key, its location and the nearest valid name."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.config import apply_overrides
from jprep.corpus.config import default_recipe, make_step, step_name
from jprep.errors import ConfigError
from jprep.io.safe_names import name_problem
from jprep.pipeline.output_paths import output_paths
from jprep.pipeline.recipe import decode_recipe, load_recipe

SOURCE = {"name": "a", "paths": ["x"], "reader": "text"}
SET = {"name": "quiz", "paths": ["quiz.jsonl"], "fields": ["question"]}


def raw(**corpus: Any) -> dict[str, Any]:
    return {"name": "r", "corpus": {"sources": [dict(SOURCE)]} | corpus}


WRONG = {
    "unknown key": ({"name": "r", "corpuss": {}}, "corpuss", "did you mean 'corpus'?"),
    "unknown key below": (raw(spliter="x"), "spliter", "did you mean 'splitter'?"),
    "unknown key of a source": (raw(sources=[SOURCE | {"filter": []}]), "filter", "did you mean 'filters'?"),
    "missing key": ({"corpus": {}}, "name", ""),
    "missing key of a source": (raw(sources=[{"name": "a"}]), "`corpus.sources[", ""),
    "wrong type": (raw(dedup={"lines": 3}), "corpus.dedup.lines", ""),
    "two of a name": (raw(sources=[SOURCE, SOURCE]), "two sources are called 'a'", "its own name"),
    "a source that is a path": (raw(sources=[SOURCE | {"name": "a/b"}]), "cannot be called 'a/b'", "letters"),
    "a source with a space": (raw(sources=[SOURCE | {"name": "a b"}]), "cannot be called 'a b'", "letters"),
    "a hidden source": (raw(sources=[SOURCE | {"name": ".."}]), "`corpus.sources.0.name`", "letters"),
    "a test set with a space": (raw(decontaminate=[SET | {"name": "a b"}]), "cannot be called 'a b'", "letters"),
    "a test set of a pattern": (raw(decontaminate=[SET | {"name": "a*"}]), "`corpus.decontaminate.0.name`", "letters"),
    "two test sets of a name": (raw(decontaminate=[SET, SET]), "two test sets are called 'quiz'", "its own name"),
}


@pytest.mark.parametrize(("recipe", "what", "fix"), WRONG.values(), ids=WRONG)
def test_a_wrong_recipe(recipe: dict[str, Any], what: str, fix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decode_recipe(recipe, where="r.toml")
    assert what in caught.value.what and fix in caught.value.fix and caught.value.where == "r.toml"


NO_NAMES = {
    "": "empty", " ": "empty", "../../x": "path separator", "/srv/x": "path separator", "a\\b": "path separator",
    "..": "begins with a dot", ".hidden": "begins with a dot", "a\nb": "printed", "a\x1b[31m": "printed",
    "a\0": "printed", "\u202eb": "printed", "a ": "space", "日" * 51: "153 bytes",
}  # fmt: skip


@pytest.mark.parametrize(("name", "problem"), NO_NAMES.items())
def test_a_name_that_cannot_name_a_folder_is_refused(name: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decode_recipe({"name": name}, where="r.toml")
    assert "(key `name`)" in caught.value.what and problem in caught.value.what
    assert repr(name) in caught.value.what and caught.value.where == "r.toml"
    with pytest.raises(ConfigError, match=problem):
        output_paths(Path("work"), name)


@pytest.mark.parametrize("name", ["jawiki", "日本語コーパス", "a b", "v1.2-tiny", "日" * 50])
def test_a_name_that_is_a_folder_s(name: str) -> None:
    assert decode_recipe({"name": name}).name == name
    assert output_paths(Path("work"), name).corpus == Path("work") / name / "corpus"


@given(st.text(max_size=200))
def test_a_valid_name_stays_in_the_work_folder(name: str) -> None:
    if not name_problem(name):
        assert os.path.normpath(f"/srv/{name}") == f"/srv/{name}" and len(os.fsencode(name)) <= 150


@pytest.mark.parametrize(
    ("encoding", "named"), [("cp932", "cp932"), ("euc_jp", "euc-jp"), ("utf-16", "utf-16"), ("latin-1", "cp932")]
)
def test_a_recipe_that_is_not_utf8_names_the_command_that_converts_it(
    encoding: str, named: str, tmp_path: Path
) -> None:
    text = "name = 'é'" if encoding == "latin-1" else "name = 'r'\ndescription = '日本語のコーパス'\n"
    (tmp_path / "a b.toml").write_bytes(text.encode(encoding))
    with pytest.raises(ConfigError, match="the recipe: it is not UTF-8") as caught:
        load_recipe(tmp_path / "a b.toml")
    command = caught.value.fix.removeprefix("convert it: ")
    assert command.startswith(f"iconv -f {named} -t utf-8 ")
    if encoding != "latin-1":
        subprocess.run(command, shell=True, check=True)
        assert load_recipe(tmp_path / "a b.utf-8.toml").name == "r"


@pytest.mark.parametrize(
    ("name", "option"),
    [("a.jsonl", "--jsonl"), ("a.csv.gz", "--csv"), ("a.txt", "--text"), ("jawiki.xml.bz2", "--wikipedia")],
)
def test_inputs_in_place_of_a_recipe_name_their_option(name: str, option: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes("吾輩は猫である。\n".encode())
    with pytest.raises(ConfigError, match=r"expected a recipe, a \.toml file") as caught:
        load_recipe(tmp_path / name)
    assert f"jprep corpus build {option} {tmp_path / name}\n" in caught.value.fix


@pytest.mark.parametrize("data", [b"name = ", b"\xff\xfe", b"name = 'a'\nname = 'b'"])
def test_a_file_that_is_not_toml_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="cannot read the recipe") as caught:
        load_recipe(path)
    assert caught.value.where == str(path)
    with pytest.raises(ConfigError, match="got a directory"):
        load_recipe(tmp_path)
    with pytest.raises(ConfigError, match="no such recipe"):
        load_recipe(tmp_path / "other.toml")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("corpus.sources.1.name=x", "there is no '1'"),
        ("corpus.sources.one.name=x", "there is no 'one'"),
        ("corpus.sources.1=x", "there is no '1'"),
        ("corpus.segmenter.mode=C", "corpus.segmenter is not a table"),
        ("corpus", "KEY=VALUE"),
        ("=x", "KEY=VALUE"),
    ],
)
def test_a_setting_without_a_place(setting: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        apply_overrides(raw(segmenter="sudachi"), [setting])


def test_a_setting_below_a_plain_value() -> None:
    with pytest.raises(ConfigError, match=r"corpus\.dedup\.documents is not a table"):
        apply_overrides(raw(dedup={"documents": True}), ["corpus.dedup.documents.x=1"])


@pytest.mark.parametrize(
    ("setting", "fix"),
    [
        ("corpus.segmenter.mode=C", """--set 'corpus.segmenter={ use = "sudachi", mode = "C" }'"""),
        ("corpus.normalizers.0.x=1", """--set 'corpus.normalizers.0={ use = "neologdn", x = 1 }'"""),
        ("executor.time=1:00", """--set 'executor={ use = "slurm", time = "1:00" }'"""),
        ("corpus.filters.0.of.x=1", """--set 'corpus.filters.0.of={ use = "quality", x = 1 }'"""),
        ("train.class_weights.spam=2.5", "--set 'train.class_weights={ spam = 2.5 }'"),
        ("train.class_weights.ニュース=2", """--set 'train.class_weights={ "ニュース" = 2 }'"""),
        ("train.class_weights.it's=2", """--set 'train.class_weights={ "it'"'"'s" = 2 }'"""),
    ],
)
def test_the_fix_of_a_setting_below_a_name_works(setting: str, fix: str) -> None:
    given = raw(segmenter="sudachi", normalizers=["neologdn"], filters=[{"signal": "s", "of": "quality"}])
    given |= {"train": {"class_weights": "balanced"}, "executor": "slurm"}
    with pytest.raises(ConfigError) as caught:
        apply_overrides(given, [setting])
    assert caught.value.fix == fix
    key, value = shlex.split(fix)[1].split("=", 1)
    apply_overrides(given, [f"{key}={value}"])
    assert isinstance(tomllib.loads(f"v = {value}")["v"], dict)


plain = st.sampled_from(["plain", "with space", "a=b"])


@given(st.booleans() | st.integers(-9, 9) | st.lists(st.integers(0, 9)) | plain)
def test_settings_hold_toml_values(value: Any) -> None:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    assert apply_overrides({}, [f"a.b.c={text}"]) == {"a": {"b": {"c": value}}}
    assert apply_overrides({"a": [{"b": 0}]}, [f"a.0.b={text}"]) == {"a": [{"b": value}]}
    assert apply_overrides({"a": [0, 1]}, [f"a.1={text}"]) == {"a": [0, value]}


def test_steps_are_checked_with_their_options() -> None:
    with pytest.raises(ConfigError, match="a step's table needs `use`"):
        step_name({"name": "length"})
    with pytest.raises(ConfigError) as caught:
        make_step("filter", {"use": "length", "min_char": 3})
    assert caught.value.where == "filter 'length'" and "min_chars" in caught.value.fix
    with pytest.raises(ConfigError, match="min_chars"):
        make_step("filter", {"use": "length", "min_chars": "many"})
    assert make_step("filter", {"use": "length", "min_chars": 3}).config.min_chars == 3


def test_the_default_recipe_has_the_given_inputs() -> None:
    recipe = default_recipe({"wikipedia": ["a.xml"], "cc100": (), "text": ["*.txt"]}, "none")
    assert [source.name for source in recipe.corpus.sources] == ["wikipedia", "text"]
    assert recipe.corpus.segmenter == "none"
    assert decode_recipe({"name": "r", "corpus": {}}).corpus.dedup.documents


def test_paths_relative_to_the_recipe_work_in_any_directory(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    source = '[[corpus.sources]]\nname = "a"\nreader = "text"\npaths = ["{recipe}/a.txt", "b.txt"]\n'
    head = '[train]\ntask = "regress"\nmodel = { preset = "bert-tiny" }\nsteps = 1\n'
    section = f'{head}data = ["{{recipe}}/c.jsonl"]\nlabelled = {{ text = "{{recipe}}" }}\n'
    path.write_text('name = "r"\n' + source + section)
    recipe = load_recipe(path)
    assert recipe.corpus.sources[0].paths == [str(tmp_path / "a.txt"), "b.txt"]
    assert recipe.train and recipe.train.data == [str(tmp_path / "c.jsonl")]
    assert recipe.train.labelled.text == "{recipe}"
    changed = load_recipe(path, ['train.data=["mine.jsonl"]'])
    assert changed.train and changed.train.data == ["mine.jsonl"]


def test_a_recipe_of_another_version_is_refused() -> None:
    for version in (3, 0, "1", 1.5, [1]):
        message = rf"recipes of version 1 to 2, got version {re.escape(repr(version))}"
        with pytest.raises(ConfigError, match=message) as caught:
            decode_recipe({"name": "r", "version": version, "a key of later versions": 1}, where="r.toml")
        assert caught.value.where == "r.toml" and "version = 2" in caught.value.fix


def test_a_recipe_keeps_the_defaults_of_its_version() -> None:
    plain: dict[str, Any] = {"name": "r", "corpus": {"splitter": "none"}}
    old, new = decode_recipe(plain), decode_recipe(plain | {"version": 2})
    assert old == decode_recipe(plain | {"version": 1})
    assert (old.corpus.segmenter, new.corpus.segmenter) == ("jumandic", "pointwise")
    for recipe in (old, new, decode_recipe({"name": "r"}), decode_recipe({"name": "r", "version": 2})):
        assert decode_recipe(msgspec.to_builtins(recipe)) == recipe
    named = {"corpus": {"segmenter": "none"}}
    assert decode_recipe(plain | named).corpus == decode_recipe(plain | named | {"version": 2}).corpus
    assert decode_recipe(plain, {"corpus.segmenter": "spaces"}).corpus.segmenter == "spaces"
    with pytest.raises(ConfigError, match="expected a table, got text"):
        decode_recipe({"name": "r", "corpus": "none"})


TYPES = {
    "train.optimizer=muon": ("expected a table, got text - at `optimizer`", 'train.optimizer.kind = "muon"'),
    "train.model=gpt2-small": ("expected a table, got text - at `model`", 'train.model.preset = "gpt2-small"'),
    "train.backend=torch": ("expected a table, got text - at `backend`", "train.backend.torch = {}"),
    "train.trackers=wandb": ("expected a list, got text - at `trackers`", 'train.trackers = ["wandb"]'),
    "train.next_sentence=True": ("expected true or false, got text", "train.next_sentence = true"),
    "train.optimizer.lr='3e-4'": ("expected a number, got text - at `optimizer.lr`", "train.optimizer.lr = 0.0003"),
    "corpus.sources.0.paths=x": ("expected a list, got text - at `corpus.sources[0].paths`", 'paths = ["x"]'),
    "corpus.sources={name='a', paths=['x'], reader='text'}": ("expected a list, got a table", "[[corpus.sources]]"),
    "name=3": ("expected text, got a whole number - at `name`", 'name = "3"'),
    "train.lr=3": ("unknown field `lr`", "did you mean 'train.optimizer.lr'?"),
    "corpus.near={}": ("unknown field `near` - at `corpus`", "did you mean 'corpus.dedup.near'?"),
    "segmenter=none": ("unknown field `segmenter`", "did you mean 'corpus.segmenter'?"),
}


@pytest.mark.parametrize(("setting", "says"), TYPES.items())
def test_a_value_of_the_wrong_type_is_explained_in_the_words_of_toml_and_corrected(
    setting: str, says: tuple[str, str]
) -> None:
    plain = raw() | {"train": {"task": "clm"}}
    with pytest.raises(ConfigError) as caught:
        decode_recipe(plain, [setting])
    assert caught.value.what.startswith(says[0]) and caught.value.fix == says[1]
    if says[1].startswith(("train.", "name")):
        decode_recipe(raw() | {"train": {"task": "clm"}}, ["=".join(says[1].split(" = "))])


@pytest.mark.parametrize("setting", ["corpus.segmenter=3", "train.validation=0.1", "train.stages=[3]", "train=3"])
def test_a_value_of_the_wrong_type_without_a_likely_meaning_names_what_may_be_there(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"got a (whole )?number") as caught:
        decode_recipe(raw(), [setting])
    assert "docs/recipes.md" in caught.value.fix or "the keys of this table are: " in caught.value.fix


def test_settings_may_be_a_mapping() -> None:
    recipe = decode_recipe({"name": "r"}, {"train.steps": 3, "corpus.segmenter": "none", "tokenizer.special": ["bert"]})
    assert recipe.train and recipe.train.steps == 3 and recipe.corpus.segmenter == "none"
    assert recipe.tokenizer and recipe.tokenizer.special == ["bert"]


def test_an_empty_section_is_none() -> None:
    assert decode_recipe({"name": "r", "tokenizer": {}, "dataset": {}, "train": {}}) == decode_recipe({"name": "r"})
