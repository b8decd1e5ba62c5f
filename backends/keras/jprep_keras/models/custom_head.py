"""A user's own head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras
from keras import ops

from jprep.train.hooks.calls import check_head_outputs, head_config
from jprep.train.hooks.loading import Hook
from jprep_keras.models.custom_loss import TENSORS
from jprep_keras.models.variables import custom_head_values

SAMPLE_ROWS, SAMPLE_LENGTH = 2, 4
_TENSORFLOWS = "_self_"  # attributes with which TensorFlow tracks the others


class CustomHead:
    """A head, created and built. Its own initial values are not used.

    Args:
        hook: its class.
        config: transformers' config of the model.

    Attributes:
        variables: the variables that are trained, by the attributes that hold them: `out.kernel`, `layers.0.bias`.
        values: these variables, with the functions of their values.
        seeds: the states of the random generators.

    Raises:
        ConfigError: it cannot be created or called, is not a layer, or has a variable that checkpoints do not hold.
    """

    def __init__(self, hook: Hook, config: dict[str, Any]) -> None:
        keras.config.disable_traceback_filtering()  # else Keras replaces the messages of a head's exceptions
        given = head_config(config)
        self._hook, self._labels, self._head = hook, given.num_labels, hook(given)
        if not isinstance(self._head, keras.layers.Layer):
            raise hook.error(f"created {type(self._head).__name__}: it must be a class derived from keras.layers.Layer")
        shape = SAMPLE_ROWS, SAMPLE_LENGTH, given.hidden_size
        self(ops.ones(shape), ops.ones(shape[:2], "int32"), training=False)  # layers create their variables then
        with hook.errors():
            self.variables = _named_variables(self._head)
        _check_variables(hook, self._head, self.variables)
        values = custom_head_values(self.variables)
        self.values = [(variable, values[name]) for name, variable in self.variables.items()]
        weights = {id(weight) for weight in self._head.weights}
        self.seeds = [variable for variable in self._head.variables if id(variable) not in weights]

    def __call__(self, hidden: Any, mask: Any, *, training: bool) -> Any:
        """Return the outputs, fp32, (rows, labels).

        Args:
            hidden: hidden states of the last layer, (rows, length, width).
            mask: int32, (rows, length): 0 for padding.
            training: whether dropout drops.

        Raises:
            ConfigError: it failed, or its outputs have another shape.
        """
        with self._hook.errors():
            found = self._head(hidden, mask, training=training)
        check_head_outputs(self._hook, found, (hidden.shape[0], self._labels), TENSORS)
        return ops.cast(found, "float32")


def _check_variables(hook: Hook, head: Any, named: Mapping[str, Any]) -> None:
    known = {id(variable) for variable in named.values()}
    for variable in head.weights:
        if id(variable) not in known:
            fix = "hold it in an attribute, or in a list or dict there"
            raise hook.error(f"has the variable {variable.path!r}, which no attribute of the head holds", fix=fix)
    for name, variable in named.items():
        if not variable.trainable:
            fix = "use a layer without such a state, such as LayerNormalization"
            raise hook.error(
                f"has {name!r}, which is not trained, and checkpoints hold trained variables only", fix=fix
            )
        if variable.dtype != "float32":
            raise hook.error(f"has the variable {name!r} in {variable.dtype}", fix="create it in float32")


def _named_variables(head: Any) -> dict[str, Any]:
    """Return the variables of a layer and of those in it, by the attributes that hold them, each once.

    Keras's own paths of variables are not names: they number layers in the order in which a process creates them.
    """
    weights, names = {id(weight) for weight in head.weights}, dict[int, tuple[str, Any]]()
    for name, variable in _walk(head, "", set(vars(keras.layers.Layer()))):
        if id(variable) in weights:
            names.setdefault(id(variable), (name, variable))
    return dict(names.values())


def _walk(value: Any, at: str, hidden: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield what a value holds that is a variable, with its name.

    Args:
        value: a layer, a variable, or a list or dict of them; others hold none.
        at: its name.
        hidden: the attributes that every layer has.
    """
    if isinstance(value, keras.Variable):
        yield at, value
    for name, child in _children(value, hidden):
        yield from _walk(child, f"{at}.{name}" if at else name, hidden)


def _children(value: Any, hidden: set[str]) -> Iterable[tuple[str, Any]]:
    if isinstance(value, keras.Model):  # Sequential and functional models hold layers in lists
        return [("layers", list(value.layers))]
    if isinstance(value, keras.layers.Layer):
        own = {name: child for name, child in vars(value).items() if name not in hidden}
        return [(name.lstrip("_"), own[name]) for name in own if not name.startswith(_TENSORFLOWS)]
    if isinstance(value, dict):
        return [(str(name), child) for name, child in value.items()]
    return [(str(number), child) for number, child in enumerate(value)] if isinstance(value, list | tuple) else []
