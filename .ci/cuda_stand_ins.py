"""Wheels that stand in for the CUDA libraries which PyTorch's wheel of 2.9 requires: nothing of them is used on a CPU.

    python .ci/cuda_stand_ins.py FOLDER
    jprep backends install fairseq-xla --constraint .ci/fairseq-xla.txt -- --find-links FOLDER

The package index has PyTorch 2.9 with CUDA only. Its libraries are linked to CUDA's, so a file of each name has to be
there, and may be empty: functions are looked up when they are called. A version with `+empty` meets the same
requirement as the one without, and pip prefers it. For CI, where it saves 4.6 GB; never for a machine with a GPU.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PLATFORM = "py3-none-manylinux_2_17_x86_64"
LIBRARIES = {
    "nvidia-cublas-cu12": ("12.8.4.1", "nvidia/cublas/lib", ("libcublas.so.12", "libcublasLt.so.12")),
    "nvidia-cuda-cupti-cu12": ("12.8.90", "nvidia/cuda_cupti/lib", ("libcupti.so.12",)),
    "nvidia-cuda-nvrtc-cu12": ("12.8.93", "nvidia/cuda_nvrtc/lib", ()),
    "nvidia-cuda-runtime-cu12": ("12.8.90", "nvidia/cuda_runtime/lib", ("libcudart.so.12",)),
    "nvidia-cudnn-cu12": ("9.10.2.21", "nvidia/cudnn/lib", ("libcudnn.so.9",)),
    "nvidia-cufft-cu12": ("11.3.3.83", "nvidia/cufft/lib", ("libcufft.so.11",)),
    "nvidia-cufile-cu12": ("1.13.1.3", "nvidia/cufile/lib", ("libcufile.so.0",)),
    "nvidia-curand-cu12": ("10.3.9.90", "nvidia/curand/lib", ("libcurand.so.10",)),
    "nvidia-cusolver-cu12": ("11.7.3.90", "nvidia/cusolver/lib", ("libcusolver.so.11",)),
    "nvidia-cusparse-cu12": ("12.5.8.93", "nvidia/cusparse/lib", ("libcusparse.so.12",)),
    "nvidia-cusparselt-cu12": ("0.7.1", "nvidia/cusparselt/lib", ("libcusparseLt.so.0",)),
    "nvidia-nccl-cu12": ("2.27.5", "nvidia/nccl/lib", ("libnccl.so.2",)),
    "nvidia-nvjitlink-cu12": ("12.8.93", "nvidia/nvjitlink/lib", ()),
    "nvidia-nvshmem-cu12": ("3.3.20", "nvidia/nvshmem/lib", ("libnvshmem_host.so.3",)),
    "nvidia-nvtx-cu12": ("12.8.90", "nvidia/nvtx/lib", ()),
    "triton": ("3.5.1", "", ()),
}
"""Distribution → the version that PyTorch 2.9.1 requires, where its libraries lie, which of them PyTorch is linked to."""


def make(folder: Path) -> None:
    """Write a wheel for each distribution.

    Args:
        folder: where to; it is made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, (version, place, libraries) in LIBRARIES.items():
        stem = f"{name.replace('-', '_')}-{version}+empty"
        with zipfile.ZipFile(folder / f"{stem}-{PLATFORM}.whl", "w") as wheel:
            for library in libraries:
                wheel.writestr(f"{place}/{library}", _empty(library))
            about = f"{stem}.dist-info"
            wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}+empty\n")
            wheel.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {PLATFORM}\n")
            wheel.writestr(f"{about}/RECORD", "")


def _empty(name: str) -> bytes:
    """A shared library of this name, with nothing in it."""
    with tempfile.TemporaryDirectory() as scratch:
        source, made = Path(scratch, "empty.c"), Path(scratch, name)
        source.touch()
        subprocess.run(["cc", "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-o", made, source], check=True)
        return made.read_bytes()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
