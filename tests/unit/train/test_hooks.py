"""Hooks: references in recipes, files, loading, metrics, and what a run records of them."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import ConfigError, MismatchError
from jprep.pipeline.recipe import load_recipe
from jprep.train.exporting.custom_head import has_custom_head
from jprep.train.hooks.calls import ArrayType, check_head_outputs, loss_and_count
from jprep.train.hooks.check import Labels, check_traced_loss
from jprep.train.hooks.config import HooksConfig, JobHooks, job_hooks
from jprep.train.hooks.loading import Hook, load_hooks, load_run_hooks
from jprep.train.hooks.metrics import hook_metrics
from jprep.train.hooks.references import parse_reference
from jprep.train.hooks.sources import read_hook_sources
from jprep.train.job.config import Job, TrainConfig
from jprep.train.launcher import launch
from jprep.train.launcher.launch import PreparedRun, RunInputs, create_run, prepare_run
from jprep.train.run.directory import read_job
from jprep.train.worker.metrics import Metrics
from tests.fakes.numpy_backend import Numpy
from tests.fakes.small_work import small_work

ROOT = Path(__file__).parents[3]
SECTION = {"task": "mlm", "model": {"preset": "roberta-tiny"}, "batch": 8, "length": 16, "steps": 3}
CHECK = "tests.fakes.hooks_check"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def folder_with(tmp_path: Path, text: str) -> Path:
    (tmp_path / "losses.py").write_text(text)
    return tmp_path


@pytest.mark.parametrize("text", ["focal_loss", "losses:", ":focal", "losses:a b", "my losses:f", "../x:f", "a..b:f"])
def test_a_reference_has_a_module_and_a_name(text: str):
    with pytest.raises(ConfigError, match="does not name a hook") as error:
        parse_reference(text, "train.hooks.loss")
    assert error.value.where == "train.hooks.loss"


def test_a_module_beside_the_recipe_is_a_file(tmp_path: Path):
    folder_with(tmp_path, "def loss(): ...")
    (tmp_path / "one.toml").write_text(
        'name = "one"\n[train]\nsteps = 1\nmodel.preset = "gpt2-tiny"\n[train.hooks]\nloss = "losses:loss"\n'
        'metrics = ["losses.py:one", "scipy.stats:two"]\n'
    )
    train = load_recipe(tmp_path / "one.toml").train
    assert train and train.hooks == HooksConfig(
        loss=f"{tmp_path}/losses.py:loss", metrics=[f"{tmp_path}/losses.py:one", "scipy.stats:two"]
    )


def test_files_are_read_once_and_named_without_their_folder(tmp_path: Path):
    path = folder_with(tmp_path, "x = 1\n") / "losses.py"
    found = read_hook_sources(HooksConfig(loss=f"{path}:a", metrics=[f"{path}:b", "pkg.mod:c"]))
    assert found.files == {"losses.py": b"x = 1\n"}
    files = {"losses.py": sha256("x = 1\n")}
    assert found.hooks == JobHooks(loss="losses.py:a", metrics=["losses.py:b", "pkg.mod:c"], files=files)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_hook_sources(HooksConfig(loss=f"{tmp_path}/none.py:a"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "losses.py").write_text("")
    with pytest.raises(ConfigError, match="files of the same name"):
        read_hook_sources(HooksConfig(loss=f"{path}:a", metrics=[f"{tmp_path}/other/losses.py:b"]))


def test_a_copied_file_hides_no_installed_module(tmp_path: Path):
    (tmp_path / "json.py").write_text("def loss(*given):\n    return __name__, given\n")
    loaded = load_hooks(tmp_path, JobHooks(loss="json.py:loss", metrics=["json:dumps"]))
    assert loaded.loss and loaded.loss(1, 2) == ("jprep_hooks.json", (1, 2))
    assert loaded.metrics[0]([1]) == "[1]" and loaded.head is None
    assert sys.modules["json"].__name__ == "json"


@pytest.mark.parametrize(
    ("text", "reference", "message", "where"),
    [
        ("import no_such_module", "losses.py:f", "ModuleNotFoundError: No module named 'no_such_module'", "line 1"),
        ("x = (", "losses.py:f", "SyntaxError", "losses.py, line 1"),
        ("def loss(): ...", "losses.py:lost", "no function or class 'lost'", "train.hooks.loss"),
        ("lost = 1", "losses.py:lost", "no function or class 'lost'", "train.hooks.loss"),
        ("", "no_such_module:f", "no file no_such_module.py beside the recipe", "train.hooks.loss"),
        ("", "no_such.module:f", "No module named 'no_such'", ""),
    ],
)
def test_what_cannot_be_imported_is_named(tmp_path: Path, text: str, reference: str, message: str, where: str):
    with pytest.raises(ConfigError, match=message) as error:
        load_hooks(folder_with(tmp_path, text), JobHooks(loss=reference))
    assert where in error.value.where and error.value.fix


def test_a_changed_copy_is_not_executed(tmp_path: Path):
    folder_with(tmp_path, "raise SystemExit('executed')")
    with pytest.raises(MismatchError, match=r"the hook losses\.py is not what the run began with"):
        load_hooks(tmp_path, JobHooks(loss="losses.py:f", files={"losses.py": sha256("before")}))


def test_exceptions_name_hook_and_line(tmp_path: Path):
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    folder_with(hooks, "def loss(logits):\n    return logits.shape\n")
    loaded = load_hooks(hooks, JobHooks(loss="losses.py:loss"))
    assert loaded.loss
    with pytest.raises(ConfigError, match=r"the hook losses\.py:loss raised AttributeError: .*'shape'") as error:
        loaded.loss(3)
    assert error.value.where == f"{hooks}/losses.py, line 2"


def metric(function: Any, name: str = "own") -> Hook:
    return Hook("train.hooks.metrics[0]", f"m.py:{name}", function)


PREDICTIONS, LABELS = np.array([[0.5, 2.0], [3.0, 1.0]], np.float32), np.array([1, 1])


def test_metrics_are_numbers_or_mappings_of_them():
    hooks = [
        metric(lambda p, y: (p.argmax(-1) == y).mean(), "hits"),
        metric(lambda p, y: {"rows": len(y), "undefined": np.float32("nan"), "zero_dim": np.array(2.5)}),
    ]
    figures = hook_metrics(hooks, PREDICTIONS, LABELS)
    assert figures.pop("metrics/undefined") != 0
    assert figures == {"metrics/hits": 0.5, "metrics/rows": 2.0, "metrics/zero_dim": 2.5}


def test_a_metric_cannot_change_the_arrays_of_another():
    def change(predictions: Any, labels: Any) -> float:
        predictions[:] = labels[:] = 0
        return 1.0

    figures = hook_metrics([metric(change, "a"), metric(lambda p, y: p.sum() + y.sum(), "b")], PREDICTIONS, LABELS)
    assert figures == {"metrics/a": 1.0, "metrics/b": 8.5}


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned NoneType for 'own'"),
        (np.ones(3), "returned ndarray for 'own'"),
        (True, "returned bool for 'own'"),
        ({"a": "x"}, "returned str for 'a'"),
        ({1: 1.0}, "the name 1"),
        ({"a\x1b[0m": 1.0}, "the name"),
    ],
)
def test_other_results_of_a_metric_are_refused(returned: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        hook_metrics([metric(lambda p, y: returned)], PREDICTIONS, LABELS)


ARRAYS = ArrayType("an array", lambda value: isinstance(value, np.ndarray), ".sum()", "len(labels)")


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros(()), r"returned an array of shape \(\): return \(sum of the losses, number of labels\)"),
        ((1, 2, 3), "returned 3 values: return"),
        (
            (np.zeros(2), 1),
            r"returned an array of shape \(2,\) as its loss: return a sum, an array without",
        ),
        ((1.0, 1), "returned float as its loss"),
    ],
)
def test_other_results_of_a_loss_are_refused(returned: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        loss_and_count(metric(lambda: None), returned, ARRAYS)


@pytest.mark.parametrize("shape", [(2,), (3, 3), (2, 1), (2, 3, 1), ()])
def test_other_outputs_of_a_head_are_refused(shape: tuple[int, ...]):
    check_head_outputs(metric(lambda: None), np.zeros((2, 3)), (2, 3), ARRAYS)
    check_head_outputs(metric(lambda: None), np.zeros((2, 3)), (None, 3), ARRAYS)
    with pytest.raises(ConfigError, match=r"return \(rows, labels\), here \(2, 3\)"):
        check_head_outputs(metric(lambda: None), np.zeros(shape), (2, 3), ARRAYS)


@pytest.mark.parametrize(
    ("factor", "masked", "message"),
    [(1.0, False, "leaves out"), (0.0, True, "does not depend on the logits"), (np.inf, True, "for finite logits")],
)
def test_other_values_of_a_traced_loss_are_refused(factor: float, masked: bool, message: str):
    def loss(logits: Any, labels: Any, mask: Any) -> tuple[Any, Any]:
        return (factor * logits[mask]).sum(), mask.sum() if masked else len(mask)

    def gradient(logits: Any, labels: Any, mask: Any) -> tuple[Any, Any, Any]:
        return *loss(logits, labels, mask), np.full_like(logits, factor)

    with pytest.raises(ConfigError, match=message):
        check_traced_loss(metric(loss), Labels(PREDICTIONS, LABELS), loss, gradient)


def test_two_metrics_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="'own', the name of another metric"):
        hook_metrics([metric(lambda p, y: 1), metric(lambda p, y: 2)], PREDICTIONS, LABELS)


@given(rows=st.integers(1, 23), world=st.sampled_from([1, 2, 4]), seed=st.integers(0, 9))
def test_arrays_of_metrics_do_not_depend_on_the_number_of_ranks(rows: int, world: int, seed: int):
    """Also in their order: row i of the arrays is the same row for any number of ranks."""
    numbers = np.random.default_rng(seed)
    logits, labels = numbers.normal(size=(rows, 3)).astype(np.float32), numbers.integers(0, 3, rows)
    seen: list[Any] = []
    job = classify_job(batch=8)
    ranks = [Metrics(job, world, [metric(lambda p, y: seen.append((p, y)) or len(y))]) for _ in range(world)]
    for start in range(0, rows, 8):
        for rank, collected in enumerate(ranks):
            part = slice(start + rank * 8 // world, start + (rank + 1) * 8 // world)
            collected.add(logits[part], labels[part])
    figures = ranks[0].figures([one.part for one in ranks])
    [(predictions, expected)] = seen
    assert np.array_equal(predictions, logits) and predictions.dtype == np.float32
    assert np.array_equal(expected, labels) and expected.dtype == np.int64
    assert figures["accuracy"] == (logits.argmax(1) == labels).mean() and figures["metrics/own"] == rows


def classify_job(batch: int) -> Job:
    train = TrainConfig(task="classify", batch=batch)
    fields = dict.fromkeys(Job.__struct_fields__)
    return Job(**fields | {"train": train, "labels": ["a", "b", "c"]})  # type: ignore[arg-type]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a tokenizer, a dataset and `losses.py`: the working directory."""
    monkeypatch.setattr(launch, "load_backend", lambda name: Numpy())
    monkeypatch.setattr(launch, "worker_python", lambda backend, options=None: Path(sys.executable))
    monkeypatch.setattr(Numpy, "hooks", CHECK)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(folder_with(tmp_path, "def loss(value):\n    return value\n"))
    small_work(tmp_path)
    return Path("work/small")


