"""The layout of a job, fairseq's options for it, and what is refused."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.errors import ConfigError, MachineError
from jprep.train.backend import Finding, Host, Plan
from jprep.train.launcher import import_probe
from jprep.train.planning import checks as shared_checks
from jprep.train.planning import machine
from jprep.train.run.directory import read_job
from jprep_fairseq_xla.backend import FairseqXla
from jprep_fairseq_xla.options import Options
from jprep_fairseq_xla.planning import checks
from jprep_fairseq_xla.planning.fairseq_options import check_user_options, command_line
from jprep_fairseq_xla.planning.versions import check_versions
from jprep_fairseq_xla.worker import environment_report
from jprep_torch.planning import xla
from tests.fakes.trained_run import trained_run

HOST = Host("python", 4, 8 << 30)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(autouse=True)
def chips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of TPU devices that this machine has."""
    found = [0]
    for module in (machine, xla):
        monkeypatch.setattr(module, "tpu_count", lambda: found[0])
    return found


def plan(
    run: Path,
    model: dict[str, Any] | None = None,
    precision: str = "fp32",
    host: Host = HOST,
    *,
    section: dict[str, Any] | None = None,
    **options: Any,
) -> Plan:
    job = read_job(run)
    train = msgspec.structs.replace(job.train, batch=16, precision=precision, **(section or {}))
    chosen = msgspec.to_builtins(Options(**options))
    changed = msgspec.structs.replace(job, train=train, options=chosen, model=job.model | (model or {}))
    return FairseqXla().plan(changed, run, host)


def test_one_process_drives_all_tpus_of_a_machine(run: Path, chips: list[int]) -> None:
    chips[0] = 8
    found = plan(run)
    assert (found.processes, found.micro_batch, found.accumulate) == (1, 16, 1)
    assert found.env["PJRT_DEVICE"] == "TPU" and "CPU_NUM_DEVICES" not in found.env
    assert found.settings["tpu"] is True and any("PJRT_DEVICE=TPU" in note for note in found.notes)
    assert (plan(run, micro_batch=1).micro_batch, plan(run, micro_batch=1).accumulate) == (8, 2)


def test_without_tpus_the_default_is_plain_fairseq_and_xla_devices_are_virtual(run: Path) -> None:
    assert plan(run).settings["cpu"] is True and "PJRT_DEVICE" not in plan(run).env
    found = plan(run, device="xla", devices=4)
    assert (found.env["PJRT_DEVICE"], found.env["CPU_NUM_DEVICES"]) == ("CPU", "4")
    assert "4 virtual CPU" in found.notes[0]


def test_a_process_for_each_gpu(run: Path) -> None:
    host = Host("python", 4, 8 << 30, ("an NVIDIA A100", "an NVIDIA A100"), 80 << 30)
    found = plan(run, host=host, device="cuda")
    assert (found.processes, found.machines, found.micro_batch, found.accumulate) == (2, 1, 8, 1)
    assert {"torch.distributed.run", "--nproc-per-node", "cuda"} <= set(found.argv)
    assert found.env["CUBLAS_WORKSPACE_CONFIG"] and "PJRT_DEVICE" not in found.env
    assert not {"cpu", "tpu"} & set(found.settings) and found.settings["ddp_backend"] == "legacy_ddp"
    assert found.target and (found.target.kind, found.target.memory) == ("gpu", 80 << 30)
    assert "not yet run on a GPU" in found.notes[0]
    one = plan(run, host=host, device="cuda", processes=1, deterministic=False)
    assert one.processes == 1 and "CUBLAS_WORKSPACE_CONFIG" not in one.env and "ddp_backend" not in one.settings
    with pytest.raises(ConfigError, match="divided among 3 processes"):
        plan(run, host=host, device="cuda", processes=3)
    with pytest.raises(ConfigError, match="not devices"):
        plan(run, host=host, device="cuda", devices=2)


