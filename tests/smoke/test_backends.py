"""Each backend but torch trains three steps, exports and predicts, by the commands that a user types.

`make test` runs the whole suite of torch; those of the others are for `make test-backends`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jprep.testing.backend_suite.data import write_suite_dataset, write_suite_tokenizer
from tests.conftest import Run

STEPS = 3
RECIPE = """name = "smoke"

[train]
task = "mlm"
batch = 4
length = 32
steps = 3
log_every = 1
trackers = []

[train.model.config]
model_type = "roberta"
hidden_size = 16
num_hidden_layers = 1
num_attention_heads = 2
intermediate_size = 32
max_position_embeddings = 40

[train.backend.{backend}]
device = "cpu"
"""
ENVIRONMENTS = {"deepspeed": "deepspeed", "flax": "flax", "fairseq-xla": "fairseq-cpu", "keras": "keras"}
"""Backend → its environment below `JPREP_BACKENDS`."""


@pytest.mark.parametrize("backend", ENVIRONMENTS)
def test_three_steps_an_export_and_a_prediction(backend: str, tmp_path: Path, jprep: Run) -> None:
    if not Path(os.environ.get("JPREP_BACKENDS", "/nonexistent"), ENVIRONMENTS[backend]).exists():
        pytest.skip(f"JPREP_BACKENDS has no environment of the backend {backend}")
    write_suite_tokenizer(tmp_path / "work/smoke/tokenizer", "roberta")
    write_suite_dataset(tmp_path / "work/smoke/dataset", "roberta")
    (tmp_path / "smoke.toml").write_text(RECIPE.format(backend=backend))
    run = tmp_path / "work/smoke/runs" / backend

    jprep("train", "smoke.toml", "--backend", backend, cwd=tmp_path)
    events = [json.loads(line) for line in (run / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [event["step"] for event in events if event["kind"] == "log"] == list(range(1, STEPS + 1))
    assert jprep("infer", run, "ねこ<mask>", "--top", 2, cwd=tmp_path).stdout.startswith("ねこ")
    assert (run / "export/model.safetensors").exists()
