"""Steps from a user's own file: `use = "./my_steps.py:TooLoud"`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from jprep import Corpus, load_recipe, normalize
from jprep.corpus.config import make_step
from jprep.corpus.document import Document
from jprep.corpus.originals import Original, Originals, Reason, Unavailable
from jprep.corpus.stages.read_plan import ReadPlan
from jprep.errors import ConfigError, InputError, MismatchError
from jprep.plugins import files
from tests.conftest import ROOT, Run

CODE = """
from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jprep.corpus.document import KEEP, Document, Reject, Verdict
from jprep.corpus.step import Filter, Normalizer, Reader, Segmenter, Shard, Signal, Splitter, StepConfig


class TooLoud(Filter):
    class Config(StepConfig, frozen=True):
        most: int = 2

    def judge(self, doc: Document) -> Verdict:
        return Verdict(keep=False, reason="loud") if doc.text.count("！") > self.config.most else KEEP


class Shout(Normalizer):
    name, version = "shout", 3

    def apply(self, text: str) -> str:
        return text.replace("!", "！")


class HalfSentences(Splitter):
    def mark(self, text: str) -> str:
        return text.replace("、", "、\\x1e")


class Loudness(Signal):
    columns = ("loudness",)

    def measure(self, batch):
        return {"loudness": np.array([float(text.count("！")) for text in batch.texts])}


class Letters(Segmenter):
    def segment(self, texts: Sequence[str]) -> list[str]:
        return ["\\x1f".join(text) for text in texts]