def test_gpus_are_the_default_without_tpus(monkeypatch: pytest.MonkeyPatch, chips: list[int]) -> None:
    monkeypatch.setattr(checks, "accelerators", lambda: ["a GPU"])
    assert FairseqXla().environment(Options()).install == "fairseq-xla --set device=cuda"
    assert FairseqXla().environment(Options(device="cpu")).also == ("fairseq-cuda", "fairseq-xla")
    chips[0] = 4
    assert FairseqXla().environment(Options()).name == "fairseq-xla"


def test_each_host_of_a_slice_has_a_process_and_the_plan_has_its_command(run: Path, chips: list[int]) -> None:
    chips[0] = 4
    found = plan(run, hosts=2)
    assert (found.processes, found.machines, found.micro_batch, found.accumulate) == (2, 2, 8, 1)
    assert "CPU_NUM_DEVICES" not in found.env and found.settings["distributed_world_size"] == 1
    assert {"--devices", "8", "--hosts", "2", "--micro-batch", "16"} <= set(found.argv)
    assert "8 TPU devices" in found.notes[0] and "2 hosts" in found.notes[0]
    assert found.notes[-1].endswith(f": python -m jprep.train.launcher.multihost {run} NUMBER")
    with pytest.raises(ConfigError, match="divided among 12 processes or devices"):
        plan(run, hosts=3)


def test_a_slice_without_tpus_is_planned_with_a_note(run: Path) -> None:
    found = plan(run, device="xla", devices=2, hosts=2, micro_batch=2)
    assert (found.processes, found.micro_batch, found.accumulate) == (2, 4, 2)
    assert found.env["CPU_NUM_DEVICES"] == "4" and any("computes the whole batch" in note for note in found.notes)
    assert not any("multihost" in note for note in plan(run, device="xla", devices=2).notes)
    for wrong in ({"device": "cpu", "hosts": 2}, {"device": "xla", "hosts": 0}):
        with pytest.raises(ConfigError, match="hosts"):
            plan(run, **wrong)


def test_a_batch_is_divided_evenly_or_not_at_all(run: Path) -> None:
    with pytest.raises(ConfigError, match="divided among 3 processes or devices"):
        plan(run, device="xla", devices=3)
    with pytest.raises(ConfigError, match="micro-batch of 3"):
        plan(run, micro_batch=3)
    with pytest.raises(ConfigError, match="one process"):
        plan(run, device="xla", processes=2)
    with pytest.raises(ConfigError, match="not devices"):
        plan(run, device="cpu", devices=2)


