"""Each plan has one verdict, for the devices that it is made for: in its line, notes, JSON and exit code."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from jprep.cli.model.training_plan import show_plan
from jprep.train.backend import Host, Plan
from jprep.train.job.config import Job, ModelConfig
from jprep.train.launcher.launch import PreparedRun
from jprep.train.models import TokenizerInfo, model_config, parameter_count
from jprep.train.planning import duration
from jprep.train.planning.cost import parse_price
from jprep.train.planning.memory_fit import judge_plan
from jprep.train.run.directory import read_job
from tests.fakes.trained_run import trained_run

GIB = 1 << 30
VERDICTS = {
    True: "it fits",
    False: "it does not fit (a plan may use 85% of each)",
    None: "whether it fits is not known",
}
MODELS = {
    "tiny": {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2},
    "small": {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12},
    "large": {"model_type": "gpt2", "n_embd": 2048, "n_layer": 24, "n_head": 16},
}
HOSTS = {
    "little": Host("python", 2, 2 * GIB),
    "plain": Host("python", 8, 64 * GIB),
    "gpus": Host("python", 32, 256 * GIB, ("NVIDIA A100-SXM4-40GB",) * 4, 40 * GIB),
    "quiet gpu": Host("python", 8, 16 * GIB, ("Some GPU",), 0),
}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "torch": [
        {}, {"device": "cpu"}, {"device": "cpu", "processes": 2}, {"device": "cuda"}, {"device": "xla", "devices": 4},
        {"memory": 24}, {"gradient_checkpointing": True}, {"micro_batch": 1},
        {"device": "tpu", "processes": 2, "memory": 16}, {"device": "tpu"},
    ],
    "deepspeed": [
        {}, {"device": "cpu", "processes": 2}, {"gpu": "A100-40GB"}, {"gpu": "A100-40GB", "processes": 4},
        {"gpu": "T4", "micro_batch": 8}, {"gpu": "A100-40GB", "offload_optimizer": "cpu"},
        {"gpu": "A100-40GB", "offload_optimizer": "cpu", "host_memory": 8},
        {"gpu": "A100-40GB", "offload_optimizer": "cpu", "host_memory": 512, "processes": 4},
        {"offload_optimizer": "cpu", "stage": 3, "offload_param": "cpu"}, {"gpu": "8", "processes": 2, "stage": 1},
    ],
    "flax": [
        {}, {"device": "cpu"}, {"device": "cpu", "devices": 4}, {"device": "gpu"}, {"memory": 24},
        {"gradient_checkpointing": True},
        {"device": "tpu"}, {"device": "tpu", "memory": 16, "devices": 4}, {"processes": 2, "device": "cpu"},
    ],
    "keras": [
        {}, {"device": "cpu"}, {"device": "cpu", "devices": 2}, {"engine": "jax"}, {"memory": 24}, {"device": "gpu"},
        {"device": "tpu"}, {"device": "tpu", "memory": 16, "devices": 4}, {"micro_batch": 1},
    ],
    "fairseq-xla": [
        {"device": "cpu"}, {"device": "cpu", "processes": 2}, {"device": "xla", "devices": 2}, {"memory": 24},
    ],
}  # fmt: skip


def planner(name: str) -> Any:
    """A backend's planner, which needs no framework."""
    module, kind = {
        "torch": ("jprep_torch.backend", "Torch"),
        "deepspeed": ("jprep_deepspeed.backend", "DeepSpeed"),
        "flax": ("jprep_flax.backend", "Flax"),
        "keras": ("jprep_keras.backend", "Keras"),
        "fairseq-xla": ("jprep_fairseq_xla.backend", "FairseqXla"),
    }[name]
    return getattr(pytest.importorskip(module), kind)()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Job]:
    run = trained_run(tmp_path_factory.mktemp("plans"), task="clm", kind="gpt2")
    return run, read_job(run)


@pytest.fixture(autouse=True)
def core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duration, "core_rate", lambda: 5e10)


def prepared(base: tuple[Path, Job], name: str, model: str, host: str, options: dict[str, Any]) -> PreparedRun:
    run, job = base
    backend = planner(name)
    config = model_config(ModelConfig(config=MODELS[model]), "clm", TokenizerInfo(32_000, 512, 1, 2, 0))
    train = msgspec.structs.replace(job.train, batch=64, length=512)
    own = msgspec.to_builtins(msgspec.convert(options, backend.Options))
    job = msgspec.structs.replace(
        job, backend=name, options=own, model=config, parameters=parameter_count(config, "clm"), train=train
    )
    plan: Plan = backend.plan(job, run, HOSTS[host])
    shown: Any = SimpleNamespace(read_options=backend.read_options, check=lambda options: [])
    return PreparedRun(shown, job, run, plan, HOSTS[host])


CASES = [
    (name, model, host, options)
    for name, several in OPTIONS.items()
    for model, host, options in itertools.product(MODELS, HOSTS, several)
]


@pytest.mark.parametrize("name", OPTIONS)
def test_every_plan_has_one_verdict(name: str, base: tuple[Path, Job], capsys: pytest.CaptureFixture[str]) -> None:
    seen = set()
    for _, model, host, options in (case for case in CASES if case[0] == name):
        found = prepared(base, name, model, host, options)
        fits = judge_plan(found.plan, found.host).fits
        codes = [show_plan(found, as_json=False)]
        shown = capsys.readouterr().out
        codes.append(show_plan(found, as_json=True))
        output = json.loads(capsys.readouterr().out)
        where = f"{name} {model} {host} {options}\n{shown}"
        assert codes == [3 if fits is False else 0] * 2, where
        assert output["fits"] is fits and output["verdict"] in shown, where
        assert re.findall("|".join(map(re.escape, VERDICTS.values())), shown) == [VERDICTS[fits]], where
        assert ("what would fit" in shown) == (fits is False and name == "deepspeed"), where
        taken = re.findall(r"\(taken\).*; (fits|does not fit|may fit)", shown)
        assert taken in ([], [{True: "fits", False: "does not fit", None: "may fit"}[fits]]), where
        assert [one.rows for one in found.plan.smaller] == sorted({one.rows for one in found.plan.smaller})[::-1], where
        assert all(one.memory <= found.plan.memory for one in found.plan.smaller), where
        seen.add(fits)
    assert seen == {True, False, None} or name == "fairseq-xla"