def prepared(work: Path, **hooks: Any) -> PreparedRun:
    changes = {"hooks": hooks} if hooks else {}
    return prepare_run(SECTION | changes, RunInputs("one", "numpy", Path("run"), work / "tokenizer", work / "dataset"))


def test_a_run_keeps_the_code_that_it_began_with(work: Path):
    plain = prepared(work).job
    found = prepared(work, loss="losses.py:loss")
    assert "hooks" not in plain.made_from and plain.fingerprint != found.job.fingerprint
    assert job_hooks(found.job).files == {"losses.py": sha256("def loss(value):\n    return value\n")}
    create_run(found)
    assert Path("run/hooks/losses.py").read_text() == "def loss(value):\n    return value\n"
    assert load_run_hooks(Path("run"), read_job(Path("run"))).loss is not None
    create_run(prepared(work, loss="losses.py:loss"))
    with pytest.raises(MismatchError, match=r"train\.hooks\.loss was losses\.py:loss, is none"):
        create_run(prepared(work))
    Path("losses.py").write_text("def loss(value):\n    return value  # changed\n")
    with pytest.raises(MismatchError, match=r"the hook losses\.py has changed since the run began") as error:
        create_run(prepared(work, loss="losses.py:loss"))
    assert "run/hooks/losses.py" in error.value.fix
    assert "changed" not in Path("run/hooks/losses.py").read_text()