def test_the_job_becomes_fairseq_s_options(run: Path) -> None:
    job, options = read_job(run), plan(run).settings
    assert options["arch"] == "roberta" and options["criterion"] == "masked_lm"
    assert options["max_positions"] == job.model["max_position_embeddings"] - job.model["pad_token_id"] - 1
    assert options["weight_decay"] == job.train.optimizer.weight_decay and options["total_num_update"] == job.steps
    assert command_line({"a_b": 1, "c": True, "d": False}) == ["--a-b", "1", "--c"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lr", "train.optimizer.lr"),
        ("mask_whole_words", "train.masking.whole_word"),
        ("sample_break_mode", "train.packing"),
        ("save_interval_updates", "train.checkpoint.every_steps"),
        ("activation_droput", "did you mean 'activation_dropout'"),
        ("data_buffer_size", "remove it"),
    ],
)
def test_options_without_an_effect_are_refused_by_name(run: Path, name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(run, options={name: 1})
    assert name in caught.value.what and message in str(caught.value)


def test_options_with_an_effect_are_passed_on(run: Path) -> None:
    assert plan(run, options={"activation_dropout": 0.1}).settings["activation_dropout"] == 0.1
    check_user_options("gpt2", {"checkpoint_activations": True})
    with pytest.raises(ConfigError, match="no effect when training a bert"):
        check_user_options("bert", {"checkpoint_activations": True})


def test_options_that_change_the_result_are_reported() -> None:
    chosen = {"activation_dropout": 0.1, "act_dropout": 0.0, "checkpoint_activations": True}
    assert FairseqXla().result_options(Options(options=chosen)) == {"activation_dropout": 0.1}
    assert FairseqXla().result_options(Options()) == {}


def test_models_that_fairseq_does_not_support_are_refused(run: Path) -> None:
    for model, message in (
        ({"model_type": "electra"}, "cannot train a electra"),
        ({"type_vocab_size": 2}, "type_vocab_size = 2"),
        ({"hidden_act": "silu"}, "hidden_act = 'silu'"),
    ):
        with pytest.raises(ConfigError, match=message):
            plan(run, model)
    with pytest.raises(ConfigError, match="fp16"):
        plan(run, precision="fp16")
    with pytest.raises(ConfigError, match="sentence head has no bias"):
        plan(run, section={"next_sentence": True})


def test_gpt2_is_trained_on_conversations(tmp_path: Path) -> None:
    folder = trained_run(tmp_path, "clm", "gpt2")
    assert plan(folder, section={"task": "sft"}).settings["criterion"] == "cross_entropy"
    with pytest.raises(ConfigError, match="cannot train a gpt2 for classify"):
        plan(folder, section={"task": "classify"})


def test_the_mask_of_documents_takes_memory(run: Path) -> None:
    whole, apart = (plan(run, section={"document_masks": given}).memory for given in (False, True))
    job = read_job(run)
    assert apart - whole == 4 * 16 * job.model["num_attention_heads"] * job.train.length**2


def test_replaced_token_detection_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fairseq has no ELECTRA") as caught:
        plan(trained_run(tmp_path, "rtd", "electra", backend="fairseq-xla"))
    assert "flax" in caught.value.fix


def test_check_reports_problems_with_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_checks, "worker_python", lambda backend, options: Path(sys.executable))
    monkeypatch.setattr(
        checks, "_PROBE", "print('torch 2.13, but another version is patched\\njprep backends install'); exit(1)#{!r}"
    )
    [found] = FairseqXla().check(Options(device="xla"))
    assert (found.level, found.fix) == ("error", "jprep backends install") and "torch 2.13" in found.what
    monkeypatch.setattr(checks, "_PROBE", "print('fairseq 0.12.2')#{!r}")
    assert [one.level for one in FairseqXla().check(Options(device="xla"))] == ["ok", "note"]
    assert [one.level for one in FairseqXla().check(Options())] == ["ok"]


def test_other_versions_are_refused_before_they_are_imported() -> None:
    right = {"fairseq": "0.12.2", "torch": "2.9.1+cu128", "torch_xla": "2.9.0"}
    check_versions("xla", right.__getitem__)
    check_versions("cpu", (right | {"torch": "2.13.0"}).__getitem__)
    for name, version in (("torch", "2.13.0"), ("torch_xla", "2.8.1"), ("fairseq", "0.12.3")):
        with pytest.raises(MachineError, match=f"{name} {version}") as caught:
            check_versions("xla", (right | {name: version}).__getitem__)
        assert "jprep backends install fairseq-xla" in caught.value.fix

    def nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    with pytest.raises(MachineError, match="fairseq is not installed"):
        check_versions("cpu", nothing)


def test_check_reports_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    monkeypatch.setattr(shared_checks, "worker_python", lambda backend, options: python)

    def found(code: int, *message: str, **options: Any) -> list[Finding]:
        python.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in message) + f"exit {code}\n")
        python.chmod(0o755)
        return FairseqXla().check(Options(**options))

    assert found(1, "torch 2.13.0", "install it") == [Finding("torch 2.13.0", "error", "install it")]
    assert found(0, "fairseq 0.12.2") == [Finding("fairseq 0.12.2")]
    assert [one.level for one in found(0, "fairseq 0.12.2", device="xla")] == ["ok", "note"]
    python.write_text("#!/bin/sh\nexec sleep 30\n")
    monkeypatch.setattr(import_probe, "IMPORT_TIMEOUT", 0.1)
    [slow] = FairseqXla().check(Options())
    assert slow.level == "error" and "slow or busy" in slow.what and "install" not in slow.fix


def test_import_errors_are_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(device: str) -> None:
        raise ImportError("libcudart.so.12: no such file")

    monkeypatch.setattr(environment_report, "import_fairseq", fail)
    assert environment_report.print_environment_report("xla") == 1
    what, fix = capsys.readouterr().out.splitlines()
    assert "libcudart" in what and fix == "jprep backends install fairseq-xla --set device=xla --restart"
