"""Wheels that stand in for the CUDA libraries of PyTorch's wheel, where nothing is computed on a GPU: 4.9 GB less.

    python .ci/cuda_stand_ins.py FOLDER torch==2.9.1
    jprep backends install fairseq-xla --set device=xla -- --find-links FOLDER

The package index has PyTorch 2.9 with CUDA only, and Python loads libraries whole: each has to be there with every
function. So one library is made that has all of them, and each answers that there is no device. One of the wheels has
it, and under CUDA's names libraries that lead to it; the others are empty. A version with `+empty` meets the same
requirement as the one without, and pip prefers it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

HOME, PLACE = "nvidia-cublas-cu12", "nvidia/cublas/lib"
"""The wheel that has the libraries, and where: PyTorch's look into this folder among others."""

ALL = "libno-cuda.so"
NO_DEVICE = 100  # cudaErrorNoDevice
WORDS = re.compile(r"(?!cuGet)\w+Get(?:Error|Status)(?:String|Name)|ncclGetLastError")
"""Functions that give a text: what PyTorch says of an error is asked of them."""

TAG = "py3-none-manylinux_2_17_x86_64"
REQUIRED = re.compile(r"^Requires-Dist: ((?:nvidia-|triton)[\w-]*)==([\w.]+);", re.MULTILINE)
CUDAS = re.compile(r"^_*(?:cu|nv|nccl)\w+", re.MULTILINE)
NEEDED = re.compile(r"\(NEEDED\).*\[(lib(?:cu|nv|nccl)[^]]+)\]")


def make(folder: Path, torch: str) -> None:
    """Fetch PyTorch's wheel, which pip finds there again, and write one for each distribution of CUDA's beside it.

    Args:
        folder: where to; it is made.
        torch: a requirement, e.g. `torch==2.9.1`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", folder, torch], check=True)
    [wheel] = folder.glob("torch-*.whl")
    with zipfile.ZipFile(wheel) as whole, tempfile.TemporaryDirectory(dir=folder) as scratch:
        about = next(name for name in whole.namelist() if name.endswith(".dist-info/METADATA"))
        required = dict(REQUIRED.findall(whole.read(about).decode()))
        libraries = _libraries(whole, Path(scratch))
    for name, version in required.items():
        _write(folder, name, version, libraries if name == HOME else {})


def _libraries(whole: zipfile.ZipFile, scratch: Path) -> dict[str, bytes]:
    """All that PyTorch's own libraries take from others, by the names of these."""
    missing, there, names = set[str](), set[str](), set[str]()
    for part in _parts(whole, scratch):
        missing |= set(CUDAS.findall(_said("nm", "-D", "--undefined-only", "--format=just-symbols", part)))
        there |= set(CUDAS.findall(_said("nm", "-D", "--defined-only", "--format=just-symbols", part)))
        names |= set(NEEDED.findall(_said("readelf", "-d", part)))
    (scratch / "all.c").write_text("".join(map(_function, sorted(missing - there))))
    _link(scratch, "all.c", "-o", ALL, f"-Wl,-soname,{ALL}")
    # ld.so lets a function without a version pass only where the library has another name than the one asked for.
    _link(scratch, "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", ALL, "-o", "none.so")
    return {ALL: (scratch / ALL).read_bytes()} | dict.fromkeys(sorted(names), (scratch / "none.so").read_bytes())


def _function(name: str) -> str:
    if WORDS.fullmatch(name):
        return f'const char *{name}(void) {{ return "there is no CUDA here"; }}\n'
    return f"int {name}(void) {{ return {NO_DEVICE}; }}\n"


def _link(scratch: Path, *words: str) -> None:
    subprocess.run(["cc", "-shared", "-fPIC", "-fno-builtin", "-nostdlib", *words], cwd=scratch, check=True)


def _parts(whole: zipfile.ZipFile, scratch: Path) -> Iterator[Path]:
    """PyTorch's libraries, one after the other."""
    for name in whole.namelist():
        if re.fullmatch(r"torch/lib/lib(?:torch|c10)\w*\.so", name):
            part = Path(whole.extract(name, scratch))
            yield part
            part.unlink()


def _said(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _write(folder: Path, name: str, version: str, libraries: dict[str, bytes]) -> None:
    stem = f"{name.replace('-', '_')}-{version}+empty"
    with zipfile.ZipFile(folder / f"{stem}-{TAG}.whl", "w") as wheel:
        for library, content in libraries.items():
            wheel.writestr(f"{PLACE}/{library}", content)
        about = f"{stem}.dist-info"
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}+empty\n")
        wheel.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {TAG}\n")
        wheel.writestr(f"{about}/RECORD", "")


if __name__ == "__main__":
    make(Path(sys.argv[1]), sys.argv[2])
