"""Import layers, import times, sizes of files and packages, and documentation of commands and hooks."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from jprep.plugins import hookspecs
from tests.conftest import COMMAND, ROOT, Distribution, Run, environment

HEAVY = (
    "numpy",
    "pyarrow",
    "torch",
    "jax",
    "flax",
    "tensorflow",
    "keras",
    "transformers",
    "fugashi",
    "neologdn",
    "rich",
    "fsspec",
    "jinja2",
    "matplotlib",
    "duckdb",
    "starlette",
)
"""Packages that `import jprep` and `jprep --help` must not import."""
INSTALLED = sorted([*ROOT.glob("jprep/**/*.py"), *ROOT.glob("backends/*/jprep_*/**/*.py")])
SOURCES = sorted(
    [*INSTALLED, *(path for folder in ("tests", "docs", "backends/*/tests") for path in ROOT.glob(f"{folder}/**/*.py"))]
)
PACKAGES = [path.parent for path in INSTALLED if path.name == "__init__.py"]
TEXTS = [
    *SOURCES,
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("data_recipes/*"),
    ROOT / "Makefile",
    ROOT / "pyproject.toml",
]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
PLUGINS_PAGE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")


def loaded(code: str) -> set[str]:
    """Return the heavy modules that a fresh interpreter has imported after some code."""
    code += f"\nprint([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    return set(re.findall(r"'(\w+)'", done.stderr))


def test_importing_jprep_is_light() -> None:
    assert loaded("import sys, jprep") == set()


@pytest.mark.parametrize("arguments", [["--help"], ["corpus", "build", "--help"], ["--version"]])
def test_help_is_light(arguments: list[str]) -> None:
    code = f"import sys\nfrom jprep.cli.main import main\nsys.argv = ['jprep', *{arguments!r}]\n"
    assert loaded(code + "try:\n    main()\nexcept SystemExit:\n    pass") == set()


def test_the_layers_contain_every_package() -> None:
    [layers] = [contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"]
    listed = {name for layer in layers for name in re.findall(r"[\w.]+", layer)}
    packages = {
        f"jprep.{path.stem}"
        for path in (ROOT / "jprep").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    for package in packages - {"jprep.__init__"}:
        assert any(name == package or name.startswith(f"{package}.") for name in listed), package


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_packages_are_small(package: Path) -> None:
    modules = [path.name for path in package.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= 14, f"{len(modules)} modules: make sub-packages by purpose"


def test_contracts_forbid_frameworks_and_terminal_libraries() -> None:
    forbidden = {module for contract in CONTRACTS for module in contract.get("forbidden_modules", [])}
    assert {"click", "rich", "torch", "jax", "transformers"} <= forbidden


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 400


def test_no_unfinished_code_and_no_local_paths() -> None:
    unfinished = re.compile(
        "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "/ho" + "me/", "/wo" + "rk/", "/tm" + "p/s/"])
    )
    found = [
        (str(path.relative_to(ROOT)), match[0])
        for path in TEXTS
        if (match := unfinished.search(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_the_command_line_reference_is_up_to_date() -> None:
    # In a process of its own: click keeps the names of a command's help option as they were at its first call.
    command = [sys.executable, "-X", "utf8", "-c", "import make_cli; print(make_cli.render(), end='')"]
    found = subprocess.run(command, cwd=ROOT / "docs", capture_output=True, check=True).stdout
    assert (ROOT / "docs" / "cli.md").read_bytes() == found, "run `python docs/make_cli.py`"


@pytest.mark.parametrize("hook", [name for name in vars(hookspecs) if name.startswith("jprep_")])
def test_every_hook_is_documented(hook: str) -> None:
    assert f"| `{hook}` |" in PLUGINS_PAGE
    assert getattr(hookspecs, hook).__doc__


def test_classes_in_the_documentation_of_hooks_exist() -> None:
    for reference in re.findall(r"`(jprep\.[\w.]+\.[A-Z]\w+)`", PLUGINS_PAGE + Path(hookspecs.__file__).read_text()):
        module, _, name = reference.rpartition(".")
        assert hasattr(importlib.import_module(module), name), reference


def test_the_documented_plugin_works(distribution: Distribution, jprep: Run) -> None:
    [source] = re.findall(r"```python\n(.*?)```", PLUGINS_PAGE, re.DOTALL)
    distribution.add("jprep_shout", source)
    done = jprep("text", "normalize", "--using", "shout", stdin="行くぞ！\n".encode(), env=distribution.env)
    assert done.stdout == "行くぞ！！\n"
    other = jprep(
        "text", "normalize", "--using", "shout", "--set", "mark=。", stdin="はい。".encode(), env=distribution.env
    )
    assert other.stdout == "はい。。"
    assert "normalizer shout" in jprep("plugins", env=distribution.env).stdout


def test_the_version_is_that_of_the_distribution(jprep: Run) -> None:
    import importlib.metadata

    import jprep as package

    assert package.__version__ == importlib.metadata.version("jprep")
    assert package.__version__ in jprep("--version").stdout
    assert "__version__" in vars(package)  # read once


def test_the_command_is_installed() -> None:
    assert Path(COMMAND).exists()