class Numbered(Reader):
    ids_are_positions = True

    def shards(self, path: str) -> Iterator[Shard]:
        yield Shard(path, 0)

    def read(self, shard: Shard, source: str) -> Iterator[Document | Reject]:
        with open(shard.path, encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                yield Document(f"{source}:{number}", source, "", "", line.strip())


class length(Filter):
    def judge(self, doc: Document) -> Verdict:
        return KEEP


class Unfinished(Filter):
    pass
"""
TEXTS = ["静かな朝だった、とても。", "起きろ!!!", "行くぞ!"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe, its steps and its input, which is not the current directory."""
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    (home / "my_steps.py").write_text(CODE, encoding="utf-8")
    (home / "in.txt").write_text("\n".join(TEXTS * 3), encoding="utf-8")
    steps = {
        "normalizers": ["./my_steps.py:Shout"],
        "splitter": "./my_steps.py:HalfSentences",
        "filters": [{"use": "my_steps.py:TooLoud", "most": 1}],
        "signals": ["./my_steps.py:Loudness"],
        "segmenter": "{recipe}/my_steps.py:Letters",
    }
    lines = [f"{key} = {toml(value)}" for key, value in steps.items()]
    source = '[[corpus.sources]]\nname = "own"\nreader = "./my_steps.py:Numbered"\npaths = ["{recipe}/in.txt"]\n'
    (home / "r.toml").write_text("\n".join(['name = "own"', "[corpus]", *lines, source]), encoding="utf-8")
    return home


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + " }"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


def build(folder: Path, output: str = "corpus", **options: object) -> Corpus:
    return Corpus.build(load_recipe(folder / "r.toml"), folder / output, **options)


def change(folder: Path, old: str, new: str) -> None:
    path = folder / "my_steps.py"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def test_steps_of_every_kind_are_used_from_a_file_beside_the_recipe(folder: Path) -> None:
    corpus = build(folder)
    assert [doc.text for doc in corpus] == ["静かな朝だった、とても。", "行くぞ！"]
    assert next(iter(corpus)).words == "\x1f".join("静かな朝だった、") + "\x1e" + "\x1f".join("とても。")
    assert [doc.signals for doc in corpus] == [{"loudness": 0.0}, {"loudness": 1.0}]
    assert corpus.manifest.rejects["filter.too_loud/loud"] == 3


def test_the_source_is_in_the_fingerprint_and_the_path_is_not(folder: Path) -> None:
    first = build(folder).manifest
    [described] = first.made_from["documents"]["sources"][0]["filters"]
    assert described["name"] == "too_loud" and described["version"] == 1 and described["config"] == {"most": 1}
    assert described["provenance"].keys() == {"source_file", "class"}
    assert str(folder) not in json.dumps(first.made_from)
    moved = folder.parent / "moved"
    folder.rename(moved)
    (moved / "my_steps.py").rename(moved / "renamed.py")
    (moved / "r.toml").write_text((moved / "r.toml").read_text().replace("my_steps", "renamed"), encoding="utf-8")
    assert build(moved, "again").manifest.fingerprint == first.fingerprint
    change_to_another_class = (moved / "r.toml").read_text().replace("HalfSentences", "Other")
    (moved / "renamed.py").write_text(CODE.replace("HalfSentences", "Other"), encoding="utf-8")
    (moved / "r.toml").write_text(change_to_another_class, encoding="utf-8")
    assert build(moved, "other").manifest.fingerprint != first.fingerprint


def test_a_changed_file_is_refused_by_its_step(folder: Path) -> None:
    build(folder)
    change(folder, "版", "")
    assert len(build(folder)) == 2  # the same bytes
    change(folder, '"！") > ', '"！") >= ')
    with pytest.raises(MismatchError, match="the file that defines the filter too_loud of the source own has changed"):
        build(folder)
    assert len(build(folder, restart=True)) == 1


def test_worker_processes_load_the_file(folder: Path) -> None:
    source = (
        (folder / "r.toml")
        .read_text()
        .replace('"./my_steps.py:Numbered"', '{ use = "text", documents = "line", shard_mb = 0.6 }')
    )
    (folder / "r.toml").write_text(source, encoding="utf-8")
    (folder / "in.txt").write_text(
        "\n".join(f"{text}{n}" for n in range(25_000) for text in TEXTS[::2]), encoding="utf-8"
    )
    one, two = build(folder, "one", workers=1), build(folder, "two", workers=2)
    assert len(one.manifest.parts) > 1
    assert one.manifest.parts == two.manifest.parts


def test_a_file_that_changes_before_a_worker_loads_it_is_refused(folder: Path) -> None:
    recipe = load_recipe(folder / "r.toml")
    plan = ReadPlan(recipe.corpus, [[]], "own", [])
    assert plan.fields
    sent = ReadPlan(recipe.corpus, [[]], "own", [])
    sent.__dict__.update(plan.__getstate__())
    change(folder, "loud", "noisy")
    with pytest.raises(InputError, match="changed during the build"):
        next(iter(sent.steps.all()))


def test_a_word_list_of_a_filter_that_changes_before_a_worker_loads_it_is_refused(folder: Path) -> None:
    words = folder / "noise.txt"
    words.write_text("騒音\n", encoding="utf-8")
    of = f'{{ use = "ng_words", lists = ["{words}"] }}'
    lines = (folder / "r.toml").read_text().split("\n")
    filters = f'filters = [{{ signal = "ng_noise_words", max = 0, of = {of} }}]'
    recipe_lines = [filters if line.startswith("filters") else line for line in lines]
    (folder / "r.toml").write_text("\n".join(recipe_lines), encoding="utf-8")
    recipe = load_recipe(folder / "r.toml")
    plan = ReadPlan(recipe.corpus, [[]], "own", [])
    assert plan.fields
    sent = ReadPlan(recipe.corpus, [[]], "own", [])
    sent.__dict__.update(plan.__getstate__())
    assert sent.steps
    sent.close()
    words.write_text("騒音\n雑音\n", encoding="utf-8")
    with pytest.raises(InputError, match="the step threshold or one of its files changed during the build"):
        sent.steps  # noqa: B018 - each process makes its steps


@pytest.mark.parametrize(
    ("use", "what", "place"),
    [
        ("./none.py:TooLoud", "cannot read the file of the step TooLoud: No such file", "none.py"),
        ("./my_steps.py:TooLod", "my_steps.py has no class 'TooLod'", "my_steps.py"),
        ("./my_steps.py:Shout", "the class Shout is not a filter", "my_steps.py"),
        ("./my_steps.py:KEEP", "the class KEEP is not a filter", "my_steps.py"),
        ("./my_steps.py:Unfinished", "the class Unfinished does not define judge", "my_steps.py"),
        ("./my_steps.py:length", "the class length has the name of the registered filter 'length'", "my_steps.py"),
        ("./my_steps.py", "names no class in a file", ""),
        ("./broken.py:X", "broken.py is not valid Python: invalid syntax", "broken.py, line 2"),
        ("./null.py:X", "null.py is not valid Python", "null.py, line 1"),
        (
            "./absent.py:X",
            "absent.py cannot be imported: ModuleNotFoundError: No module named 'no_such'",
            "absent.py, line 3",
        ),
        ("./raises.py:X", "raises.py cannot be imported: ZeroDivisionError", "raises.py, line 1"),
        ("./exits.py:X", "exits.py cannot be imported: SystemExit: 0", "exits.py, line 2"),
        (
            "./imports.py:X",
            "imports.py cannot be imported: ModuleNotFoundError: No module named 'h",
            "imports.py, line 1",
        ),
    ],
)
def test_a_step_that_cannot_be_loaded(
    use: str, what: str, place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "broken.py").write_text("x = 1\nclass X(:\n")
    (folder / "null.py").write_bytes(b"x = 1\0\n")
    (folder / "absent.py").write_text("\n\nimport no_such\n")
    (folder / "raises.py").write_text("x = 1 / 0\n")
    (folder / "exits.py").write_text("import sys\nsys.exit(0)\n")
    (folder / "imports.py").write_text("import helper\nclass X: pass\n")
    (folder / "helper.py").write_text("")
    monkeypatch.setattr(sys, "path", before := ["", str(folder), *sys.path])
    with pytest.raises(ConfigError) as caught:
        make_step("filter", use)
    assert what in caught.value.what
    assert caught.value.where.endswith(place) or place in str(caught.value)
    assert caught.value.fix
    assert sys.path is before and before[:2] == ["", str(folder)]
    assert not [module for module in list(sys.modules.values()) if getattr(module, "__file__", "") == "exits.py"]


def test_reading_a_recipe_checks_the_file_and_does_not_run_it(folder: Path) -> None:
    change(folder, "class TooLoud", "raise SystemExit(7)\nclass TooLoud")
    load_recipe(folder / "r.toml")
    change(folder, "class TooLoud", "class class TooLoud")
    with pytest.raises(ConfigError, match="not valid Python"):
        load_recipe(folder / "r.toml")
    (folder / "my_steps.py").unlink()
    with pytest.raises(ConfigError, match="cannot read the file of the step"):
        load_recipe(folder / "r.toml")


def test_unknown_options_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match="mots"):
        make_step("filter", {"use": "./my_steps.py:TooLoud", "mots": 3})


