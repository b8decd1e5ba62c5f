"""The options in `[train.backend.keras]`."""

from __future__ import annotations

from typing import Literal

from jprep.train.planning.machine import TpuMachineOptions

SECTION = "train.backend.keras"
"""The section of the options, for error messages."""

Device = Literal["cpu", "gpu", "tpu"]
Engine = Literal["tensorflow", "jax"]


class Options(TpuMachineOptions, frozen=True, kw_only=True):
    """`[train.backend.keras]`.

    One process drives all devices of this machine. Each device has all weights, and a share of the rows.

    Attributes:
        engine: what Keras computes with (`KERAS_BACKEND`): `tensorflow` or `jax`.
        device: `auto` uses GPUs if there are any, else TPUs, else the CPU.
        devices: number of devices; 0 uses all of this machine. On a CPU they are virtual, for trials. On TensorFlow,
            several are a `MirroredStrategy`, and TPUs a `TPUStrategy`.
        tpu: name or address of the TPU for TensorFlow's cluster resolver; `local` on a TPU virtual machine.
        micro_batch: rows that go through the model at a time on each device; gradients are accumulated over a batch.
            0 uses as many as fit into memory by the estimate.
        records: TFRecord shards of training rows, as paths or URLs (`gs://`, `s3://`), which may contain `*`: from
            `jprep dataset export --format tfrecord --features bert` or `transformers`. They are read in order, and then
            again. Without them, and for validation, batches come from the dataset. They cannot be combined with
            `document_masks`: such rows do not say where their documents begin.
        jit_compile: compile TensorFlow's forward and backward pass with XLA: the first step takes longer. JAX always
            does.
        deterministic: use kernels whose results do not depend on the order of threads.
        memory: GiB of each device: for TPUs, whose memory jprep cannot detect, and to plan for another machine; 0
            detects it.
    """

    engine: Engine = "tensorflow"
    device: Literal["auto", "cpu", "gpu", "tpu"] = "auto"
    devices: int = 0
    tpu: str = "local"
    micro_batch: int = 0
    records: list[str] = []
    jit_compile: bool = False
    deterministic: bool = True
    memory: float = 0.0