def with_memory(found: PreparedRun, memory: int) -> PreparedRun:
    return found._replace(host=msgspec.structs.replace(found.host, memory=memory))


@pytest.mark.parametrize(
    "options",
    [
        {"gpu": "A100-40GB"}, {"gpu": "A100-40GB", "offload_optimizer": "cpu"}, {"gpu": "H100", "processes": 8},
        {"gpu": "A100-40GB", "offload_optimizer": "cpu", "host_memory": 64},
    ],
)  # fmt: skip
@pytest.mark.parametrize("model", MODELS)
def test_a_plan_for_another_gpu_does_not_depend_on_this_machine(
    model: str, options: dict[str, Any], base: tuple[Path, Job]
) -> None:
    found = [prepared(base, "deepspeed", model, host, options | {"processes": 4}) for host in HOSTS]
    assert len({judge_plan(one.plan, one.host) for one in found}) == 1
    assert len({(one.plan.micro_batch, one.plan.notes) for one in found}) == 1


ELSEWHERE = [
    ("torch", {"gpu": "A100-40GB", "processes": 4}), ("flax", {"gpu": "A100-40GB", "devices": 4}),
    ("keras", {"gpu": "A100-40GB", "devices": 4}), ("fairseq-xla", {"gpu": "A100-40GB", "processes": 4}),
    ("deepspeed", {"gpu": "A100-40GB", "processes": 4}), ("torch", {"device": "xla", "tpu_type": "v3-8"}),
    ("torch", {"device": "tpu", "tpu_type": "v4-8"}), ("flax", {"tpu_type": "v3-8"}), ("keras", {"tpu_type": "v3-8"}),
    ("fairseq-xla", {"tpu_type": "v3-8"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), ELSEWHERE)
def test_every_backend_plans_for_a_named_machine(
    name: str, options: dict[str, Any], base: tuple[Path, Job], capsys: pytest.CaptureFixture[str]
) -> None:
    given = options | {"host_memory": 64}
    found = [prepared(base, name, "small", host, given) for host in HOSTS]
    targets = {one.plan.target for one in found}
    kind, size, count = ("gpu", 40, 4) if "gpu" in options else ("tpu", 16, 8)
    count, size = (4, 32) if options.get("tpu_type") == "v4-8" else (count, size)
    assert len(targets) == 1 and (target := targets.pop())
    assert (target.kind, target.memory, target.count) == (kind, size * GIB, count)
    assert target.host_memory * count == 64 * GIB and target.elsewhere
    assert len({(one.plan.micro_batch, one.plan.memory, one.plan.notes) for one in found}) == 1
    show_plan(found[0], parse_price("$8/hour"), as_json=False)
    shown = capsys.readouterr().out
    assert f"{count} × {target.name}" in shown and "35%" in shown and "the host has 68.72 GB" in shown
    assert "hours at $8.00 per hour" in shown and "free" not in shown


@pytest.mark.parametrize("options", [{"memory": 40}, {"memory": 1}])
@pytest.mark.parametrize("name", ["torch", "flax", "fairseq-xla", "keras"])
def test_a_memory_that_is_given_is_the_one_that_counts(
    name: str, options: dict[str, Any], base: tuple[Path, Job]
) -> None:
    found = [prepared(base, name, "small", host, options | {"device": "cpu"}) for host in ("little", "plain")]
    assert len({judge_plan(one.plan, one.host) for one in found}) == 1
    assert judge_plan(found[0].plan, found[0].host).fits is (options["memory"] == 40)


def test_an_offload_is_judged_by_the_host_that_is_planned_for(base: tuple[Path, Job]) -> None:
    away = {"gpu": "A100-40GB", "offload_optimizer": "cpu", "stage": 2}
    unknown = prepared(base, "deepspeed", "large", "little", away)
    assert judge_plan(unknown.plan, unknown.host).fits is None
    assert any("host_memory = GiB" in note and "not known" in note for note in unknown.plan.notes)
    for memory, fits in ((4, False), (512, True)):
        found = prepared(base, "deepspeed", "large", "little", away | {"host_memory": memory})
        assert judge_plan(found.plan, found.host).fits is fits


def test_a_gpu_and_the_cpu_cannot_both_be_planned_for(base: tuple[Path, Job]) -> None:
    with pytest.raises(Exception, match="has no effect on device cpu"):
        prepared(base, "deepspeed", "tiny", "plain", {"device": "cpu", "gpu": "A100-40GB"})


def test_a_backend_that_names_no_target_is_judged_by_this_machine() -> None:
    plan = Plan(("x",), {}, processes=2, micro_batch=1, accumulate=1, memory=3 * GIB)
    assert judge_plan(plan, Host("python", 2, 16 * GIB)).fits is True
    assert judge_plan(plan, Host("python", 2, 4 * GIB)).fits is False
    assert judge_plan(plan, Host("python", 2, 4 * GIB, ("GPU",) * 2, 8 * GIB)).fits is True
    assert judge_plan(plan, Host("python", 2, 0)).fits is None
