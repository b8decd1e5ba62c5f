"""Runs every benchmark in turn; one that fails is reported and does not stop the others. `make bench` calls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    failed = []
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        print(f"\n── {path.stem} " + "─" * (100 - len(path.stem)), flush=True)
        # Each in a process of its own: what one has loaded must not weigh on the next.
        if subprocess.run([sys.executable, "-m", f"tests.benchmarks.{path.stem}"]).returncode:
            failed.append(path.stem)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
