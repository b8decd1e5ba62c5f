"""Build the source distributions and wheels of jprep, every backend and every model, all with one version.

    python .ci/build_release.py dist

The version is stated once, in the `pyproject.toml` of jprep; the others read it from there. Each wheel is built from
its source distribution, so that what is published can be built again. Needs `build` and `hatchling`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECTS = (
    ROOT,
    *sorted(path.parent for folder in ("backends", "models") for path in ROOT.glob(f"{folder}/*/pyproject.toml")),
)


def version() -> str:
    """Return the version that the next release has."""
    project: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["version"]


def distributions(folder: Path) -> list[str]:
    """Return the names of the distributions whose wheels are in a folder."""
    return sorted(wheel.name.split("-")[0].replace("_", "-") for wheel in folder.glob("*.whl"))


def build(folder: Path) -> None:
    """Build all distributions into a folder, which is emptied first.

    Raises:
        SystemExit: a distribution has another version.
        CalledProcessError: a build failed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for project in PROJECTS:
        command = [sys.executable, "-m", "build", "--quiet", "--no-isolation", "--outdir", str(folder), str(project)]
        subprocess.run(command, check=True)
    built = sorted(path.name for path in folder.iterdir())
    if odd := [name for name in built if f"-{version()}-" not in name and f"-{version()}.tar" not in name]:
        sys.exit(f"expected version {version()}, got {', '.join(odd)}")
    print("\n".join(f"{folder / name}" for name in built))


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else "dist").absolute())
