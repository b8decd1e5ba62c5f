"""How much memory a GPU has, by its name."""

from __future__ import annotations

import re

from jprep.errors import ConfigError
from jprep_deepspeed.options import SECTION

_GIB = 1 << 30
_SIZED = re.compile(r"(?:(?:[A-Z][A-Z0-9]*-)+(?=[\d.]+G))?(?P<size>\d+(?:\.\d+)?)(?:GI?B?)?")  # RTX-4080 says none

# GiB that the driver tells, of those that are made in one size.
_ONE_SIZE = {
    "T4": 15, "A10": 22.5, "A10G": 22.5, "L4": 22.5, "A40": 45, "L40": 45, "L40S": 45, "A6000": 48, "H100": 79.6,
    "H200": 140.4, "B200": 179, "RTX3090": 24, "RTX4090": 24, "RTX5090": 32,
}  # fmt: skip


def gpu_memory(name: str) -> int:
    """Bytes of a GPU.

    Args:
        name: `A100-40GB`, a name alone where there is one size of it, or GiB: `40`.

    Raises:
        ConfigError: it says no size.
    """
    plain = re.sub(r"[\s_]+", "-", name.upper())
    if (whole := plain.replace("-", "")) in _ONE_SIZE:
        return int(_ONE_SIZE[whole] * _GIB)
    if (match := _SIZED.fullmatch(plain)) and (size := float(match["size"])):
        return int(size * _GIB)
    fix = f"`A100-40GB`, `40` (GiB), or one of {', '.join(_ONE_SIZE)}"
    raise ConfigError(f"how much memory {name!r} has is not known", where=f"{SECTION}.gpu", fix=fix)
