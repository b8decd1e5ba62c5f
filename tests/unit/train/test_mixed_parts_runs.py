"""Runs on a mixture of parts: what the job records, and rows that no resumption changes."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.dataset.manifest import read_dataset
from jprep.dataset.mix import MixConfig
from jprep.dataset.sampling.config import MaskingConfig
from jprep.dataset.sampling.masking import Masking
from jprep.dataset.sampling.sampler import Sampler, SamplerConfig, open_split_data
from jprep.dataset.sampling.sources import source_ranges
from jprep.errors import ConfigError
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, parse_train_config
from jprep.train.launcher.supervisor import supervise
from jprep.train.run.directory import open_run, read_job
from jprep.train.worker.batches import Batches
from tests.fakes.config_sections import dataset_config
from tests.fakes.parts_dataset import mixed_parts_dataset
from tests.fakes.small_dataset import NEWLINE
from tests.fakes.small_run import all_ranks, plan_of
from tests.fakes.trained_run import trained_run
from tests.unit.dataset.test_mixtures import SPECIAL

LAUNCHER = Path(__file__).parents[2] / "fakes" / "two_ranks.py"
PARTS = [
    {"name": "top", "where": [{"signal": "quality_score", "min": 0.7}]},
    {"name": "middle", "source": "web", "where": [{"signal": "quality_score", "min": 0.3}]},
    {"name": "spread", "cluster_size": {"min": 5}},
]
SIZES = {"top": 11, "middle": 20, "spread": 7, "wiki": 32}
STEPS, BATCH = 20, 8


def mixture(weights: dict[str, float], *stages: tuple[int, dict[str, float]]) -> MixConfig:
    listed = [{"until_step": step, "weights": shares} for step, shares in stages]
    found = dataset_config({"mix": {"weights": weights, "stages": listed, "parts": PARTS}}, "here").mix
    assert found
    return found


FIRST = {"top": 3, "middle": 1, "spread": 2, "wiki": 0}
MIX = mixture({"top": 1, "middle": 1, "spread": 0, "wiki": 2}, (7, FIRST))
LONGER = mixture({"top": 5, "middle": 0, "spread": 1, "wiki": 1}, (7, FIRST), (STEPS, MIX.weights))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tokenizer, and a dataset that is packed in parts."""
    folder = tmp_path_factory.mktemp("parts")
    trained_run(folder)
    plain = read_dataset(folder / "dataset")
    fields = {name: getattr(plain, name) for name in ("made_from", "vocab_size", "end", "newline")}
    mixed_parts_dataset(folder / "mixed", MIX, SIZES, 200, **fields)
    return folder


def job(folder: Path, run: Path | None, mix: MixConfig | None, steps: int = STEPS, **section: Any) -> Job:
    model = {"config": {"model_type": "roberta", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                        "intermediate_size": 24}}  # fmt: skip
    given = {"task": "mlm", "model": model, "batch": BATCH, "length": 16, "steps": steps, "max_restarts": 0,
             "checkpoint": {"every_steps": 5}, "schedule": {"kind": "constant"}} | section  # fmt: skip
    config = parse_train_config(given, "here")
    return build_job(config, "mixed", "numpy", {}, folder / "tokenizer", folder / "mixed", run=run, mix=mix)


def train(run: Path, trace: Path, *launcher: Path, **env: str) -> int:
    trace.mkdir(exist_ok=True)
    return supervise(run, plan_of(run, *launcher, TRACE=str(trace), **env), say=lambda what: None)


def seen(trace: Path) -> dict[int, list[int]]:
    """Return the samples of each step, of all ranks, as they were computed last."""
    found: dict[int, list[int]] = {}
    for rank, path in enumerate(sorted(trace.iterdir())):
        steps = {entry["step"]: entry["indices"] for entry in map(json.loads, path.read_text().splitlines())}
        found = {step: [*(found.get(step, []) if rank else []), *rows] for step, rows in (found | steps).items()}
    return found


