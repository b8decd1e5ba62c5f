"""Add tokens to a tokenizer from elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import TOKENIZER_EXPORT
from jprep.errors import ConfigError
from jprep.io.atomic import write_atomic
from jprep.tokenizer.external.engines import load_tokenizer_json
from jprep.tokenizer.external.files import is_external, resolve_tokenizer, tokenizer_files
from jprep.tokenizer.formats.file_names import TOKENIZER_JSON


def extend_tokenizer(source: str | Path, tokens: Sequence[str], folder: Path) -> list[str]:
    """Write a tokenizer with additional tokens, which get the next ids. Other ids stay as they are.

    Args:
        source: the folder of the tokenizer, or its name on the Hub.
        tokens: the tokens; those that it has already are left out.
        folder: output directory; new, empty, or with exports of tokenizers.

    Returns:
        The tokens that were added.

    Raises:
        ConfigError: the folder does not exist, or holds no `tokenizer.json`; a token is empty; or the output directory
            has other content.
        MachineError: the files cannot be written.
    """
    from tokenizers import AddedToken

    origin = resolve_tokenizer(source)
    if not origin.is_dir():
        fix = "give a folder with tokenizer.json, or a name on the Hub: org/name"
        raise ConfigError("there is no such folder", where=str(origin), fix=fix)
    if not is_external(origin) or not (origin / TOKENIZER_JSON).is_file():
        fix = "give a folder with tokenizer.json that jprep did not write; for jprep's own, use tokenizer.special"
        raise ConfigError("tokens cannot be added to this tokenizer", where=str(origin), fix=fix)
    if any(not token.strip() for token in tokens):
        raise ConfigError("a token is empty", where="the list of tokens", fix="give one token a line")
    loaded = load_tokenizer_json(origin / TOKENIZER_JSON)
    known = loaded.get_vocab(with_added_tokens=True)
    new = [token for token in dict.fromkeys(tokens) if token not in known]
    loaded.add_tokens([AddedToken(token, normalized=False) for token in new])
    with OutputDirectory(folder, TOKENIZER_EXPORT).claim():
        for name in tokenizer_files(origin):
            if name != TOKENIZER_JSON:
                shutil.copyfile(origin / name, folder / name)
        write_atomic(folder / TOKENIZER_JSON, loaded.to_str(pretty=True).encode())
    return new
