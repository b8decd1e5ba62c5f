"""From raw Japanese text to a trained model: corpus, tokenizer, dataset, training.

>>> from jprep import Corpus, load_recipe, load_run, load_tokenizer, normalize, run, segment, split_sentences
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jprep.corpus.api import Corpus
    from jprep.corpus.text import normalize, segment, split_sentences
    from jprep.pipeline.recipe import load_recipe
    from jprep.pipeline.run import run
    from jprep.tokenizer import load_tokenizer
    from jprep.train.results.run import load_run

    __version__: str

__all__ = [
    "Corpus", "__version__", "load_recipe", "load_run", "load_tokenizer", "normalize", "run", "segment",
    "split_sentences",
]  # fmt: skip

_LAZY = {
    "Corpus": "jprep.corpus.api",
    "load_recipe": "jprep.pipeline.recipe",
    "load_run": "jprep.train.results.run",
    "load_tokenizer": "jprep.tokenizer",
    "normalize": "jprep.corpus.text",
    "run": "jprep.pipeline.run",
    "segment": "jprep.corpus.text",
    "split_sentences": "jprep.corpus.text",
}
"""Names that are imported on first use: workers and the command line start faster, and load no numpy without need."""


def __getattr__(name: str) -> Any:
    """Import a name of `_LAZY`, or find the version."""
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = version("jprep")  # reads a file: once
        return globals()[name]
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
