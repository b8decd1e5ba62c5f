"""The recipe of the published GPT-2 on two processes, scaled down: killed, resumed, exported and used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import transformers

from jprep.samples import write_sample
from jprep.train.run.directory import read_job
from jprep.train.run.events import metric_curve, read_events
from tests.conftest import ROOT

RECIPE = ROOT / "data_recipes" / "gpt2-xl-japanese.toml"
CLI = "from jprep.cli.main import main; main()"
CHANGES = (
    'corpus.sources.0.paths=["sample-pages-articles-multistream.xml.bz2"]', 'corpus.sources.1.paths=["cc100.txt"]',
    "train.log_every=1", "train.batch=4", "train.length=64",
    'train.model={preset="gpt2-tiny",config={resid_pdrop=0,embd_pdrop=0,attn_pdrop=0}}',
    "train.backend.deepspeed.device=cpu", "train.backend.deepspeed.threads=1",
)  # fmt: skip


def jprep(sample: Path, *arguments: object, **env: str) -> str:
    command = [sys.executable, "-c", CLI, *map(str, arguments)]
    done = subprocess.run(command, cwd=sample, capture_output=True, text=True, env=os.environ | env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(sample: Path, work: Path, processes: int, until: str = "train", **env: str) -> Path:
    changes = [f"train.backend.deepspeed.processes={processes}", *CHANGES]
    given = [part for change in changes for part in ("--set", change)]
    jprep(sample, "run", RECIPE, "--scale", "tiny", "--work", work, "--until", until, "--workers", 1, *given, **env)
    return work / "gpt2-xl-japanese-tiny" / "runs" / "deepspeed"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample(tmp_path_factory.mktemp("recipe") / "sample").parent


@pytest.fixture(scope="module")
def whole(sample: Path) -> Path:
    return run(sample, sample / "work", 2, "export")


@pytest.fixture(scope="module")
def ready(sample: Path, whole: Path) -> Path:
    """Return the work directory of a recipe run without its training."""
    work = sample / "ready"
    shutil.copytree(sample / "work", work, ignore=shutil.ignore_patterns("runs"))
    return work


def losses(trained: Path) -> list[float]:
    return metric_curve(read_events(trained))[1]


def test_a_run_in_zero_2_and_bf16_exports_a_model_for_transformers(sample: Path, whole: Path) -> None:
    job = read_job(whole)
    assert (job.train.precision, job.options["stage"], job.options["processes"]) == ("bf16", 2, 2)
    found = losses(whole)
    assert len(found) == 20 and found[-1] < found[0]
    model, about = transformers.AutoModelForCausalLM.from_pretrained(whole / "export", output_loading_info=True)
    assert not any(about.values())
    tokenizer = transformers.AutoTokenizer.from_pretrained(whole / "export")
    assert (*tokenizer.convert_tokens_to_ids(["<unk>", "<s>", "</s>"]), tokenizer.pad_token_id) == (0, 1, 2, 2)
    prompt = "早稲田 大学 で 自然 言語"
    generator = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer)
    texts = [
        each["generated_text"] for each in generator(prompt, num_return_sequences=5, do_sample=True, max_new_tokens=8)
    ]
    assert len(texts) == 5 and all(text.startswith(prompt) and len(text) > len(prompt) for text in texts)
    assert jprep(sample, "infer", whole / "export", prompt).startswith(prompt)


def test_a_killed_run_ends_with_the_same_bytes(sample: Path, whole: Path, ready: Path, tmp_path: Path) -> None:
    shutil.copytree(ready, tmp_path / "work")
    killed = run(sample, tmp_path / "work", 2, "export", JPREP_FAILPOINT="run.committed@2")
    assert [event.step for event in read_events(killed) if event.kind == "start"] == [0, 10]
    assert losses(killed) == losses(whole)
    name = "export/model.safetensors"
    assert (killed / name).read_bytes() == (whole / name).read_bytes()


def test_a_run_of_two_processes_resumes_on_one(sample: Path, whole: Path, ready: Path, tmp_path: Path) -> None:
    shutil.copytree(ready, tmp_path / "work")
    place = tmp_path / "work" / "gpt2-xl-japanese-tiny" / "runs" / "deepspeed"
    shutil.copytree(whole, place, ignore=shutil.ignore_patterns("step-00000020", "export"))
    alone = run(sample, tmp_path / "work", 1)
    assert [event.step for event in read_events(alone) if event.kind == "start"] == [0, 10]
    assert losses(alone) == pytest.approx(losses(whole), rel=1e-3)  # sums in bf16 are rounded differently