def test_a_damaged_copy_is_written_again(work: Path):
    create_run(prepared(work, loss="losses.py:loss"))
    Path("run/hooks/losses.py").write_text("damaged")
    create_run(prepared(work, loss="losses.py:loss"))
    assert "damaged" not in Path("run/hooks/losses.py").read_text()


def test_the_head_becomes_part_of_the_model(work: Path, tmp_path: Path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n')
    section = SECTION | {"task": "classify", "data": [str(rows)]}
    inputs = RunInputs("one", "numpy", Path("run"), work / "tokenizer")
    plain = prepare_run(section, inputs).job
    hooked = prepare_run(section | {"hooks": {"head": "losses.py:loss"}}, inputs)
    assert hooked.job.model["head_parameters"] == {"out.weight": [2, 128], "scale": []}
    dense = 128 * 128 + 128  # of RoBERTa's own head
    assert hooked.job.parameters == plain.parameters - dense - 2 + 1
    assert has_custom_head(hooked.job.model) and not has_custom_head(plain.model)


def test_errors_of_the_check_arrive_before_the_run_exists(work: Path):
    Path("losses.py").write_text("def loss(value):\n    raise ValueError('no')\n")
    with pytest.raises(ConfigError, match=r"the hook losses\.py:loss raised ValueError: no") as error:
        prepared(work, loss="losses.py:loss")
    assert error.value.where == "losses.py, line 2" and not Path("run").exists()


def test_an_installed_module_is_hashed_in_its_environment(work: Path):
    hooks = job_hooks(prepared(work, loss="textwrap:dedent").job)
    import textwrap

    assert hooks.files == {"textwrap": sha256(Path(textwrap.__file__).read_text())}


def test_hooks_of_other_tasks_and_backends_are_refused(work: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigError, match=r"train\.hooks\.metrics is for classify and regress"):
        prepared(work, metrics=["losses.py:loss"])
    monkeypatch.setattr(Numpy, "hooks", "")
    with pytest.raises(ConfigError, match="numpy does not support hooks: its worker has no place for them"):
        prepared(work, loss="losses.py:loss")
