"""Rotary position embeddings, with the scalings of transformers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array

Frequencies = npt.NDArray[np.float32]


class Rotation(NamedTuple):
    """How the numbers of a head are rotated.

    Attributes:
        frequencies: rotation of each pair of numbers from one position to the next, in radians; (size / 2,).
        scale: factor of all rotated numbers.
    """

    frequencies: tuple[float, ...]
    scale: float = 1.0

    def angles(self, positions: Array) -> Array:
        """Return the angle of each pair of numbers, (…, size / 2), for positions of any shape."""
        return positions[..., None].astype(jnp.float32) * jnp.array(self.frequencies, jnp.float32)

    def rotate(self, x: Array, angles: Array) -> Array:
        """Rotate pairs of numbers, one of each half of a head; x is (rows, length, heads, size)."""
        cos, sin = ((self.scale * function(angles))[..., None, :].astype(x.dtype) for function in (jnp.cos, jnp.sin))
        first, second = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def make_rotation(size: int, base: float, scaling: dict[str, Any] | None = None) -> Rotation:
    """Return the rotation of a model.

    Args:
        size: numbers of a head.
        base: `rope_theta`.
        scaling: `rope_scaling`, as `jprep.train.models.rope.rope_scaling` returns it.
    """
    plain = (1 / np.float32(base) ** (np.arange(0, size, 2, dtype=np.float32) / np.float32(size))).astype(np.float32)
    kind = scaling["rope_type"] if scaling else "default"
    if scaling is None or kind == "dynamic":  # which only changes rows longer than max_position_embeddings
        return _rotation(plain)
    if kind == "linear":
        return _rotation(plain / np.float32(scaling["factor"]))
    if kind == "llama3":
        return _rotation(_llama3(plain, scaling))
    return _rotation(_yarn(plain, size, base, scaling), _yarn_scale(scaling))


def _rotation(frequencies: Frequencies, scale: float = 1.0) -> Rotation:
    return Rotation(tuple(frequencies.astype(np.float32).tolist()), scale)


def _llama3(plain: Frequencies, scaling: dict[str, Any]) -> Frequencies:
    """Divide low frequencies by a factor and keep high ones, with a smooth transition."""
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    rotations = scaling["original_max_position_embeddings"] * plain / np.float32(2 * math.pi)
    kept = np.clip((rotations - low) / (high - low), 0, 1)
    return (1 - kept) * plain / np.float32(scaling["factor"]) + kept * plain


def _yarn(plain: Frequencies, size: int, base: float, scaling: dict[str, Any]) -> Frequencies:
    """Divide the frequencies of pairs that rotate seldom by a factor; see YaRN (Peng et al. 2023), section 3.2."""

    def pair(rotations: float) -> float:
        """Return the pair that makes a number of rotations in the original length."""
        positions = scaling["original_max_position_embeddings"]
        return size * math.log(positions / (rotations * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair(scaling.get("beta_fast") or 32), pair(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, size - 1)
    divided = np.clip((np.arange(size // 2, dtype=np.float32) - first) / (last - first or 0.001), 0, 1)
    return divided * plain / np.float32(scaling["factor"]) + (1 - divided) * plain


def _yarn_scale(scaling: dict[str, Any]) -> float:
    def of(weight: float) -> float:
        return 0.1 * weight * math.log(scaling["factor"]) + 1

    given, one, all_dims = (scaling.get(key) for key in ("attention_factor", "mscale", "mscale_all_dim"))
    if given is not None:
        return float(given)
    return of(one) / of(all_dims) if one and all_dims else of(1)
