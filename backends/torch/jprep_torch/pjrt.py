"""XLA's devices as PJRT names them, for plans: torch_xla is not imported."""

from __future__ import annotations

from jprep.train.host import tpus


def devices_of_xla(asked: int) -> int:
    """How many there are: as many as were asked for, else all TPUs, else one that the CPU plays."""
    return asked or tpus() or 1


def variables(devices: int) -> dict[str, str]:
    """What PJRT has to be told."""
    if tpus():
        return {"PJRT_DEVICE": "TPU"}
    return {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(devices)}


def notes(devices: int) -> tuple[str, ...]:
    """What a plan says of them."""
    kind = "TPU device" if tpus() else "virtual CPU device"
    told = ", ".join(f"{name}={value}" for name, value in variables(devices).items())
    return (f"{devices} {kind}{'s' * (devices > 1)} by XLA, in one process (SPMD)", f"sets {told}")
