"""XLA's devices as PJRT names them, for plans: torch_xla is not imported."""

from __future__ import annotations

from jprep.train.host import tpus


def devices_of_xla(asked: int) -> int:
    """How many there are: as many as were asked for, else all TPUs, else one that the CPU plays."""
    return asked or tpus() or 1


def variables(devices: int) -> dict[str, str]:
    """What PJRT and torch_xla have to be told."""
    plain = {"XLA_NO_SPECIAL_SCALARS": "1"}  # else a 0 or 1 among the numbers of a step makes a program of its own
    if tpus():
        return plain | {"PJRT_DEVICE": "TPU"}
    return plain | {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(devices)}


def notes(devices: int) -> tuple[str, ...]:
    """What a plan says of them."""
    kind = "TPU device" if tpus() else "virtual CPU device"
    told = ", ".join(f"{name}={value}" for name, value in variables(devices).items())
    return (f"{devices} {kind}{'s' * (devices > 1)} by XLA, in one process (SPMD)", f"sets {told}")
