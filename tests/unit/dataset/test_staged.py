"""Stages of rows with other lengths: each is a training of its own, and the mixture goes on across them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jprep.dataset.mix import MixConfig, MixStage
from jprep.dataset.sampling.config import LengthStage
from jprep.dataset.sampling.sampler import Sampler, SamplerConfig, open_split_data
from jprep.dataset.sampling.staged import StagedSampler
from jprep.errors import ConfigError
from jprep.train.job.config import parse_train_config
from tests.unit.dataset.test_mixtures import SPECIAL, mixed_dataset

STAGES = [LengthStage(until_step=3, length=12), LengthStage(until_step=5, length=16)]
MIX = MixConfig(
    stages=[MixStage(until_step=4, weights={"wiki": 1, "none": 0, "web": 1, "books": 0})],
    weights={"wiki": 0, "none": 0, "web": 0, "books": 1},
)
FIELDS = ("input_ids", "labels", "lengths", "epochs", "indices")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed_dataset(tmp_path_factory.mktemp("dataset") / "dataset")


def staged(dataset: Path, mix: MixConfig | None = None, stages: list[LengthStage] = STAGES) -> StagedSampler:
    source = open_split_data(dataset, "train", by_source=mix is not None)
    config = SamplerConfig(batch=8, length=24, packing="complete", seed=7, mix=mix)
    return StagedSampler(stages, config, lambda config: Sampler(source, config, SPECIAL))


def test_each_stage_has_rows_of_its_length_in_an_order_of_its_own(dataset: Path) -> None:
    ours = staged(dataset)
    assert [ours.batch(step).input_ids.shape[1] for step in range(8)] == [12] * 3 + [16] * 2 + [24] * 3
    alone = Sampler(
        open_split_data(dataset, "train"), SamplerConfig(batch=8, length=12, packing="complete", seed=7), SPECIAL
    )
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(ours.batch(2), field), getattr(alone.batch(2), field))
    last = [row for step in range(5, 12) for row in ours.batch(step).indices.tolist()]
    assert last[: ours.samples] == list(dict.fromkeys(last[: ours.samples])), "an epoch begins with the stage"
    assert ours.batch(3).indices.tolist() != ours.batch(0).indices.tolist()


@pytest.mark.parametrize("world", [2, 8])
def test_ranks_partition_the_global_batch(dataset: Path, world: int) -> None:
    ours = staged(dataset, MIX)
    for step in (0, 3, 5):
        whole, parts = ours.batch(step), [ours.batch(step, rank, world) for rank in range(world)]
        for field in FIELDS:
            assert (np.concatenate([getattr(part, field) for part in parts]) == getattr(whole, field)).all()


def test_a_mixture_changes_at_its_own_steps(dataset: Path) -> None:
    ours = staged(dataset, MIX)
    used = {one.name: one.rows for one in ours.use(8 * 8)}
    assert used["wiki"] == used["web"] == 16 and used["books"] == 32  # four steps each
    assert {one.name: one.rows for one in ours.use(3 * 8)} == {"wiki": 12, "web": 12, "books": 0, "none": 0}


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"stages": [{"until_step": 0, "length": 8}]}, "cannot end at 0"),
        ({"stages": [{"until_step": 5, "length": 8}, {"until_step": 5, "length": 9}]}, "begins at step 5"),
        ({"stages": [{"until_step": 5, "length": 1}]}, "at least 2 tokens"),
        ({"stages": [{"until_step": 5, "length": 8}], "checkpoint": {"every_epochs": 1}}, "epochs differ"),
        ({"stages": [{"until_step": 5, "length": 8}], "task": "classify", "data": ["x.jsonl"]}, "no stages"),
    ],
)
def test_impossible_stages_are_refused(more, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        parse_train_config({"steps": 10, **more}, "recipe.toml")


def test_tokens_of_steps_are_those_of_their_stages() -> None:
    train = parse_train_config({"steps": 10, "length": 24, "stages": [{"until_step": 3, "length": 30}]}, "recipe.toml")
    assert (train.longest, train.lengths) == (30, [30, 24])
    assert train.lengths_until(2) == [(0, 2, 30), (2, 2, 24)]
    assert train.lengths_until(10) == [(0, 3, 30), (3, 10, 24)]
