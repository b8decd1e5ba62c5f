"""Train a tokenizer on a corpus: count words, learn a vocabulary, and write a directory that other libraries load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Load a finished tokenizer, or one from elsewhere.

    Args:
        folder: output directory of `jprep tokenizer train`; any other folder that `AutoTokenizer` loads; or a name on
            the Hub: `org/name`, `org/name@revision`.

    Raises:
        ConfigError: the directory holds no finished tokenizer, or there is no such name.
    """
    from jprep.tokenizer.external.files import is_external, resolve_tokenizer
    from jprep.tokenizer.tokenizer import Tokenizer  # imports numpy, which `import jprep` avoids

    found = resolve_tokenizer(folder)
    if is_external(found):
        from jprep.tokenizer.external.tokenizer import ExternalTokenizer

        return ExternalTokenizer(found)
    return Tokenizer(found)
