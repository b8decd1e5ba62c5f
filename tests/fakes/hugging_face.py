"""Folders in Hugging Face form, written without transformers: a WordPiece tokenizer, a tiny BERT, files of PyTorch."""

from __future__ import annotations

import io
import json
import pickle
import sys
import types
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from jprep.io.safetensors_file import TensorFiles
from jprep.train.job.config import ModelConfig
from jprep.train.models import TokenizerInfo, model_config
from jprep.train.models.initial_weights import write_initial_weights

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*SPECIAL, "吾", "輩", "は", "猫", "犬", "で", "ある", "##る", "##輩", "。", "the", "cat", "##s", "日", "##本"]
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
         "max_position_embeddings": 32}  # fmt: skip
ROLES = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}


def write_wordpiece(folder: Path, pieces: list[str] = PIECES) -> Path:
    """Write the tokenizer of a BERT that splits Chinese characters, as `save_pretrained` does."""
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    built = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    built.normalizer = normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=False)
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    built.decoder = decoders.WordPiece()
    around = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    built.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=around
    )
    built.add_special_tokens(SPECIAL)
    folder.mkdir(parents=True, exist_ok=True)
    built.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "BertTokenizer", "model_max_length": 32, **ROLES}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def write_metaspace(folder: Path) -> Path:
    """Write the tokenizer of an XLM-RoBERTa of few pieces: `▁` begins words, and the mask takes the space before it."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [*special, "▁", "▁the", "▁cat", "s", "▁run", "吾", "輩", "は", "猫", "▁吾"]
    built = tokenizers.Tokenizer(models.Unigram([(piece, -1.0 - at) for at, piece in enumerate(pieces)], 3, False))
    built.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    built.decoder = decoders.Metaspace(prepend_scheme="always")
    built.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    built.add_special_tokens([*special, tokenizers.AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    folder.mkdir(parents=True, exist_ok=True)
    built.save(str(folder / "tokenizer.json"))
    roles = {"bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"}
    settings = {f"{role}_token": token for role, token in roles.items()}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "XLMRobertaTokenizer", **settings}))
    return folder


def write_byte_level(folder: Path) -> Path:
    """Write a GPT-2-like tokenizer of single bytes, without padding."""
    spelt = sorted(pre_tokenizers.ByteLevel.alphabet())
    built = tokenizers.Tokenizer(models.BPE({one: number for number, one in enumerate(spelt)}, []))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    built.decoder = decoders.ByteLevel()
    built.add_special_tokens(["<|endoftext|>"])
    folder.mkdir(parents=True, exist_ok=True)
    built.save(str(folder / "tokenizer.json"))
    (folder / "special_tokens_map.json").write_text(json.dumps({"eos_token": {"content": "<|endoftext|>"}}))
    return folder


def write_bert(
    folder: Path, task: str = "mlm", *, rows: int = len(PIECES), positions: int = 32, **changes: Any
) -> Path:
    """Write a BERT with random weights, its config, and its tokenizer."""
    write_wordpiece(folder)
    section = ModelConfig(config={"model_type": "bert", **SIZES, "max_position_embeddings": positions})
    labels = ("bad", "good") if task == "classify" else ()
    config = model_config(section, task, TokenizerInfo(rows, 16, pad=0, labels=labels))  # type: ignore[arg-type]
    write_initial_weights(config, task, 7, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config | {"position_embedding_type": "absolute"} | changes))
    return folder


def weights(folder: Path) -> dict[str, np.ndarray]:
    found = TensorFiles([folder / "model.safetensors"] if folder.is_dir() else [folder])
    return {name: np.array(found[name]) for name in found}


class _Torch:
    """The names that files of PyTorch refer to, for the pickler to find."""

    def __init__(self) -> None:
        self.modules = {name: types.ModuleType(name) for name in ("torch", "torch._utils")}
        self.storage = type("FloatStorage", (), {"__module__": "torch"})
        self.modules["torch"].FloatStorage = self.storage  # type: ignore[attr-defined]

        def _rebuild_tensor_v2(*arguments: Any) -> Any:
            return arguments

        _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
        self.rebuild = self.modules["torch._utils"]._rebuild_tensor_v2 = _rebuild_tensor_v2  # type: ignore[attr-defined]


class _Tensor:
    """Pickles as a tensor does, with its storage under a key."""

    def __init__(self, key: str, array: np.ndarray, torch: _Torch) -> None:
        self.key, self.array, self.torch = key, array, torch

    def __reduce__(self) -> tuple[Any, ...]:
        strides = tuple(size // self.array.itemsize for size in self.array.strides)
        storage = types.SimpleNamespace(key=self.key, size=self.array.size)
        return self.torch.rebuild, (_Stored(storage, self.torch), 0, self.array.shape, strides, False, OrderedDict())


class _Stored:
    def __init__(self, storage: Any, torch: _Torch) -> None:
        self.pid = ("storage", torch.storage, storage.key, "cpu", storage.size)


def write_pytorch(path: Path, tensors: Any, *, legacy: bool = False) -> Path:
    """Write `pytorch_model.bin`, or one tensor or value, as PyTorch does; `legacy` as before 1.6.

    Other values than arrays are pickled.
    """
    torch, data = _Torch(), {}
    described: dict[str, Any] = OrderedDict()
    for number, (name, array) in enumerate((tensors if isinstance(tensors, dict) else {"": tensors}).items()):
        data[str(number)] = array
        described[name] = _Tensor(str(number), array, torch) if isinstance(array, np.ndarray) else array
    arrays = {key: array.tobytes("A") for key, array in data.items() if isinstance(array, np.ndarray)}
    before = {name: sys.modules.get(name) for name in torch.modules}
    sys.modules.update(torch.modules)
    try:
        _write(path, described if isinstance(tensors, dict) else described[""], arrays, legacy=legacy)
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    return path


def _write(path: Path, described: Any, arrays: dict[str, bytes], *, legacy: bool) -> None:
    if legacy:
        with path.open("wb") as file:
            for head in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
                pickle.dump(head, file, 2)
            _Pickler(file, legacy=True).dump(described)
            pickle.dump(list(arrays), file, 2)
            for data in arrays.values():
                file.write((len(data) // 4).to_bytes(8, "little") + data)
        return
    pickled = io.BytesIO()
    _Pickler(pickled, legacy=False).dump(described)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", pickled.getvalue())
        for key, data in arrays.items():
            archive.writestr(f"archive/data/{key}", data)


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, *, legacy: bool) -> None:
        super().__init__(file, 2)
        self._more = (None,) if legacy else ()

    def persistent_id(self, value: Any) -> Any:
        return (*value.pid, *self._more) if isinstance(value, _Stored) else None
