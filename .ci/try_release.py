"""Install a release in fresh environments, without the checkout, and run the quickstart there.

    python .ci/try_release.py dist [PYTHON...]

The first interpreter gets the backend torch too, and trains the quickstart's model. By default the interpreters are
Python 3.11 and the newest Python that this machine has.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from build_release import ROOT, distributions, version

OLDEST = (3, 11)
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
SEGMENT = """
from jprep.corpus.segmenters.pointwise import Pointwise
print(Pointwise().segment(["東京タワーへ行く。"])[0].replace(chr(0x1F), " "))
"""
INTERPRETER = re.compile(r"python3\.(\d+)")


def interpreters() -> list[Path]:
    """Return Python 3.11 and the newest interpreter among those on PATH and those that pyenv has.

    Raises:
        SystemExit: there is no Python 3.11.
    """
    folders = [*map(Path, os.get_exec_path()), *Path.home().glob(".pyenv/versions/*/bin")]
    found = {(3, int(match[1])): path for folder in folders for path in _pythons(folder) if (match := _minor(path))}
    if OLDEST not in found:
        sys.exit("Python 3.11 was not found")
    return [found[each] for each in sorted({OLDEST, max(found)})]


def _pythons(folder: Path) -> list[Path]:
    return [] if folder.name == "shims" else sorted(folder.glob("python3.*"))


def _minor(path: Path) -> re.Match[str] | None:
    return INTERPRETER.fullmatch(path.name) if os.access(path, os.X_OK) else None


class Environment:
    """A fresh virtual environment that has everything in a release, and a folder to work in.

    Args:
        folder: where both are made.
        python: the interpreter.
        release: the folder of wheels.
    """

    def __init__(self, folder: Path, python: Path, release: Path) -> None:
        self.folder, self._release = folder, release
        # No variable of this process leads to the checkout, and pip keeps its settings.
        passing = ("PYTHON", "JPREP_", "VIRTUAL_ENV", "MAKE", "MFLAGS")
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(passing)}
        self._env["PATH"] = os.pathsep.join([str(folder / "venv/bin"), self._env.get("PATH", os.defpath)])
        folder.mkdir()
        self.run(str(python), "-m", "venv", "venv")
        pip = ("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", CONSTRAINTS)
        wanted = [f"{name}=={version()}" for name in distributions(release)]
        self.run(*pip, "--find-links", release, *wanted)

    def run(self, *command: object) -> str:
        """Run a command in the environment's folder; return its standard output.

        Raises:
            SystemExit: it failed.
        """
        words = list(map(str, command))
        # The path to the program is looked up here, in the environment's PATH.
        done = subprocess.run(["env", *words], cwd=self.folder, env=self._env, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"`{' '.join(words)}` ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def install_torch(self) -> None:
        """Install the backend torch, as the documentation says."""
        pip = ("--constraint", CONSTRAINTS, "--", "--find-links", self._release)
        self.run("jprep", "backends", "install", "torch", *pip)


def expect(condition: object, what: str) -> None:
    """End with an error unless a condition holds."""
    if not condition:
        sys.exit(f"expected {what}")


def check(environment: Environment, *, train: bool) -> None:
    """Run the quickstart and what shows a release's data files.

    Raises:
        SystemExit: something is missing.
    """
    expect(version() in environment.run("jprep", "--version"), f"version {version()}")
    home = environment.run("python", "-c", "import jprep; print(jprep.__file__)")
    expect(str(environment.folder) in home, f"jprep in the environment, got {home}")
    expect("jawiki" in environment.run("jprep", "recipes"), "the shipped recipes")
    listed = environment.run("jprep", "backends", "list")
    expect(
        all(name in listed for name in ("torch", "deepspeed", "flax", "fairseq-xla", "keras")),
        "every backend in the list",
    )
    words = environment.run("python", "-c", SEGMENT)
    expect(words.split() == ["東京", "タワー", "へ", "行く", "。"], f"words of the model of jprep-words, got {words}")
    environment.run("jprep", "backends", "new", "sketch")
    expect((environment.folder / "jprep-sketch/pyproject.toml").exists(), "the package of a new backend")
    if train:
        environment.install_torch()
    environment.run("jprep", "quickstart")
    made = ["corpus/corpus.json", "tokenizer/tokenizer.json", "dataset/dataset.json"]
    for name in [*made, *(["runs/torch/export/model.safetensors"] if train else [])]:
        expect((environment.folder / "work/quickstart" / name).exists(), f"the quickstart to write {name}")


def main() -> None:
    """Try the release that is in a folder."""
    release, *pythons = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="jprep-release-") as folder:
        for number, python in enumerate(pythons or interpreters()):
            environment = Environment(Path(folder) / str(number), python, release.absolute())
            check(environment, train=number == 0)
            print(f"{python}: the release {version()} works{', and trains' if number == 0 else ''}", flush=True)


if __name__ == "__main__":
    main()
