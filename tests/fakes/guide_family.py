"""The model family of docs/guides/write-a-model-family.md, as a distribution that processes find on their path."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jprep.plugins.manager import plugins
from jprep.testing.backend_suite import cases
from jprep.train.models.registry import load_family
from jprep.typed_json import decode_json

CURVES = Path(__file__).with_suffix(".json")
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "write-a-model-family.md"
FAMILY = "gated-linear"
CASE, DOCUMENTS, CLASSES = (f"{FAMILY}-{kind}" for kind in ("clm", "documents", "classify"))

_FILE = re.compile(r'```python title="([^"]+)"\n(.*?)```', re.DOTALL)
_METADATA = "Metadata-Version: 2.1\nName: jprep-gated-linear\nVersion: 1.0\n"
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_heads": 2,
    "intermediate_size": 48,
    "initializer_range": 0.1,
}
"""A small config."""

_SECTION: dict[str, Any] = {
    "task": "clm",
    "packing": "stream",
    "model": {"config": {"model_type": FAMILY, **SMALL}},
    "schedule": {"kind": "cosine", "warmup": 5, "floor": 0.1},
    "optimizer": {"lr": 0.004, "eps": 1e-6, "weight_decay": 0.1, "clip": 0.5},
}

SECTIONS: dict[str, dict[str, Any]] = {
    CASE: _SECTION,
    DOCUMENTS: _SECTION | {"document_masks": True, "length": 160},
    CLASSES: _SECTION | {"task": "classify", "labelled": {"pair": "pair", "length": 40}},
}
"""Case → its `[train]` section."""


def known_curve(case: str) -> cases.GoldenCurve:
    """Return the losses of a case as the backend torch computed them first, and Flax independently within 1e-6."""
    return decode_json(CURVES.read_bytes(), dict[str, cases.GoldenCurve])[case]


def write_family(folder: Path) -> None:
    """Write the guide's package, and the metadata of its distribution."""
    for name, source in _FILE.findall(GUIDE.read_text(encoding="utf-8")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    about = folder / "jprep_gated_linear-1.0.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text(_METADATA)
    about.joinpath("entry_points.txt").write_text(f"[jprep]\n{FAMILY} = jprep_gated_linear\n")


@contextmanager
def installed_family(folder: Path) -> Iterator[None]:
    """Make the guide's family a plugin of this process and of those that it starts, and add its cases to the suite's.

    Args:
        folder: where its files are written.
    """
    write_family(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])))
        for name, section in SECTIONS.items():
            patch.setitem(cases._ALL, name, cases.Case("gpt", section))
        _look_for_plugins()
        yield
    _look_for_plugins()


def _look_for_plugins() -> None:
    for name in [name for name in sys.modules if name.startswith("jprep_gated_linear")]:
        del sys.modules[name]
    plugins.cache_clear()
    load_family.cache_clear()