def test_steps_in_memory_and_on_the_command_line(folder: Path, monkeypatch: pytest.MonkeyPatch, jprep: Run) -> None:
    monkeypatch.chdir(folder)
    assert normalize("え!", using="./my_steps.py:Shout") == "え！"
    change(folder, '("!", "！")', '("!", "!!")')
    assert normalize("え!", using="./my_steps.py:Shout") == "え!!"
    done = jprep("text", "normalize", "--using", "./my_steps.py:Shout", stdin="え!\n".encode(), cwd=folder)
    assert done.stdout == "え!!\n"
    words = jprep("text", "segment", "--using", "./my_steps.py:Letters", stdin="朝だ\n".encode(), cwd=folder)
    assert words.stdout == "朝 だ\n"


def test_originals_are_traced_while_the_file_is_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def trace() -> Original | Unavailable:
        return Originals(folder / "corpus", [str(folder / "in.txt")]).find(["own:1"])["own:1"]

    build(folder)
    found = trace()
    assert isinstance(found, Original) and found.reject and found.reject.reason == "loud"
    assert found.normalized == (("shout", "起きろ！！！"),)
    monkeypatch.setattr(files, "_paths", {})
    found = trace()
    assert isinstance(found, Unavailable) and found.reason is Reason.STEP_MISSING and "the recipe" in found.fix
    load_recipe(folder / "r.toml")
    assert isinstance(trace(), Original)
    change(folder, "loud", "noisy")
    found = trace()
    assert isinstance(found, Unavailable) and found.reason is Reason.STEP_CHANGED


def test_the_documented_file_works(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    (tmp_path / "my_filters.py").write_text(page.split('title="my_filters.py"\n')[1].split("```")[0], encoding="utf-8")
    step = make_step("filter", {"use": f"{tmp_path}/my_filters.py:TooLoud", "most": 3})
    assert [step.judge(Document("", "", "", "", "！" * count)).keep for count in (3, 4)] == [True, False]


def test_a_threshold_takes_a_signal_from_a_file(folder: Path) -> None:
    filters = '[{ signal = "loudness", max = 0.5, of = "./my_steps.py:Loudness" }]'
    lines = (folder / "r.toml").read_text().split("\n")
    lines = [f"filters = {filters}" if line.startswith("filters") else line for line in lines]
    (folder / "r.toml").write_text("\n".join(line for line in lines if not line.startswith("signals")))
    assert [doc.text for doc in build(folder)] == ["静かな朝だった、とても。"]
    change(folder, "float(text", "1 - float(text")
    with pytest.raises(MismatchError, match="the file that defines"):
        build(folder)
