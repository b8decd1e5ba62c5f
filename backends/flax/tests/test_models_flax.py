"""Models have the outputs, losses and gradients of transformers, and do not depend on padding or sharding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file
from small_models import MODELS, inputs_of, model_with_loss

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.train.models import parameter_count
from jprep_flax.models import loss, weights
from jprep_flax.models.dropout import choose_masks, dropout
from jprep_flax.models.layers import ACTIVATIONS
from jprep_flax.models.model_with_loss import ModelInputs, ModelWithLoss
from tests.fakes.small_models import CASES, IDS, transformers_outputs


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return transformers_outputs(MODELS, tmp_path_factory.mktemp("models"))


def measured(graph: Any, state: Any, rows: Any, key: Any = None) -> tuple[float, np.ndarray, Any]:
    """Return the loss, outputs and gradient. Inputs are arguments, so that each shape is compiled once."""

    def loss(state: Any, rows: Any, key: Any) -> Any:
        total, outputs, _ = nnx.merge(graph, state)(rows, key)
        return total, outputs

    (found, outputs), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(state, rows, key)
    return float(found), np.asarray(outputs), gradient


def forward(graph: Any, state: Any, rows: ModelInputs) -> tuple[Any, Any]:
    """Return the loss and outputs."""
    return jax.jit(lambda state, rows: nnx.merge(graph, state)(rows)[:2])(state, rows)


def extract_tensor(array: Any, location: weights.TensorLocation) -> np.ndarray:
    """Return a tensor from the array that holds it, without rows that only pad an embedding."""
    part = np.asarray(array) if location.layer is None else np.asarray(array)[location.layer]
    return part.reshape(-1)[: location.tensor.size].reshape(location.tensor.shape)


def by_name(state: Any, config: dict[str, Any], task: str) -> dict[str, np.ndarray]:
    flat = dict(nnx.to_flat_state(state))
    return {
        name: extract_tensor(flat[location.path][...], location)
        for name, location in weights.tensor_locations(config, task).items()
    }


def small(tmp_path: Path, kind: str = "bert", task: str = "mlm", **more: Any) -> tuple[Any, Any, Any]:
    path = MODELS.export(tmp_path, kind, task) / "model.safetensors"
    return *model_with_loss(MODELS.config(kind, task), task, path, **more), inputs_of(MODELS.config(kind, task), task)


def difference(one: Any, other: Any) -> float:
    """Return the largest difference of two trees, relative to the largest number."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    most = max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(other))
    return max(float(jnp.abs(left - right).max()) for left, right in pairs) / most


@pytest.mark.parametrize(("kind", "task"), MODELS.cases)
def test_outputs_losses_and_gradients_are_those_of_transformers(kind: str, task: str, theirs: Path) -> None:
    folder, config = theirs / f"{kind}-{task}", MODELS.config(kind, task)
    graph, state = model_with_loss(config, task, folder / "model.safetensors")
    rows, expected = inputs_of(config, task), np.load(folder / "outputs.npz")
    loss, outputs, gradient = measured(graph, state, rows)
    if task in ("clm", "mlm"):
        model = nnx.merge(graph, state)
        outputs = np.asarray(model.lm_logits(model.base_model(rows.ids, rows.lengths, rows.types, None)))
        seen = np.arange(rows.ids.shape[1]) < rows.lengths[:, None]
        assert np.abs(outputs - expected["logits"])[seen].max() < 2e-5
    else:
        assert np.abs(outputs - expected["logits"]).max() < 1e-5
    assert loss == pytest.approx(float(expected["loss"]), rel=2e-6)
    names = weights.tensor_locations(config, task)
    for name, ours in by_name(gradient, config, task).items():
        if names[name].tensor.trained:
            given = expected[f"gradient {name}"]
            assert np.abs(ours - given).max() <= 2e-5 * np.abs(given).max() + 1e-4, name


