"""Traces of training steps by jax.profiler, and how a step's phases share the time of the devices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax

OPTIMIZER_SCOPE = "optimizer"
"""The scope of the operations that clip and update."""

_NAMED = re.compile(r'^\s*(?:ROOT )?%?([\w.-]+) = .*metadata=\{.*?op_name="([^"]*)"', re.MULTILINE)
"""An instruction of a compiled program, and the operation of the model that it computes."""

_NAME_STATS = ("tf_op", "hlo_op")
"""Where a trace has an operation's name: the model's (GPUs, TPUs), or the instruction's (CPUs)."""


class JaxTracer:
    """jax.profiler, which writes a profile for TensorBoard's plugin `profile` (xprof), and one for Perfetto.

    Args:
        arrays: returns the arrays that the newest step computes.
        program: returns the text of the compiled step.
    """

    def __init__(self, arrays: Callable[[], Any], program: Callable[[], str]) -> None:
        self._arrays, self._program = arrays, program
        self._folder = Path()

    def start(self, folder: Path) -> None:
        """Start recording operations of the host and of the devices."""
        self._folder = folder
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # its events would fill the trace
        jax.profiler.start_trace(folder, create_perfetto_trace=True, profiler_options=options)

    def stop(self) -> None:
        """Write the trace."""
        jax.profiler.stop_trace()

    def annotate(self, name: str) -> AbstractContextManager[object]:
        """Return a context whose operations are marked with a name."""
        mark: AbstractContextManager[object] = jax.profiler.TraceAnnotation(name)
        return mark

    def wait(self) -> None:
        """Wait until the devices have computed the newest step."""
        jax.block_until_ready(self._arrays())

    def device_shares(self) -> Mapping[str, float]:
        """Return how forward, backward and optimizer share the time of the operations in the trace."""
        files = sorted(self._folder.rglob("*.xplane.pb"))
        if not files:
            return {}
        found = list(_operations(jax.profiler.ProfileData.from_file(str(files[-1]))))
        names = {} if any(phase_of(name) for name, _ in found) else dict(_NAMED.findall(self._program()))
        seconds = dict.fromkeys(("forward", "backward", "optimizer"), 0.0)
        for name, nanoseconds in found:
            if phase := phase_of(names.get(name, name)):
                seconds[phase] += nanoseconds
        total = sum(seconds.values())
        return {phase: part / total for phase, part in seconds.items()} if total else {}


def phase_of(operation: str) -> str:
    """Return the phase of an operation from its name in the program; "" if the name does not say.

    JAX names what it differentiates `jvp(…)`, and the backward pass of it `transpose(jvp(…))`.
    """
    if "transpose(" in operation:
        return "backward"
    if "jvp(" in operation:
        return "forward"
    return "optimizer" if f"/{OPTIMIZER_SCOPE}/" in operation else ""


def _operations(profile: Any) -> Iterator[tuple[str, float]]:
    """Yield the name and the nanoseconds of each operation in a profile, loops left out: their contents are in it."""
    for plane in profile.planes:
        for line in plane.lines:
            for event in line.events:
                stats = dict(event.stats)
                name = next((str(stats[one]) for one in _NAME_STATS if one in stats), "")
                if name and not name.startswith(("while", "call", "conditional")):
                    yield name, event.duration_ns