def test_a_run_goes_on_with_other_processes_and_a_new_stage(folder: Path, tmp_path: Path) -> None:
    """Killed with one process, resumed with two, extended with one: the same batches as one undisturbed run."""
    run, straight = tmp_path / "run", tmp_path / "straight"
    open_run(run, job(folder, run, MIX), lambda what: None)
    assert train(run, tmp_path / "one", CRASH_AT="13") != 0
    assert train(run, tmp_path / "two", LAUNCHER) == 0
    open_run(run, job(folder, run, LONGER, 30), lambda what: None)
    assert train(run, tmp_path / "three") == 0
    open_run(straight, job(folder, straight, LONGER, 30), lambda what: None)
    assert train(straight, tmp_path / "whole") == 0
    whole, first, third = (seen(tmp_path / name) for name in ("whole", "one", "three"))
    assert list(first) == list(range(1, 13)) and list(third) == list(range(21, 31))
    second = [
        {row["step"]: row["indices"] for row in map(json.loads, (tmp_path / "two" / name).read_text().splitlines())}
        for name in ("rank-0", "rank-1")
    ]
    assert [list(rank) for rank in second] == [list(range(11, 21))] * 2
    both = {step: second[0][step] + second[1][step] for step in second[0]}
    assert whole == first | both | third
    order = Batches(straight, read_job(straight)).train
    assert whole[25] == order.batch(24).indices.tolist()
    assert np.allclose(np.load(run / "checkpoints/step-00000030/weights.npy"),
                       np.load(straight / "checkpoints/step-00000030/weights.npy"))  # fmt: skip


def test_a_job_records_the_tokens_of_each_part(folder: Path) -> None:
    sizes = {part.name: part.tokens for part in read_dataset(folder / "mixed").mix_parts}
    found = {one.name: one for one in job(folder, None, MIX).sources}
    assert list(found) == list(SIZES) and sum(one.rows for one in found.values()) == STEPS * BATCH
    for name, one in found.items():
        assert one.tokens == round(one.epochs * sizes[name])
    assert found["spread"].rows and found["wiki"].rows


def test_parts_of_another_mixture_are_refused(folder: Path) -> None:
    parts = [PARTS[0], PARTS[1] | {"where": [{"signal": "quality_score", "min": 0.4}]}, PARTS[2]]
    other = dataset_config({"mix": {"weights": FIRST, "parts": parts}}, "here").mix
    for mix in (other, MixConfig(weights={"wiki": 1, "web": 1, "books": 1})):
        with pytest.raises(ConfigError, match="packed in different parts") as caught:
            job(folder, None, mix)
        assert "pack it again with --restart" in caught.value.fix
    assert job(folder, None, None).sources == []  # without a mixture, each row once


def test_ranks_share_the_rows_of_parts(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "own"
    open_run(run, job(folder, run, MIX), lambda what: None)
    whole = Batches(run, read_job(run)).train.batch(11)
    with all_ranks(run, 4) as sessions:
        batches = [session._batch(11) for session in sessions]
    for field in ("input_ids", "labels", "indices", "epochs"):
        assert (np.concatenate([getattr(one, field) for one in batches]) == getattr(whole, field)).all()


SHARES = st.fixed_dictionaries({name: st.sampled_from([0.0, 0.5, 1.0, 3.0]) for name in SIZES}).filter(
    lambda shares: any(shares.values())
)


@settings(max_examples=25, deadline=None)
@given(
    SHARES, SHARES, st.integers(1, 6), st.integers(0, 15), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 8]),
    st.sampled_from(["stream", "complete", "line"]),
)  # fmt: skip
def test_batches_are_a_function_of_the_step(
    folder: Path, shares: dict[str, float], later: dict[str, float], until: int, stop: int, before: int, after: int,
    packing: Any,
) -> None:  # fmt: skip
    """Stop after some steps and go on with another number of ranks: the rows of the run are the same."""
    dataset, masking = folder / "mixed", Masking(MaskingConfig(), SPECIAL, NEWLINE)

    def sampler(mix: MixConfig) -> Sampler:
        source = open_split_data(dataset, "train", by_source=True)._replace(vocab_size=SPECIAL.vocab_size)
        config = SamplerConfig(batch=BATCH, length=16, packing=packing, mix=mix)
        return pickle.loads(pickle.dumps(Sampler(source, config, SPECIAL, masking)))  # type: ignore[no-any-return]

    mix = mixture(later, (until, shares))
    whole, again = sampler(mix), sampler(mix)
    worlds = [before] * stop + [after] * (16 - stop)
    rows = [np.concatenate([again.batch(step, rank, world).input_ids for rank in range(world)])
            for step, world in enumerate(worlds)]  # fmt: skip
    assert (np.concatenate(rows) == np.concatenate([whole.batch(step).input_ids for step in range(16)])).all()
    edges = [one.start for one in source_ranges(read_dataset(dataset), "train")]
    starts, sizes = whole._samples.spans(np.arange(len(whole._samples)))
    assert (np.searchsorted(edges, starts, "right") == np.searchsorted(edges, starts + sizes - 1, "right")).all()
