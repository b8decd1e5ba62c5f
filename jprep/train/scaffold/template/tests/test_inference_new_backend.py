"""Text generation with a model that generates deterministically."""

from __future__ import annotations

import numpy as np

from jprep.train.inference.protocol import Generate
from jprep_new_backend.models.language_model import POSITIONS, TOKENS, LanguageModel
from jprep_new_backend.worker.inference import generate


def test_generation_stops_at_the_end_token_and_at_the_limit() -> None:
    """A model without layers whose tokens are orthogonal predicts the token that it sees."""
    model = LanguageModel({"n_layer": 0}, {TOKENS: np.eye(6), POSITIONS: np.zeros((20, 6))})
    assert generate(model, Generate(ids=[1, 4], tokens=3)) == [4, 4, 4]
    assert generate(model, Generate(ids=[1, 4], tokens=3, end=[4])) == []
