"""fairseq itself, unmodified but for the mends, takes what `jprep dataset export` writes."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hand_trained import UPDATES

from jprep_fairseq_xla.native_cli import main


def test_fairseq_itself_learns_from_an_exported_dataset(by_hand: Callable[..., Any]) -> None:
    trained = by_hand("roberta")
    assert len(trained.losses) == UPDATES
    assert max(trained.losses[-3:]) < min(trained.losses[:3])
    assert trained.checkpoint.exists()
    assert "will be skipped" not in trained.said, "no sequence is longer than fairseq takes"


@pytest.mark.skipif(not find_spec("torch_xla"), reason="torch_xla is not here")
def test_fairseq_itself_takes_it_on_xla(by_hand: Callable[..., Any]) -> None:
    trained = by_hand("roberta", "--tpu", "--max-update=3", "--encoder-layers=1", "--disable-validation")
    assert len(trained.losses) == 3 and np.isfinite(trained.losses).all()
    assert trained.checkpoint.with_name("checkpoint_last.pt").exists()


def test_a_decoder_learns_from_it_too(by_hand: Callable[..., Any]) -> None:
    losses = by_hand("gpt2", "--decoder-learned-pos").losses
    assert max(losses[-3:]) < min(losses[:3])


def test_only_fairseq_s_programs_are_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rm"]) == main([]) == 2
    assert "train, preprocess" in capsys.readouterr().err
