"""Serve a tokenizer that only transformers can load: `python -m jprep_torch.tokenize DIR`.

The first line of the output describes the tokenizer; then each line of the input is a request, answered by one line.
See `jprep.tokenizer.external.process`, whose types these lines have.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

SENTENCEPIECE_MODELS = ("spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model")
ROLES = ("unk", "bos", "eos", "pad", "cls", "sep", "mask")


def main(folder: str) -> int:
    """Serve until the input ends, and return the exit code."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries print to standard output
    try:
        tokenizer = load(folder)
    except Exception as error:  # code of many tokenizers runs here: whatever it raises is the user's to read
        write(answers, {"error": f"{type(error).__name__}: {error}"})
        return 0
    write(answers, describe(tokenizer))
    for line in sys.stdin.buffer:
        write(answers, respond(tokenizer, json.loads(line)))
    return 0


def load(folder: str) -> Any:
    """Load a tokenizer; code in the folder is never run.

    Raises:
        ImportError: it has a SentencePiece model, and protobuf is not installed; transformers would name tiktoken.
    """
    from transformers import AutoTokenizer

    if any((Path(folder) / name).exists() for name in SENTENCEPIECE_MODELS) and not _has_protobuf():
        raise ImportError(
            f"transformers reads SentencePiece models with protobuf: {sys.executable} -m pip install protobuf"
        )
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)


def _has_protobuf() -> bool:
    try:
        return find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False


def describe(tokenizer: Any) -> dict[str, Any]:
    """Return the tokenizer's vocabulary and special tokens."""
    vocabulary = tokenizer.get_vocab()
    pieces = [""] * (max(vocabulary.values()) + 1)
    for piece, number in vocabulary.items():
        pieces[number] = piece
    roles = {role: getattr(tokenizer, f"{role}_token", None) for role in ROLES}
    known = {role: str(token) for role, token in roles.items() if token is not None and str(token) in vocabulary}
    special = [str(token) for token in tokenizer.all_special_tokens if str(token) in vocabulary]
    return {"pieces": pieces, "roles": known, "special": special}


def respond(tokenizer: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the response to a request."""
    if request["do"] == "decode":
        keep = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        return {"texts": [tokenizer.decode(ids, **keep) for ids in request["ids"]]}
    if request["do"] == "encode":
        return {"ids": [ids_of(tokenizer, text) for text in request["texts"]]}
    if request["do"] == "prompt":
        found = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in request["texts"]]
        return {"ids": [list(map(int, ids)) for ids in found]}
    found = tokenizer(request["texts"], request["pairs"] or None, return_token_type_ids=True)
    return {"ids": found["input_ids"], "types": found["token_type_ids"]}


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """Return the ids of a text; special tokens spelt in it are text, and none are added."""
    found = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)
    return [int(number) for number in found["input_ids"]]


def write(stream: TextIO, response: dict[str, Any]) -> None:
    """Write one line."""
    stream.write(json.dumps(response) + "\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
