"""Initial weights, compared with a second implementation; files of other models are refused."""

from __future__ import annotations

import json
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import ConfigError, InputError, MachineError
from jprep.io.safetensors_file import read_header
from jprep.random.counter_bits import key
from jprep.train.job.config import ModelConfig
from jprep.train.models import TokenizerInfo, model_config, parameters
from jprep.train.models.initial_weights import check_init_weights, normal_values, write_initial_weights
from tests.unit.test_counter_bits import bits_of, key_of

ABOUT = TokenizerInfo(vocab_size=300, length=16, bos=0, eos=2, pad=1, labels=("a", "b"))
NAME = "transformer.wte.weight"

# docs/training.md gives the same.
VECTOR = ["0x1.08ef5cp-5", "-0x1.15a3d8p-7", "-0x1.11670ap-5", "0x1.1d0a3ep-9", "-0x1.df35c2p-7", "0x1.6c10a4p-6"]


def config_of(preset: str, task: Any) -> dict[str, Any]:
    return model_config(ModelConfig(preset=preset), task, ABOUT)


def read(path: Path) -> dict[str, np.ndarray]:
    """Read the tensors of an fp32 safetensors file, independently of jprep."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    listed = json.loads(data[8 : 8 + size])
    assert listed.pop("__metadata__") == {"format": "pt"}
    assert size % 8 == 0
    assert sum(end - start for start, end in (one["data_offsets"] for one in listed.values())) == len(data) - 8 - size
    return {
        name: np.frombuffer(data[8 + size + one["data_offsets"][0] : 8 + size + one["data_offsets"][1]], "<f4").reshape(
            one["shape"]
        )
        for name, one in listed.items()
    }


def save(path: Path, tensors: dict[str, np.ndarray], dtypes: dict[str, str] | None = None) -> Path:
    listed, data = {}, b""
    for name, values in tensors.items():
        spelt = (dtypes or {}).get(name) or {"f4": "F32", "f8": "F64", "f2": "F16", "u2": "BF16"}[values.dtype.str[1:]]
        start, data = len(data), data + values.tobytes()
        listed[name] = {"dtype": spelt, "shape": values.shape, "data_offsets": [start, len(data)]}
    header = json.dumps(listed).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


def test_deviates_never_change():
    assert normal_values(key(1, NAME), 0, 6, 0.02).tolist() == [float.fromhex(digits) for digits in VECTOR]


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 50), st.sampled_from([0.02, 0.02 / 24**0.5, 1.0]))
def test_deviates_follow_the_documented_formula(seed, place, std):
    k = key_of(seed, NAME)
    words = [bits_of(k, 3 * place + number) for number in range(3)]
    total = sum(word >> shift & 0xFFFF for word in words for shift in (0, 16, 32, 48))
    [single] = struct.unpack("f", struct.pack("f", std * ((total - 393_210) / 65_536)))
    assert normal_values(key(seed, NAME), place, place + 1, std).tolist() == [single]


def test_deviates_are_normal():
    drawn = normal_values(key(7, NAME), 0, 1 << 20, 1.0).astype(np.float64)
    assert abs(drawn.mean()) < 0.005
    assert abs(drawn.std() - 1) < 0.005
    assert abs((drawn**3).mean()) < 0.02
    assert abs((drawn**4).mean() - (3 - 6 / 5 / 12)) < 0.03
    inside = [(abs(drawn) < far).mean() for far in (1, 2, 3)]
    assert inside == pytest.approx([0.6827, 0.9545, 0.9973], abs=0.006)  # a sum of twelve is a little flatter
    assert abs(drawn).max() <= 6


@pytest.mark.parametrize(("preset", "task"), [("gpt2-tiny", "clm"), ("roberta-tiny", "mlm"), ("llama-tiny", "regress")])
def test_each_tensor_starts_as_its_kind_says(preset, task, tmp_path):
    config = config_of(preset, task)
    write_initial_weights(config, task, 5, tmp_path / "init.safetensors")
    written = read(tmp_path / "init.safetensors")
    tensors = parameters(config, task)
    assert {name: values.shape for name, values in written.items()} == {
        name: one.shape for name, one in tensors.items()
    }
    for name, tensor in tensors.items():
        expected = np.full(tensor.shape, tensor.kind == "ones", np.float32)
        if tensor.kind == "normal":
            expected = normal_values(key(5, name), 0, tensor.size, tensor.std).reshape(tensor.shape).copy()
            expected[tensor.zero_row : tensor.zero_row + 1 if tensor.zero_row >= 0 else tensor.zero_row] = 0
        np.testing.assert_array_equal(written[name], expected, name)


def test_a_padding_row_far_into_a_table_is_zero(tmp_path):
    config = config_of("bert-tiny", "mlm") | {"pad_token_id": 299}
    write_initial_weights(config, "mlm", 5, tmp_path / "init.safetensors")
    table = read(tmp_path / "init.safetensors")["bert.embeddings.word_embeddings.weight"]
    assert (~table.any(axis=1)).nonzero()[0].tolist() == [299]


def test_safetensors_reads_the_written_file(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    write_initial_weights(config_of("bert-tiny", "classify"), "classify", 1, tmp_path / "init.safetensors")
    theirs, ours = library.load_file(tmp_path / "init.safetensors"), read(tmp_path / "init.safetensors")
    assert theirs.keys() == ours.keys()
    for name in ours:
        np.testing.assert_array_equal(theirs[name], ours[name])


def test_weights_depend_on_the_seed_only(tmp_path):
    config = config_of("gpt2-tiny", "clm")
    paths = [tmp_path / str(number) for number in range(3)]
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        write_initial_weights(config, "clm", seed, path)
    one, same, other = (path.read_bytes() for path in paths)
    assert one == same != other


def test_memory_does_not_grow_with_the_model(tmp_path):
    def peak(wide: int) -> int:
        section = ModelConfig(preset="gpt2-tiny", config={"n_embd": wide, "n_layer": 1})
        config = model_config(section, "clm", ABOUT)
        tracemalloc.start()
        write_initial_weights(config, "clm", 1, tmp_path / "init.safetensors")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(64)
    assert peak(512) < peak(64) + 500_000  # 14 MB of weights


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jprep.train.models.initial_weights.initial_values", full)
    with pytest.raises(MachineError, match="full"):
        write_initial_weights(config_of("gpt2-tiny", "clm"), "clm", 1, tmp_path / "init.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def given_mlm(tmp_path: Path) -> dict[str, np.ndarray]:
    write_initial_weights(config_of("bert-tiny", "mlm"), "mlm", 9, tmp_path / "made")
    return read(tmp_path / "made")


def test_given_weights_are_used_unchanged(given_mlm, tmp_path):
    path = save(tmp_path / "model.safetensors", given_mlm)
    write_initial_weights(config_of("bert-tiny", "mlm"), "mlm", 1, tmp_path / "init", path)
    assert (tmp_path / "init").read_bytes() == (tmp_path / "made").read_bytes()


@pytest.mark.parametrize("kind", ["f8", "f2", "bf16"])
def test_given_weights_become_fp32(kind, given_mlm, tmp_path):
    name = "bert.encoder.layer.0.output.dense.weight"
    if kind == "bf16":
        narrow = (given_mlm[name].view(np.uint32) >> 16).astype(np.uint16)
        expected = (narrow.astype(np.uint32) << 16).view(np.float32)
    else:
        narrow = given_mlm[name].astype(kind)
        expected = narrow.astype(np.float32)
    path = save(tmp_path / "model.safetensors", given_mlm | {name: narrow})
    write_initial_weights(config_of("bert-tiny", "mlm"), "mlm", 1, tmp_path / "init", path)
    np.testing.assert_array_equal(read(tmp_path / "init")[name], expected)


def test_a_missing_classification_head_is_initialized(given_mlm, tmp_path):
    path, config = save(tmp_path / "model.safetensors", given_mlm), config_of("bert-tiny", "classify")
    write_initial_weights(config, "classify", 1, tmp_path / "init", path)
    write_initial_weights(config, "classify", 1, tmp_path / "fresh")
    written, fresh = read(tmp_path / "init"), read(tmp_path / "fresh")
    heads = {name for name, tensor in parameters(config, "classify").items() if tensor.head}
    assert heads == {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias"}
    for name, values in written.items():
        np.testing.assert_array_equal(values, fresh[name] if name in heads else given_mlm[name], name)


def test_older_files_are_read(tmp_path):
    config = config_of("gpt2-tiny", "clm")
    write_initial_weights(config, "clm", 9, tmp_path / "made")
    made = read(tmp_path / "made")
    old = {name.removeprefix("transformer."): values for name, values in made.items()}
    old["h.0.attn.bias"] = np.ones((1, 1, 4, 4), np.float32)
    old["lm_head.weight"] = made[NAME]
    write_initial_weights(config, "clm", 1, tmp_path / "init", save(tmp_path / "old", old))
    assert (tmp_path / "init").read_bytes() == (tmp_path / "made").read_bytes()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bert.encoder.layer.1.output.dense.weight": None}, "no tensor 'bert.encoder.layer.1.output.dense.weight'"),
        (
            {"cls.predictions.bias": np.zeros(301, np.float32)},
            "'cls.predictions.bias' has the shape 301; the model needs 300",
        ),
        ({"bert.encoder.layer.2.output.dense.bias": np.zeros(128, np.float32)}, "no tensor 'bert.encoder.layer.2"),
    ],
)
def test_another_models_weights_are_refused(change, says, given_mlm, tmp_path):
    changed = {name: values for name, values in (given_mlm | change).items() if values is not None}
    path = save(tmp_path / "model.safetensors", changed)
    with pytest.raises(ConfigError, match=says):
        check_init_weights(config_of("bert-tiny", "mlm"), "mlm", path)


def test_numbers_of_another_type_are_refused(given_mlm, tmp_path):
    name = "cls.predictions.bias"
    path = save(tmp_path / "model.safetensors", given_mlm, {name: "I32"})
    with pytest.raises(ConfigError, match=f"{name!r} has the dtype I32"):
        check_init_weights(config_of("bert-tiny", "mlm"), "mlm", path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_with_nan_or_infinity_are_refused(value, given_mlm, tmp_path):
    given_mlm["cls.predictions.bias"] = np.full(300, value, np.float32)
    path = save(tmp_path / "model.safetensors", given_mlm)
    with pytest.raises(InputError, match=r"'cls.predictions.bias' contains NaN or infinity"):
        write_initial_weights(config_of("bert-tiny", "mlm"), "mlm", 1, tmp_path / "init", path)
    assert not (tmp_path / "init").exists()


@given(data=st.data())
def test_damaged_files_are_errors(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    whole = save(folder / "whole", {"a": np.ones((2, 3), np.float32), "b": np.zeros(5, np.float32)}).read_bytes()
    cut = data.draw(st.integers(0, len(whole) - 1))
    (folder / "cut").write_bytes(whole[:cut])
    with pytest.raises(InputError):
        read_header(folder / "cut")
    place, flip = data.draw(st.integers(0, len(whole) - 45)), data.draw(st.integers(1, 255))
    (folder / "flipped").write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
    try:
        found = read_header(folder / "flipped")
    except InputError:
        return
    assert all(one.start + one.bytes <= len(whole) for one in found.values())


def test_a_missing_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_header(tmp_path / "none.safetensors")
