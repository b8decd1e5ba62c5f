"""From a corpus to a tokenizer: word counts, a vocabulary, a directory that others load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Load a finished tokenizer.

    Args:
        folder: that of `jprep tokenizer train -o`.

    Raises:
        ConfigError: there is none.
    """
    from jprep.tokenizer.tokenizer import Tokenizer  # with numpy, which `import jprep` does without

    return Tokenizer(folder)
