"""Train an extension: count, learn new pieces, write the directory, and compare it with the old tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.document import UNMARK
from jprep.errors import ConfigError
from jprep.io.atomic import file_sha256, remove_tree
from jprep.tokenizer.card import TokenizerCard, write_card
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting import UnitCounts
from jprep.tokenizer.extending.base import BaseTokenizer
from jprep.tokenizer.extending.files import FILES, write_extension
from jprep.tokenizer.extending.pieces import NewPieces, learn_pieces, room_for_pieces
from jprep.tokenizer.external.engines import load_tokenizer_json
from jprep.tokenizer.external.files import display_name, resolve_tokenizer
from jprep.tokenizer.formats.file_names import TOKENIZER_JSON
from jprep.tokenizer.train import Training, read_sample

_LINES = 512  # per call


class ExtensionTraining(Training):
    """A run of `train` for a config with `extends`."""

    files = FILES

    def _resolve(self, config: TokenizerConfig) -> TokenizerConfig:
        """Return the config with the model of the old tokenizer.

        Raises:
            ConfigError: the config names another model; `bpe` is the default. Or it leaves no room for new pieces.
        """
        self._base = BaseTokenizer(resolve_tokenizer(config.extended))
        if config.model not in ("bpe", self._base.kind):
            what = f"model = {config.model!r}, but {config.extended} is {self._base.kind}"
            raise ConfigError(what, where="tokenizer.model", fix="remove `model`")
        room_for_pieces(self._base, config)  # before the text is counted
        return msgspec.structs.replace(config, model=self._base.kind)

    def _choose_normalizers(self) -> list[dict[str, Any]]:
        """Return none: the normalizer of the old tokenizer is in its file."""
        return []

    def _fields(self) -> dict[str, Any]:
        """Return the fingerprint fields."""
        files = {name: file_sha256(self._base.folder / name) for name in FILES if (self._base.folder / name).is_file()}
        return super()._fields() | {"extends": files}

    def _without_places(self) -> TokenizerConfig:
        return msgspec.structs.replace(super()._without_places(), extends=msgspec.UNSET)

    def _recorded_config(self) -> TokenizerConfig:
        return msgspec.structs.replace(super()._recorded_config(), extends=display_name(self._base.folder))

    def _make(self, counted: UnitCounts) -> TokenizerCard:
        """Learn the new pieces, write the tokenizer to the staging folder and compare it with the old one."""
        config, scratch, staged = self._config, self._state / "learning", self._staged
        new = self._learn(lambda: learn_pieces(self._base, counted, config, scratch))
        remove_tree(staged)
        write_extension(self._base, new, config.reserved_beside(self._base.ids), staged)
        card = self._card(counted.counts | self._sizes(new))
        write_card(staged, card)
        return msgspec.structs.replace(card, figures=_figures(self._base.folder, staged, counted))

    def _sizes(self, new: NewPieces) -> dict[str, int]:
        reserved = len(self._config.reserved_tokens)
        return {
            "vocabulary.size": self._base.size + len(new.pieces) + reserved,
            "ids.old": self._base.size,
            "ids.new.characters": len(new.characters),
            "ids.new.merges": len(new.merges),
            "ids.new.reserved": reserved,
        }


def _figures(old: Path, new: Path, counted: UnitCounts) -> dict[str, float]:
    """Return characters per token before and after, of each source."""
    samples = {f".{name}": paths for name, paths in counted.samples.items()} or {"": [counted.sample]}
    figures = {f"share.{name}": share for name, share in counted.shares.items()}
    for name, paths in samples.items():
        for when, folder in (("_before", old), ("", new)):
            figures[f"characters_per_token{when}{name}"] = _characters_per_token(folder, read_sample(paths))
    return figures


def _characters_per_token(folder: Path, lines: Iterable[str]) -> float:
    loaded, characters, tokens = load_tokenizer_json(folder / TOKENIZER_JSON), 0, 0
    for batch in _batches(line.translate(UNMARK) for line in lines):
        characters += sum(map(len, batch))
        tokens += sum(len(each.ids) for each in loaded.encode_batch_fast(batch, add_special_tokens=False))
    return round(characters / tokens, 6) if tokens else 0.0


def _batches(lines: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(lines)
    while batch := list(islice(rest, _LINES)):
        yield batch
