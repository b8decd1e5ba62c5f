"""From raw Japanese text to a trained model: corpus, tokenizer, dataset, training.

>>> from jprep import Corpus, load_recipe, load_run, load_tokenizer, normalize, run, segment, split_sentences
"""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from jprep.corpus.api import Corpus
from jprep.corpus.text import normalize, segment, split_sentences
from jprep.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from jprep.pipeline.recipe import load_recipe
    from jprep.pipeline.run import run
    from jprep.train.results.run import load_run

__version__ = version("jprep")

__all__ = [
    "Corpus", "__version__", "load_recipe", "load_run", "load_tokenizer", "normalize", "run", "segment",
    "split_sentences",
]  # fmt: skip

_LAZY = {
    "load_recipe": "jprep.pipeline.recipe",
    "load_run": "jprep.train.results.run",
    "run": "jprep.pipeline.run",
}
"""Names that are imported on first use, so that `import jprep` loads no numpy."""


def __getattr__(name: str) -> Any:
    """Import a name of `_LAZY`."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
