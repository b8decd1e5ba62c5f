"""How a recipe's steps scale to many workers: task times measured on a sample, simulated for larger inputs.

    python -m tests.benchmarks.simulate_workers RECIPE [GIGABYTES …] [--calibration FILE]

The inputs of the recipe are measured for some seconds, or what an earlier call measured is read from FILE. Then each
source is taken to be so much larger that all inputs have the given size, with the readers' usual shards, and the stages
are simulated on 1 to 1,024 workers: with this disk, and with a parallel file system such as clusters have.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from jprep.pipeline.estimate.loads.workload import Workload, scale_up
from jprep.pipeline.estimate.measuring.calibration import Calibration, calibrate, calibration_folders
from jprep.pipeline.estimate.measuring.input_sizes import SourceSizes, measure_sources
from jprep.pipeline.estimate.simulation import Cluster, scale, simulate
from jprep.pipeline.recipe import Recipe, load_recipe

WORKERS = (1, 2, 8, 64, 1024)
PARALLEL = {"read": 20e9, "write": 20e9, "files": 5000.0}
"""Bytes and files a second of a parallel file system, assumed."""

FILE_BYTES = 1_000_000_000
"""Stored bytes of each of the larger inputs."""

SHARD_RATIO = 16.0
"""A usual shard has 32 MB, and one of the sample 2."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("gigabytes", type=float, nargs="*", default=[15.0, 1000.0])
    parser.add_argument("--calibration", type=Path)
    arguments = parser.parse_args()
    recipe = load_recipe(arguments.recipe)
    found = measured(recipe, arguments.calibration)
    found.shard_ratio = [SHARD_RATIO] * len(found.shard_ratio)
    found.whole = set()
    for gigabytes in arguments.gigabytes:
        sizes = enlarged(measure_sources(recipe, Path("downloads"), {}), gigabytes * 1e9)
        show(scale_up(recipe, found, sizes), found, gigabytes)


def measured(recipe: Recipe, path: Path | None) -> Calibration:
    """Return what an earlier call measured, or measure it now."""
    if path and path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Calibration)
    with calibration_folders(Path("work")) as folders:
        found = calibrate(recipe, ["corpus", "tokenizer", "dataset"], folders, note=print)
    if path:
        path.write_bytes(msgspec.json.encode(found))
    return found


def enlarged(sizes: list[SourceSizes], total: float) -> list[SourceSizes]:
    """Return sources of so many bytes together, in files of equal size."""
    factor = total / sum(each.total for each in sizes)
    files = [max(1, round(factor * each.total / FILE_BYTES)) for each in sizes]
    pairs = zip(sizes, files, strict=True)
    return [each._replace(sizes=[round(factor * each.total / count)] * count) for each, count in pairs]


def show(work: Workload, found: Calibration, gigabytes: float) -> None:
    """Print how the work scales, and what limits each stage on the most workers."""
    machine = found.machine
    disks = {"this disk": {"read": machine.read, "write": machine.write, "files": machine.files}, "parallel": PARALLEL}
    for name, rates in disks.items():
        print(f"\n{gigabytes:,g} GB of inputs, {work.text / 1e9:,.0f} GB of text, {name}: {rates}")
        print(f"{'workers':>8}{'hours':>10}{'speed-up':>10}{'processors':>12}  limited most by")
        for each in scale(work.stages, [Cluster(workers, **rates, dispatch=machine.task) for workers in WORKERS]):
            limit = f"{each.limit}, {each.share:.0%} of the time"
            hours = f"{each.wall / 3600:>10,.2f}{each.speedup:>10,.1f}{each.processors:>12.0%}"
            print(f"{each.workers:>8,}{hours}  {limit}")
        most = Cluster(WORKERS[-1], **rates, dispatch=machine.task)
        for load in work.stages:
            time = simulate(load, most)
            print(f"{'':8}{load.name:<14}{load.tasks:>8,} tasks{time.wall / 60:>10,.1f} min  {time.limit}")


if __name__ == "__main__":
    main()
