"""Check what `[train.model]` starts from when a job is built, and open it when initial weights are written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jprep.errors import ConfigError, InputError
from jprep.io.atomic import file_sha256
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.formats.file_names import TOKENIZER_JSON
from jprep.train.job.config import TrainConfig
from jprep.train.models.initial_weights import check_init_weights
from jprep.train.models.presets import TransformersConfig
from jprep.train.pretrained.config import PretrainedConfig, read_pretrained_config
from jprep.train.pretrained.given_state import hash_given_state
from jprep.train.pretrained.halves import hash_generator
from jprep.train.pretrained.location import WHERE, missing_init, refuse_run
from jprep.train.pretrained.universal import is_described
from jprep.train.pretrained.vocabulary import RowSources, row_sources
from jprep.train.pretrained.weights import weight_files, weights_sha256

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer

VOCABULARY = "train.model.vocabulary"


def pretrained_config(train: TrainConfig) -> PretrainedConfig | None:
    """Return the config of the model to start from; None without one, or if only weights are given.

    Raises:
        ConfigError: there is no such file or folder, or jprep cannot train the model.
    """
    path = Path(train.model.init)
    if train.model.init and not path.exists():
        raise missing_init(train.model.init)
    if train.model.init:
        refuse_run(path)
    if train.model.init and is_described(path):
        return read_pretrained_config(path)
    if train.model.vocabulary == "transfer":
        what = 'vocabulary = "transfer" needs a folder in train.model.init, with weights and their tokenizer'
        raise ConfigError(what, where=VOCABULARY, fix="give a folder or a name on the Hub as train.model.init")
    return None


def hash_init(train: TrainConfig, model: TransformersConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    """Check the given weights, and return the hashes that enter the job's fingerprint; without weights, `init` is "".

    Raises:
        ConfigError: the weights are not those of the model, or the tokenizer is not that of the model.
        InputError: a file is damaged.
    """
    if not train.model.init:
        if train.model.continue_training:
            raise ConfigError("continue_training needs a universal checkpoint", where=WHERE, fix=f"give it as {WHERE}")
        return {"init": ""}
    path = Path(train.model.init)
    rows, hashes = None, dict[str, str]()
    if train.model.vocabulary == "transfer":
        old = load_tokenizer(path)
        rows, hashes = row_sources(old, tokenizer), {"vocabulary": old.card.fingerprint}
    elif path.is_dir():
        _refuse_other_vocabulary(path, tokenizer)
    generator = train.rtd.generator_init if train.task == "rtd" else ""
    check_init_weights(model, train.objective, path, rows, Path(generator) if generator else None)
    sha256 = weights_sha256(path)
    for file in [*weight_files(path), *(weight_files(Path(generator)) if generator else ())]:
        _refuse_damaged_export(file)
    state = hash_given_state(train, model, path) if train.model.continue_training else {}
    return {"init": sha256, **hashes, **hash_generator(train), **state}


def transferred_rows(train: TrainConfig, init: Path, tokenizer: Path) -> RowSources | None:
    """Return the old rows for each id of the job's tokenizer; None if the vocabulary is the same."""
    if train.model.vocabulary == "same":
        return None
    return row_sources(load_tokenizer(init), load_tokenizer(tokenizer))


def _refuse_other_vocabulary(path: Path, tokenizer: Tokenizer) -> None:
    """Raise ConfigError if the tokenizer beside the weights gives an id to another token."""
    own = path / TOKENIZER_JSON
    if not own.is_file() or path.resolve() == tokenizer.folder.resolve():
        return
    before = load_tokenizer(path)
    for number in range(min(before.vocab_size, tokenizer.vocab_size)):
        if before.piece_of(number) != tokenizer.piece_of(number):
            pair = f"id {number} is {tokenizer.piece_of(number)!r}, but {before.piece_of(number)!r} in the model's own"
            fix = f'use --tokenizer {path}; or set train.model.vocabulary = "transfer"'
            raise ConfigError(f"the tokenizer is not that of the model: {pair}", where=WHERE, fix=fix)


def _refuse_damaged_export(path: Path) -> None:
    """Raise InputError if the file is part of an exported model and differs from what was exported."""
    from jprep.train.exporting.manifest import MANIFEST, read_export

    if (path.parent / MANIFEST).exists():
        sha256 = file_sha256(path)
        if read_export(path.parent).files.get(path.name, sha256) != sha256:
            fix = "export the run again; or, if it was changed on purpose, copy it out of this folder"
            raise InputError("this file differs from what was exported", where=str(path), fix=fix)