def test_weights_survive_a_round_trip(tmp_path: Path) -> None:
    for kind, task in CASES:
        config = MODELS.config(kind, task)
        path = MODELS.export(tmp_path / f"{kind}-{task}", kind, task) / "model.safetensors"
        _, state = model_with_loss(config, task, path)
        assert sum(leaf.size for leaf in jax.tree.leaves(state)) == parameter_count(config, task)
        found = by_name(state, config, task)
        expected = load_file(path)
        assert found.keys() == expected.keys()
        assert all(np.array_equal(found[name], expected[name]) for name in expected), (kind, task)


def test_gradient_checkpointing_gives_the_same_gradient(tmp_path: Path) -> None:
    graph, state, rows = small(tmp_path)
    plain, again = measured(graph, state, rows), measured(*small(tmp_path, remat=True))
    assert again[0] == pytest.approx(plain[0], rel=1e-6) and difference(again[2], plain[2]) < 1e-5


@pytest.mark.parametrize(("kind", "task"), [("gpt2", "clm"), ("bert", "mlm")])
def test_the_chunked_loss_is_that_of_the_whole(
    kind: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, state, rows = small(tmp_path, kind, task)
    whole = measured(graph, state, rows)
    monkeypatch.setattr(
        loss, "LOGITS_PER_CHUNK", 4 * len(rows.ids) * IDS
    )  # 23 tokens make six chunks, the last not full
    parts = measured(graph, state, rows)
    assert parts[0] == pytest.approx(whole[0], rel=1e-6) and difference(parts[2], whole[2]) < 1e-5


def test_padding_rows_of_an_embedding_have_no_effect(tmp_path: Path) -> None:
    graph, state, rows = small(tmp_path)
    plain, more = measured(graph, state, rows), measured(*small(tmp_path, vocab=320))
    assert more[0] == pytest.approx(plain[0], rel=1e-6)
    table = dict(nnx.to_flat_state(more[2]))[("bert", "embeddings", "word_embeddings", "weight")][...]
    assert table.shape == (320, 32) and table[:IDS].any() and not table[IDS:].any()


@pytest.mark.parametrize("task", ["mlm", "regress"])
def test_padding_rows_of_a_batch_have_no_effect(task: str, tmp_path: Path) -> None:
    graph, state, rows = small(tmp_path, "bert", task)
    fewer = rows._replace(weight=np.array([1, 1, 1, 0, 0], np.float32))
    kept = type(rows)(*(None if one is None else one[:3] for one in rows))
    one, other = measured(graph, state, fewer), measured(graph, state, kept)
    assert one[0] == pytest.approx(other[0], rel=1e-6) and difference(one[2], other[2]) < 1e-5


def test_padding_after_a_row_has_no_effect(tmp_path: Path) -> None:
    for kind, task in (("roberta", "regress"), ("llama", "regress")):
        graph, state, rows = small(tmp_path / kind, kind, task)
        wider = rows._replace(ids=np.pad(rows.ids, ((0, 0), (0, 9)), constant_values=7))
        assert np.allclose(forward(graph, state, wider)[1], forward(graph, state, rows)[1], rtol=0, atol=2e-6)


def test_a_batch_without_labels_has_no_loss_and_no_gradient(tmp_path: Path) -> None:
    graph, state, rows = small(tmp_path)
    value, _, gradient = measured(graph, state, rows._replace(labels=np.full_like(rows.labels, IGNORE_INDEX)))
    assert value == 0 and not any(leaf.any() for leaf in jax.tree.leaves(gradient))


def test_dropout_depends_on_the_key_only(tmp_path: Path) -> None:
    graph, state, rows = small(tmp_path)
    loss = jax.jit(lambda key: nnx.merge(graph, state)(rows, key)[0])
    dropped, plain = [float(loss(jax.random.key(seed))) for seed in (1, 1, 2)], float(forward(graph, state, rows)[0])
    assert dropped[0] == dropped[1] != dropped[2] and plain not in dropped


def test_dropout_drops_its_rate_and_scales_the_rest() -> None:
    found = dropout(jnp.ones((200, 200)), 0.25, jax.random.key(3), 0)
    assert set(np.unique(found)) == {np.float32(0), np.float32(1 / 0.75)}
    assert float((found == 0).mean()) == pytest.approx(0.25, abs=0.01)


def masks() -> dict[str, Any]:
    """Return the masks of some keys and salts, standardized."""
    keys = [jax.random.fold_in(jax.random.key(0), number) for number in (0, 1)]
    ones, pairs = jnp.ones((6, 64, 512)), [(key, salt) for key in (0, 1) for salt in (0, 1)]
    found = {f"{key} {salt}": dropout(ones, 0.1, keys[key], salt) for key, salt in pairs}
    return {name: (np.asarray(each == 0) - 0.1) / 0.3 for name, each in found.items()}


def test_runs_of_jprep_0_1_0_keep_the_masks_of_jax() -> None:
    key, ones = jax.random.key(3), jnp.ones((20, 20))
    expected = jax.random.bernoulli(jax.random.fold_in(key, 5), 0.75, ones.shape)
    choose_masks(1)
    try:
        assert np.array_equal(dropout(ones, 0.25, key, 5) > 0, expected)
    finally:
        choose_masks(2)
    assert not np.array_equal(dropout(ones, 0.25, key, 5) > 0, expected)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
def test_each_row_and_column_loses_its_share(axes: tuple[int, ...]) -> None:
    for mask in masks().values():
        sums = mask.sum(axes) / np.sqrt(np.prod([mask.shape[axis] for axis in axes]))
        assert sums.var() == pytest.approx(1, abs=6 * np.sqrt(2 / sums.size)) and np.abs(sums).max() < 7


def test_masks_have_nothing_to_do_with_each_other() -> None:
    found = masks()
    first, size = found["0 0"], found["0 0"].size
    others = [mask for name, mask in found.items() if name != "0 0"]
    others += [np.roll(first, shift, axis) for axis in range(3) for shift in (1, 2)]
    others += [first[:, :, ::-1], first[:, ::-1], first.reshape(6, 64, 256, 2)[..., ::-1].reshape(first.shape)]
    assert max(abs(float((first * other).sum())) for other in others) < 5 * np.sqrt(size)


def test_half_precision_is_close_and_its_gradient_is_fp32(tmp_path: Path) -> None:
    graph, state, rows = small(tmp_path, "llama", "clm")
    whole, half = measured(graph, state, rows), measured(*small(tmp_path, "llama", "clm", dtype=jnp.bfloat16))
    assert half[0] == pytest.approx(whole[0], rel=0.02)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(half[2]))
    assert difference(half[2], whole[2]) < 0.1


