"""The client of a tokenizer process: transformers in a backend's environment encodes what the core cannot.

The process is `python -m jprep_torch.tokenize DIR`. It writes a line about the tokenizer, then reads requests
and writes responses, each one line of JSON, in the same order.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from jprep.errors import ConfigError, MachineError
from jprep.io.environments import environment_folders, interpreter, read_stamp
from jprep.json_process import JsonProcess
from jprep.tokenizer.encoding.batch import EncodedBatch, TokenSpans, cumulative_offsets
from jprep.tokenizer.external.alignment import align, surface
from jprep.tokenizer.external.engines import Engine
from jprep.tokenizer.external.roles import WithSpecialTokens, make_special_tokens

MODULE = "jprep_torch.tokenize"

_NEEDED = ("transformers", "jprep-torch")
_INSTALL = "jprep backends install torch"
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONSAFEPATH": "1"}


class Request(msgspec.Struct, frozen=True):
    """A request: encode texts, or decode ids.

    Attributes:
        do: what to do; `prompt` encodes texts in which special tokens are spelt.
        texts: texts to encode, without special tokens around them.
        pairs: second texts; then special tokens are added around each text, or around both.
        ids: ids to decode.
    """

    do: Literal["encode", "prompt", "around", "decode"]
    texts: list[str] = []
    pairs: list[str] = []
    ids: list[list[int]] = []


class Response(msgspec.Struct, frozen=True, omit_defaults=True):
    """The response to one request.

    Attributes:
        ids: of each text.
        types: the token type of each id, for `around`.
        texts: the decoded texts.
    """

    ids: list[list[int]] = []
    types: list[list[int]] = []
    texts: list[str] = []


class Description(msgspec.Struct, frozen=True):
    """The first line of a process: its tokenizer, or why it cannot be loaded.

    Attributes:
        pieces: the token of each id.
        roles: role → special token.
        special: all special tokens.
        error: why the tokenizer cannot be loaded, or "".
    """

    pieces: list[str] = []
    roles: dict[str, str] = {}
    special: list[str] = []
    error: str = ""


class ProcessEngine(Engine):
    """A tokenizer that transformers loads in another environment.

    Args:
        folder: the tokenizer's folder.

    Raises:
        ConfigError: transformers cannot load the folder.
        MachineError: no environment with transformers is installed, or its process died.
    """

    def __init__(self, folder: Path) -> None:
        command = [str(find_python(folder)), "-P", "-m", MODULE, str(folder.absolute())]
        self._process = JsonProcess(command, "the tokenizer process", folder, _ENVIRONMENT)
        about = self._process.read(Description)
        if about.error:
            fix = "check that AutoTokenizer.from_pretrained loads this folder in that environment"
            raise ConfigError(f"transformers cannot load this tokenizer: {about.error}", where=str(folder), fix=fix)
        self.pieces = about.pieces
        self._surfaces = ["" if piece == about.roles.get("unk") else surface(piece) for piece in about.pieces]
        self.special = make_special_tokens(
            about.roles, about.special, self.pieces.__getitem__, self._probe, str(folder)
        )

    def _probe(self, text: str, pair: str | None) -> tuple[Sequence[int], WithSpecialTokens]:
        found = self._send(Request("around", [text], [] if pair is None else [pair]))
        plain = self._send(Request("encode", [text])).ids[0]
        return plain, WithSpecialTokens(found.ids[0], found.types[0])

    def encode(self, texts: Sequence[str]) -> EncodedBatch:
        """See `Engine`."""
        ids = self._send(Request("encode", list(texts))).ids
        flat = np.fromiter((number for each in ids for number in each), np.int32)
        return EncodedBatch(flat, cumulative_offsets(map(len, ids)))

    def encode_prompt(self, text: str) -> list[int]:
        """See `Engine`."""
        return self._send(Request("prompt", [text])).ids[0]

    def encode_with_spans(self, texts: Sequence[str]) -> TokenSpans:
        """See `Engine`. The process does not say where tokens are: their spellings are matched to the text."""
        ids, offsets = self.encode(texts)
        spans: list[tuple[int, int]] = []
        for number, text in enumerate(texts):
            own = ids[offsets[number] : offsets[number + 1]].tolist()
            spans += align(text, [self._surfaces[one] for one in own])
        places = np.array(spans, np.int64).reshape(-1, 2)
        return TokenSpans(ids, offsets, places[:, 0], places[:, 1])

    def decode(self, texts: Sequence[Sequence[int]]) -> list[str]:
        """See `Engine`."""
        return self._send(Request("decode", ids=[list(ids) for ids in texts])).texts

    def _send(self, request: Request) -> Response:
        return self._process.ask(request, Response)


def find_python(folder: Path) -> Path:
    """Return the interpreter of an environment with transformers and jprep's backend torch.

    Args:
        folder: the tokenizer's folder, for the error.

    Raises:
        MachineError: there is none.
    """
    for parent in environment_folders():
        for path in sorted(parent.glob("*"), key=lambda path: (path.name != "torch", path.name)):
            stamp = read_stamp(path)
            if stamp and all(name in stamp.packages for name in _NEEDED) and interpreter(path).exists():
                return interpreter(path)
    if find_spec("transformers") and find_spec("jprep_torch"):
        return Path(sys.executable)
    what = "this tokenizer has no tokenizer.json: transformers has to read it, and no environment has transformers"
    raise MachineError(what, where=str(folder), fix=_INSTALL)
