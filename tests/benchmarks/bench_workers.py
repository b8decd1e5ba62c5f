"""What a second worker is worth: two independent builds side by side, and one build of twice the data by two workers.

The rounds take turns. The share of wall time is what counts, and is only right on a machine with two idle cores; the
share of CPU time does not see cores that wait, but other programs hardly disturb it. The main process's own CPU time
is what workers cannot take from it.
"""

from __future__ import annotations

import bz2
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from jprep import Corpus
from jprep.corpus.config import decode_recipe
from tests.benchmarks import inputs
from tests.benchmarks.measure import MIB

ROUNDS = 3
SIZE = int(os.environ.get("JPREP_BENCH_MB", "24")) * MIB
"""Bytes of XML of each of the two independent builds."""


class Cost(NamedTuple):
    """Seconds: of the clock, of CPU time, and of the main processes' CPU time."""

    wall: float
    cpu: float
    main: float


def build(dumps: list[str], folder: str, workers: int) -> None:
    """Build a corpus in this process, and print the CPU seconds of this process and of its children."""
    source = {"reader": {"use": "wikipedia", "shard_mb": 1}}
    sources = [source | {"name": f"wiki{number}", "paths": [dump]} for number, dump in enumerate(dumps)]
    recipe = decode_recipe({"name": "bench", "corpus": {"sources": sources, "dedup": {"documents": True}}})
    Corpus.build(recipe, folder, workers=workers)
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps([usage.ru_utime + usage.ru_stime for usage in usages]))


def measure(builds: list[list[Path]], folder: Path, workers: int) -> Cost:
    """Run some builds at the same time."""
    with tempfile.TemporaryDirectory(dir=folder) as out:
        begun = time.perf_counter()
        started = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.benchmarks.bench_workers",
                    f"{out}/{number}",
                    str(workers),
                    *map(str, dumps),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            for number, dumps in enumerate(builds)
        ]
        printed = [process.communicate()[0] for process in started]
        wall = time.perf_counter() - begun
    if any(process.returncode for process in started):
        raise SystemExit("a build failed")
    used = [json.loads(each) for each in printed]
    return Cost(wall, sum(map(sum, used)), sum(own for own, _ in used))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, dumps = Path(name), []
        source = inputs.source_dump(folder)
        for number in range(2):
            dumps.append(folder / f"dump{number}.xml.bz2")
            with bz2.open(dumps[-1], "wt", encoding="utf-8", newline="\n") as file:
                file.writelines(
                    part.replace("番目の複写", f"番目の{number}の複写") for part in inputs.pages(source, SIZE)
                )
        rounds = [(measure([[dump] for dump in dumps], folder, 1), measure([dumps], folder, 2)) for _ in range(ROUNDS)]
    load = os.getloadavg()[0]
    print(f"{'':28}{'wall s':>9}{'CPU s':>9}{'main CPU s':>12}   load {load:.1f}, {os.cpu_count()} cores")
    for name, costs in zip(
        ("two builds side by side", "one build, two workers"), zip(*rounds, strict=True), strict=True
    ):
        print(
            f"{name:28}"
            + "".join(
                f"{statistics.median(each):{width}.1f}"
                for each, width in zip(zip(*costs, strict=True), (9, 9, 12), strict=True)
            )
        )
    for what in ("wall", "cpu"):
        ratios = [getattr(two, what) / getattr(one, what) for two, one in rounds]
        print(f"{what} time, share of two independent builds: {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        build(sys.argv[3:], sys.argv[1], int(sys.argv[2]))
    else:
        main()
