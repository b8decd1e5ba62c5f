"""Memory of GPU models."""

from __future__ import annotations

import re

from jprep.errors import ConfigError

_GIB = 1 << 30
# A size after a name needs its G: the 4080 of RTX-4080 is none.
_WITH_SIZE = re.compile(r"(?:(?:[A-Z][A-Z0-9]*-)+(?=[\d.]+G))?(?P<size>\d+(?:\.\d+)?)(?:GI?B?)?")

# GiB according to the driver, for models with one memory size.
_ONE_SIZE = {
    "T4": 15, "A10": 22.5, "A10G": 22.5, "L4": 22.5, "A40": 45, "L40": 45, "L40S": 45, "A6000": 48, "H100": 79.6,
    "H200": 140.4, "B200": 179, "RTX2080TI": 11, "RTX3090": 24, "RTX4090": 24, "RTX5090": 32,
}  # fmt: skip


def gpu_memory(name: str, section: str) -> int:
    """Return the bytes of a GPU.

    Args:
        name: a name with a size, such as `A100-40GB`; a name of a model that has one size; or GiB, such as `40`.
        section: the backend's section of the recipe, for messages.

    Raises:
        ConfigError: the size is not known.
    """
    plain = re.sub(r"[\s_]+", "-", name.upper())
    if (whole := plain.replace("-", "")) in _ONE_SIZE:
        return int(_ONE_SIZE[whole] * _GIB)
    if (match := _WITH_SIZE.fullmatch(plain)) and (size := float(match["size"])):
        return int(size * _GIB)
    fix = f"`A100-40GB`, `40` (GiB), or one of {', '.join(_ONE_SIZE)}"
    raise ConfigError(f"the memory of {name!r} is not known", where=f"{section}.gpu", fix=fix)
