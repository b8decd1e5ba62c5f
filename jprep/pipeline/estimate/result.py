"""The estimate of a recipe, as it is shown, stored and compared."""

from __future__ import annotations

from pathlib import Path

import msgspec

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.io.atomic import write_atomic
from jprep.io.verified_files import read_if_exists
from jprep.pipeline.estimate.measuring.machine_rates import MachineRates
from jprep.pipeline.estimate.simulation import Scaling

PLAN = "plan.json"
"""The file with the last plan of a recipe, in the directory of its outputs."""


TRAIN = "train"
"""The step of the training, which has no stages."""


class StageEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a stage takes.

    Attributes:
        name: the stage.
        tasks: number of tasks.
        wall: seconds.
        cpu: seconds of CPU of all processes.
        limit: what limits it.
        busy: share of the time that each resource is in use.
        memory: bytes of a process that runs its tasks.
        disk: most bytes of its step's output directory until its end.
    """

    name: str
    tasks: int
    wall: float
    cpu: float
    limit: str
    busy: dict[str, float]
    memory: int
    disk: int


class StepEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a step takes.

    Attributes:
        step: the step.
        wall: seconds.
        low: the least seconds, as far as the variation among tasks and the assumptions tell.
        high: the most seconds, likewise.
        cpu: seconds of CPU of all processes.
        disk: most bytes of its output directory.
        result: bytes of the finished output.
        files: most files in its output directory.
        memory: bytes of its largest process.
        total_memory: bytes of all its processes together.
        jobs: jobs of a scheduler; 0 for tasks on this machine.
        limit: what limits the stages that take most of its time.
        stages: its stages; none for the training.
    """

    step: str
    wall: float
    low: float
    high: float
    cpu: float
    disk: int
    result: int
    files: int
    memory: int
    total_memory: int
    jobs: int = 0
    limit: str = ""
    stages: list[StageEstimate] = []


class InputEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a source.

    Attributes:
        name: the source.
        files: number of files.
        size: stored bytes of those whose size is known.
        unknown: number of files whose size is not known.
        to_download: bytes to download.
        stand_in: whether the sample was taken from the beginning of a download, or from jprep's own sample.
        factor: how many times as large it is as its sample.
        division: how its files are read before the first stage.
    """

    name: str
    files: int
    size: int
    unknown: int
    to_download: int
    stand_in: bool
    factor: float
    division: str = "none"


class RecipeEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a recipe takes.

    Attributes:
        name: the recipe.
        recipe: fingerprint of the recipe.
        workers: number of processes.
        executor: where tasks run.
        inputs: the inputs of each source.
        steps: the steps, in order.
        training: how long the training takes, and its memory, as text; "" without training.
        peak_disk: most bytes of all outputs together, without inputs.
        machine: the rates of this machine.
        scaling: the same work with other numbers of workers.
        calibration: seconds that the measurement took.
        warnings: what does not fit, is not known, or should be changed.
        assumptions: what was assumed.
        fits: whether disk and memory are large enough, as far as is known.
    """

    name: str
    recipe: str
    workers: int
    executor: str
    inputs: list[InputEstimate]
    steps: list[StepEstimate]
    training: str
    peak_disk: int
    machine: MachineRates
    scaling: list[Scaling]
    calibration: float
    warnings: list[str]
    assumptions: list[str]
    fits: bool = True

    @property
    def wall(self) -> float:
        """Seconds of all steps."""
        return sum(step.wall for step in self.steps)

    @property
    def to_download(self) -> int:
        """Bytes to download."""
        return sum(each.to_download for each in self.inputs)


def store_estimate(folder: Path, estimate: RecipeEstimate) -> Path:
    """Store an estimate in the directory of a recipe's outputs; return the path of the file.

    Raises:
        MachineError: it cannot be written.
    """
    path = folder / PLAN
    write_atomic(path, encode_checksummed(msgspec.to_builtins(estimate), indent=1))
    return path


def read_estimate(folder: Path) -> RecipeEstimate | None:
    """Return the stored estimate of a recipe; None if there is none or it is damaged."""
    data = read_if_exists(folder / PLAN)
    try:
        return decode_checksummed(data, RecipeEstimate) if data else None
    except ValueError:
        return None
