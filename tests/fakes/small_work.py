"""A recipe of a small model with its tokenizer and its dataset, where `jprep train` looks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jprep.tokenizer import load_tokenizer
from tests.fakes.small_dataset import SPLITS, lay_out
from tests.unit.tokenizer.vocabularies import finished, small

RECIPE = """name = "small"

[train]
task = "mlm"
model = { preset = "roberta-tiny" }
batch = 8
length = 16
steps = 30
log_every = 5
checkpoint = { every_steps = 10 }
validation = { every_steps = 10, batches = 2 }
"""


def small_work(folder: Path, **changes: Any) -> Path:
    """Write `small.toml` and `work/small/{tokenizer,dataset}` beside it. Return the recipe's path."""
    made = folder / "work" / "small"
    loaded = load_tokenizer(finished(made / "tokenizer", small("unigram", special=["roberta"])))
    documents = {
        name: [[[[4 + token % 250 for token in sentence] for sentence in part] for part in one] for one in several]
        for name, several in SPLITS.items()
    }
    made_from = {"tokenizer": {"fingerprint": loaded.card.fingerprint}, "segmenter": {"name": "pointwise"}}
    lay_out(made / "dataset", documents, **{"made_from": made_from, "vocab_size": loaded.vocab_size} | changes)
    recipe = folder / "small.toml"
    recipe.write_text(RECIPE)
    return recipe
