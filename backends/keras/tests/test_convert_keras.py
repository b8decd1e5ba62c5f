"""TensorFlow 1 checkpoints of BERT and ELECTRA: logits computed here from the papers equal those of transformers."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jprep.errors import ConfigError, InputError
from jprep_keras.convert.__main__ import main
from jprep_keras.convert.from_tensorflow1 import ConversionOptions, from_tensorflow1

Arrays = dict[str, np.ndarray]

ROWS, POSITIONS, TYPES, LAYERS = 60, 24, 2, 2
IDS = np.array([[2, 11, 12, 13, 3, 21, 22, 3], [2, 31, 4, 33, 34, 35, 36, 3]])
SEGMENTS = np.array([[0, 0, 0, 0, 0, 1, 1, 1], [0] * 8])
TOLERANCE = 2e-5

LOGITS = """
import json, sys, torch, transformers
folder, ids, segments = sys.argv[1], *(torch.tensor(json.loads(one)) for one in sys.argv[2:4])
name = json.load(open(folder + "/config.json"))["architectures"][0]
model, about = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
assert not about["missing_keys"] and not about["unexpected_keys"], about
found = model.eval()(input_ids=ids, token_type_ids=segments)
both = name == "BertForPreTraining"
heads = [found.prediction_logits, found.seq_relationship_logits] if both else [found.logits]
print(json.dumps([name, *(one.tolist() for one in heads)]))
"""


def variables(root: str, wide: int, width: int, rng: np.random.Generator, *, own_tables: bool = True) -> Arrays:
    """Return the variables of an encoder under their published names."""

    def dense(name: str, inputs: int, outputs: int) -> Arrays:
        return {f"{name}/kernel": rng.normal(0, 0.2, (inputs, outputs)), f"{name}/bias": rng.normal(0, 0.1, outputs)}

    def norm(name: str, size: int) -> Arrays:
        return {f"{name}/gamma": rng.normal(1, 0.1, size), f"{name}/beta": rng.normal(0, 0.1, size)}

    found: Arrays = {}
    if own_tables:
        sizes = {"word_embeddings": ROWS, "position_embeddings": POSITIONS, "token_type_embeddings": TYPES}
        found |= {f"{root}/embeddings/{name}": rng.normal(0, 0.3, (rows, wide)) for name, rows in sizes.items()}
        found |= norm(f"{root}/embeddings/LayerNorm", wide)
    if wide != width:
        found |= dense(f"{root}/embeddings_project", wide, width)
    for layer in range(LAYERS):
        at = f"{root}/encoder/layer_{layer}"
        for part in ("query", "key", "value"):
            found |= dense(f"{at}/attention/self/{part}", width, width)
        found |= dense(f"{at}/attention/output/dense", width, width) | norm(f"{at}/attention/output/LayerNorm", width)
        found |= dense(f"{at}/intermediate/dense", width, 2 * width) | dense(f"{at}/output/dense", 2 * width, width)
        found |= norm(f"{at}/output/LayerNorm", width)
    return found


def gelu(x: np.ndarray) -> np.ndarray:
    """GELU as both repositories compute it (Hendrycks & Gimpel 2016, the approximation with tanh)."""
    return x * 0.5 * (1.0 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def exact_gelu(x: np.ndarray) -> np.ndarray:
    """GELU by its definition, as transformers' head of ELECTRA's generator computes it."""
    return x * 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2)))


def linear(x: np.ndarray, weights: Arrays, name: str) -> np.ndarray:
    return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def normalized(x: np.ndarray, weights: Arrays, name: str) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    return scaled * weights[f"{name}/gamma"] + weights[f"{name}/beta"]


def encoded(weights: Arrays, root: str, heads: int, tables: str = "") -> np.ndarray:
    """Return the last hidden states (Vaswani et al. 2017, Devlin et al. 2019)."""
    tables = f"{tables or root}/embeddings"
    x = weights[f"{tables}/word_embeddings"][IDS] + weights[f"{tables}/token_type_embeddings"][SEGMENTS]
    x = normalized(x + weights[f"{tables}/position_embeddings"][: IDS.shape[1]], weights, f"{tables}/LayerNorm")
    if f"{root}/embeddings_project/kernel" in weights:
        x = linear(x, weights, f"{root}/embeddings_project")
    for layer in range(LAYERS):
        at = f"{root}/encoder/layer_{layer}"

        def split(part: str, at: str = at, x: np.ndarray = x) -> np.ndarray:
            return linear(x, weights, f"{at}/attention/self/{part}").reshape(*IDS.shape, heads, -1).swapaxes(1, 2)

        queries, keys, values = map(split, ("query", "key", "value"))
        scores = queries @ keys.swapaxes(-1, -2) / math.sqrt(queries.shape[-1])
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (shares / shares.sum(-1, keepdims=True) @ values).swapaxes(1, 2).reshape(x.shape)
        x = normalized(
            x + linear(mixed, weights, f"{at}/attention/output/dense"), weights, f"{at}/attention/output/LayerNorm"
        )
        inner = linear(gelu(linear(x, weights, f"{at}/intermediate/dense")), weights, f"{at}/output/dense")
        x = normalized(x + inner, weights, f"{at}/output/LayerNorm")
    return x


def save(path: Path, weights: Arrays) -> Path:
    """Save variables as TensorFlow 1 does, with slots of the optimizer beside them."""
    import tensorflow as tf

    compat = tf.compat.v1
    with compat.Graph().as_default(), compat.Session() as session:
        slots = {f"{name}/adam_m": np.zeros_like(one) for name, one in list(weights.items())[:3]}
        for name, values in (weights | slots).items():
            compat.get_variable(name, initializer=values.astype(np.float32))
        compat.get_variable("global_step", initializer=np.int64(7))
        session.run(compat.global_variables_initializer())
        compat.train.Saver().save(session, str(path))
    return path


def logits(folder: Path) -> list[Any]:
    """Return the class of transformers for a converted folder, and its logits."""
    if "JPREP_TORCH" not in os.environ:
        pytest.skip("JPREP_TORCH names no Python that has PyTorch")
    arguments = [str(folder), json.dumps(IDS.tolist()), json.dumps(SEGMENTS.tolist())]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    command = [os.environ["JPREP_TORCH"], "-c", LOGITS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture
def bert() -> Arrays:
    rng = np.random.default_rng(1)
    head = {
        "bert/pooler/dense/kernel": rng.normal(0, 0.2, (16, 16)), "bert/pooler/dense/bias": rng.normal(0, 0.1, 16),
        "cls/predictions/transform/dense/kernel": rng.normal(0, 0.2, (16, 16)),
        "cls/predictions/transform/dense/bias": rng.normal(0, 0.1, 16),
        "cls/predictions/transform/LayerNorm/gamma": rng.normal(1, 0.1, 16),
        "cls/predictions/transform/LayerNorm/beta": rng.normal(0, 0.1, 16),
        "cls/predictions/output_bias": rng.normal(0, 0.1, ROWS),
        "cls/seq_relationship/output_weights": rng.normal(0, 0.2, (2, 16)),
        "cls/seq_relationship/output_bias": rng.normal(0, 0.1, 2),
    }  # fmt: skip
    return variables("bert", 16, 16, rng) | head


def test_bert(bert: Arrays, tmp_path: Path) -> None:
    (tmp_path / "bert_config.json").write_text(json.dumps({"num_attention_heads": 2, "hidden_act": "gelu"}))
    pieces = "".join(f"[{name}]\n" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")) + "the\n\u2028\n\x85\n猫\n"
    (tmp_path / "vocab.txt").write_bytes(pieces.replace("\n", "\r\n").encode())
    assert main([str(save(tmp_path / "bert_model.ckpt", bert)), str(tmp_path / "out")]) == 0
    x = encoded(bert, "bert", 2)
    hidden = gelu(linear(x, bert, "cls/predictions/transform/dense"))
    hidden = normalized(hidden, bert, "cls/predictions/transform/LayerNorm")
    words = hidden @ bert["bert/embeddings/word_embeddings"].T + bert["cls/predictions/output_bias"]
    pooled = np.tanh(linear(x[:, 0], bert, "bert/pooler/dense"))
    following = pooled @ bert["cls/seq_relationship/output_weights"].T + bert["cls/seq_relationship/output_bias"]
    name, *found = logits(tmp_path / "out")
    assert name == "BertForPreTraining"
    for one, expected in zip(found, (words, following), strict=True):
        np.testing.assert_allclose(one, expected, atol=TOLERANCE)
    settings = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert (settings["tokenizer_class"], settings["do_lower_case"]) == ("BertTokenizer", True)
    assert settings["model_max_length"] == POSITIONS
    assert (tmp_path / "out" / "vocab.txt").read_bytes().decode() == pieces, "each token keeps its id"


@pytest.fixture
def electra() -> Arrays:
    rng = np.random.default_rng(2)
    return (
        variables("electra", 8, 64, rng)
        | variables("generator", 8, 32, rng, own_tables=False)
        | {
            "discriminator_predictions/dense/kernel": rng.normal(0, 0.2, (64, 64)),
            "discriminator_predictions/dense/bias": rng.normal(0, 0.1, 64),
            "discriminator_predictions/dense_1/kernel": rng.normal(0, 0.2, (64, 1)),
            "discriminator_predictions/dense_1/bias": rng.normal(0, 0.1, 1),
            "generator_predictions/dense/kernel": rng.normal(0, 0.2, (32, 8)),
            "generator_predictions/dense/bias": rng.normal(0, 0.1, 8),
            "generator_predictions/LayerNorm/gamma": rng.normal(1, 0.1, 8),
            "generator_predictions/LayerNorm/beta": rng.normal(0, 0.1, 8),
            "generator_predictions/output_bias": rng.normal(0, 0.1, ROWS),
        }
    )


def test_both_halves_of_electra(electra: Arrays, tmp_path: Path) -> None:
    checkpoint = save(tmp_path / "electra", electra)
    from_tensorflow1(checkpoint, tmp_path / "disc", ConversionOptions())
    from_tensorflow1(checkpoint, tmp_path / "gen", ConversionOptions(part="generator"))
    hidden = gelu(linear(encoded(electra, "electra", 1), electra, "discriminator_predictions/dense"))
    replaced = linear(hidden, electra, "discriminator_predictions/dense_1")[..., 0]
    name, found = logits(tmp_path / "disc")
    assert name == "ElectraForPreTraining"
    np.testing.assert_allclose(found, replaced, atol=TOLERANCE)
    hidden = exact_gelu(linear(encoded(electra, "generator", 1, "electra"), electra, "generator_predictions/dense"))
    hidden = normalized(hidden, electra, "generator_predictions/LayerNorm")
    words = hidden @ electra["electra/embeddings/word_embeddings"].T + electra["generator_predictions/output_bias"]
    name, found = logits(tmp_path / "gen")
    assert name == "ElectraForMaskedLM"
    np.testing.assert_allclose(found, words, atol=TOLERANCE)


def test_what_is_not_a_model_is_refused(bert: Arrays, tmp_path: Path) -> None:
    def convert(name: str, weights: Arrays, **options: Any) -> None:
        from_tensorflow1(save(tmp_path / name, weights), tmp_path / "out", ConversionOptions(**options))

    with pytest.raises(ConfigError, match="not a TensorFlow checkpoint"):
        from_tensorflow1(tmp_path / "nowhere", tmp_path / "out", ConversionOptions())
    with pytest.raises(ConfigError, match="variables of another model"):
        convert("other", {"gpt/wte": np.zeros((2, 2))})
    with pytest.raises(InputError, match="no variable for"):
        convert("part", {"bert/embeddings/word_embeddings": np.zeros((2, 2))})
    with pytest.raises(InputError, match="NaN or infinity"):
        convert("broken", bert | {"bert/pooler/dense/bias": np.full(16, np.nan)})
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 768}))
    with pytest.raises(ConfigError, match="hidden_size is 768 in the config, but 16"):
        convert("config", bert, config=tmp_path / "config.json")
    assert not (tmp_path / "out").exists()
