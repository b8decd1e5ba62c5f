"""How long `import jprep` and `jprep --help` take, beside a bare interpreter and `wikiextractor --help`.

Wall-clock milliseconds, median of several fresh processes, taken in turns.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

REPEATS = 15
LIMIT_MS = 150
COMMANDS = {
    "bare interpreter": [sys.executable, "-c", "pass"],
    "import jprep": [sys.executable, "-c", "import jprep"],
    "jprep --help": [str(Path(sys.executable).with_name("jprep")), "--help"],
}


def peers() -> dict[str, list[str]]:
    """The peer's command, where its environment is given."""
    python = os.environ.get("JPREP_PEER_PYTHON", "")
    return {"wikiextractor --help": [python, "-m", "wikiextractor.WikiExtractor", "--help"]} if python else {}


def milliseconds(command: list[str]) -> float:
    """One start, from nothing to its end."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return 1000 * (time.perf_counter() - begun)


def main() -> None:
    commands = COMMANDS | peers()
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(REPEATS):
        for name, command in commands.items():
            times[name].append(milliseconds(command))
    print(f"{'start':24}{'ms':>8}   (promised: under {LIMIT_MS})")
    for name, taken in times.items():
        print(f"{name:24}{statistics.median(taken):8.0f}")


if __name__ == "__main__":
    main()
