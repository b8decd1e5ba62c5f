"""Install the stand-in for Juman++ as a program, with the layout of the real one."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

FAKE = Path(__file__).with_name("jumanpp.py")


def install(folder: Path) -> Path:
    """Install the program and its model in a folder; return the program's path."""
    program, shared = folder / "bin" / "jumanpp", folder / "libexec" / "jumanpp"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S {shlex.quote(str(FAKE))} "$@"\n')
    program.chmod(0o755)
    shared.mkdir(parents=True)
    (shared / "jumandic.config").write_text("--model=jumandic.jppmdl\n")
    (shared / "jumandic.jppmdl").write_bytes(b"fake jumanpp model 1")
    return program
