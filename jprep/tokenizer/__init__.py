"""Train a tokenizer on a corpus: count words, learn a vocabulary, and write a directory that other libraries load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Load a finished tokenizer.

    Args:
        folder: output directory of `jprep tokenizer train`.

    Raises:
        ConfigError: the directory holds no finished tokenizer.
    """
    from jprep.tokenizer.tokenizer import Tokenizer  # imports numpy, which `import jprep` avoids

    return Tokenizer(folder)