def test_every_dimension_has_an_axis_name(tmp_path: Path) -> None:
    abstract = nnx.eval_shape(
        lambda: ModelWithLoss(MODELS.config("gpt2", "clm"), "clm", dtype=jnp.float32, rngs=nnx.Rngs(0))
    )
    flat = dict(nnx.to_flat_state(nnx.state(abstract)))
    assert all(len(one.get_metadata("out_sharding")) == len(one.shape) for one in flat.values())
    found = flat[("transformer", "h", "attn", "c_attn", "weight")]
    assert found.shape == (3, 32, 3, 32) and found.get_metadata("out_sharding") == ("layers", "embed", None, "heads")


LOGITS, LABELS = [[1.0, 2, 3], [0, 0, 0], [2, 0, 1]], [2, 1, 0]
LOSSES = [0.407605964, 1.098612289, 0.407605964]


def test_losses_are_those_of_the_documentation() -> None:
    logits, labels, ones = jnp.array(LOGITS), jnp.array(LABELS), jnp.ones(3)
    for place in range(3):
        part = slice(place, place + 1)
        assert loss.class_loss(logits[part], labels[part], ones[:1]) == pytest.approx(LOSSES[place], rel=1e-6)
    found = loss.token_loss(lambda _, x: x, (), logits[None], labels[None])
    assert found / 3 == pytest.approx(0.637941406, rel=1e-6)
    assert loss.score_loss(jnp.array([[1.0], [2.0]]), jnp.array([0.5, 4.0]), ones[:2]) == 4.25


def test_activations_are_those_of_the_documentation() -> None:
    one = jnp.array(1.0)
    found = {name: float(ACTIVATIONS[name](one)) for name in ("gelu", "gelu_new", "silu")}
    assert found == pytest.approx({"gelu": 0.841344746, "gelu_new": 0.841191991, "silu": 0.731058579}, rel=1e-6)
