"""The figures of `jprep evaluate` in model cards."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from jprep.train.evaluation.records import Evaluation, add_evaluation
from jprep.train.exporting import export
from jprep.train.run.directory import checkpoints_of, read_job
from tests.fakes.trained_run import model_of, trained_run


@pytest.mark.usefixtures("copying")
def test_the_model_card_lists_evaluations_of_its_checkpoint(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    job = read_job(run)
    seals = {each.step: each.commit.seal for each in checkpoints_of(run, job).committed()}
    measured = Evaluation(
        job=job.fingerprint, step=10, checkpoint=seals[10], backend="torch", precision="fp32",
        name="news", data=["/data/of-mine/dataset"], split="test",
        made_from=["1" * 32], rows=1204, figures={"loss": 3.25, "perplexity": 25.79},
    )  # fmt: skip
    trained_on = {"split": "train", "made_from": ["3" * 32], "precision": "bf16", "seen": True}
    others = [
        structs.replace(measured, step=5, checkpoint=seals[5], figures={"loss": 9.5}),
        structs.replace(measured, made_from=["2" * 32], data=["/data/of-others/dataset"], figures={"loss": 4.5}),
        structs.replace(measured, **trained_on, figures={"loss": 1.5, "mcc": None}),
    ]
    for one in (measured, *others):
        add_evaluation(run, one)
    card = (export(run) / "README.md").read_text(encoding="utf-8")
    assert "| loss on test of news (11111111), 1,204 rows | 3.2500 |" in card and "| perplexity on test of news" in card
    assert "| loss on test of news (22222222), 1,204 rows | 4.5000 |" in card, "it has the same name"
    assert "| loss on train of news, 1,204 training rows, in bf16 | 1.5000 |" in card and "mcc" not in card
    assert "9.5" not in card and "of-mine" not in card


@pytest.mark.usefixtures("copying")
@pytest.mark.parametrize("given", [True, False])
def test_the_model_card_lists_evaluations_of_given_initial_weights(given: bool, tmp_path: Path) -> None:
    first = trained_run(tmp_path / "first")
    model = {"init": str(export(first))} if given else model_of("roberta")
    run = trained_run(tmp_path / "second", model=model)
    measured = Evaluation(
        job=read_job(run).fingerprint, step=0, checkpoint="1" * 64, initial=True, backend="torch", precision="fp32",
        name="news", data=["/data/news"], split="test", made_from=["1" * 32], rows=12, figures={"loss": 3.25},
    )  # fmt: skip
    add_evaluation(run, measured)
    card = (export(run) / "README.md").read_text(encoding="utf-8")
    assert ("| loss on test of news, 12 rows, before the training | 3.2500 |" in card) == given
