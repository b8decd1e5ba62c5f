"""Where the shells look for completion scripts, and how jprep's gets there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jprep.errors import ConfigError
from jprep.io.atomic import write_atomic
from jprep.io.os_errors import translate_os_error

_PROGRAM, _VARIABLE = "jprep", "_JPREP_COMPLETE"
_BEGIN, _END = "# >>> jprep completion >>>", "# <<< jprep completion <<<"
_BLOCK = re.compile(rf"\n?{re.escape(_BEGIN)}\n.*?{re.escape(_END)}\n", re.DOTALL)

_BASH_COMPLETION = (
    "/usr/share/bash-completion/bash_completion",
    "/usr/local/share/bash-completion/bash_completion",
    "/opt/homebrew/etc/profile.d/bash_completion.sh",
    "/usr/local/etc/profile.d/bash_completion.sh",
    "/etc/profile.d/bash_completion.sh",
)
"""bash-completion, which loads the scripts of a user's directory on demand."""


def completion_script(shell: str) -> str:
    """Return click's script that completes `jprep` in a shell."""
    from click.shell_completion import get_completion_class

    from jprep.cli.main import cli

    found = get_completion_class(shell)
    if found is None:
        raise ConfigError(f"there is no completion for {shell}", fix="bash, zsh or fish")
    script = found(cli, {}, _PROGRAM, _VARIABLE)
    return script.source_template % script.source_vars()


def running_shell(shells: Sequence[str]) -> str:
    """Return the shell that called this process on a terminal, or else the user's login shell; "" if it is another."""
    names = [_parent_name()] if sys.stdin.isatty() else []
    names.append(Path(os.environ.get("SHELL", "")).name)
    return next((name for name in names if name in shells), "")


def _parent_name() -> str:
    command = ["ps", "-o", "comm=", "-p", str(os.getppid())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return Path(done.stdout.strip().lstrip("-")).name


class Installation:
    """The files of a shell's completion.

    Args:
        shell: `bash`, `zsh` or `fish`.

    Attributes:
        script: where the script is installed.
        startup: the start-up file that needs a block which loads the script; None where the shell finds it by itself.
    """

    def __init__(self, shell: str) -> None:
        self._shell = shell
        self.script, self.startup = _places(shell)

    @property
    def reload_command(self) -> str:
        """The command that makes a running shell use the script."""
        return f"source {_quoted(self.script)}"

    def install(self) -> list[str]:
        """Write what is missing; return a line for each change.

        Raises:
            MachineError: a file cannot be read or written.
        """
        changes = []
        if _replace(self.script, completion_script(self._shell)):
            changes.append(f"wrote {self.script}")
        if self.startup:
            old = _read(self.startup)
            block = self._block().lstrip("\n")
            if block not in old and _replace(self.startup, _without_block(old) + self._block(), old):
                changes.append(f"added a block to {self.startup}")
        return changes

    def remove(self) -> list[str]:
        """Delete the script and the block, wherever they were needed; return a line for each change.

        Raises:
            MachineError: a file cannot be read or written.
        """
        changes = []
        if self.script.exists():
            _delete(self.script)
            changes.append(f"deleted {self.script}")
        startup = _startup(self._shell)
        if startup and _BEGIN in (old := _read(startup)):
            _replace(startup, _without_block(old), old)
            changes.append(f"removed the block from {startup}")
        return changes

    def _block(self) -> str:
        load = f"source {_quoted(self.script)}"
        if self._shell == "zsh":  # the script registers itself with compdef, which compinit defines
            load = f"(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit -i }}\n{load}"
        return f"\n{_BEGIN}\n[ -r {_quoted(self.script)} ] && {{\n{load}\n}}\n{_END}\n"


def _places(shell: str) -> tuple[Path, Path | None]:
    """Return where a shell's script goes, and the start-up file that has to load it, if any."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return config / "fish/completions/jprep.fish", None
    if shell == "zsh":
        return data / "zsh/site-functions/_jprep", _startup(shell)
    folder = Path(os.environ.get("BASH_COMPLETION_USER_DIR", "").partition(":")[0] or data / "bash-completion")
    loads_itself = any(Path(each).exists() for each in _BASH_COMPLETION)
    return folder / "completions/jprep", None if loads_itself else _startup(shell)


def _startup(shell: str) -> Path | None:
    if shell == "zsh":
        return Path(os.environ.get("ZDOTDIR") or Path.home()) / ".zshrc"
    return Path.home() / ".bashrc" if shell == "bash" else None


def _quoted(path: Path) -> str:
    """Return a path in single quotes, which mean the same in the three shells unless it has one of them."""
    import shlex

    return shlex.quote(str(path))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise translate_os_error(error, path, "read") from error


def _replace(path: Path, text: str, old: str | None = None) -> bool:
    """Write a file if its content changes; return whether it does. A link stays one, and permissions are kept."""
    if (old if old is not None else _read(path)) == text:
        return False
    target = path.resolve()
    try:
        mode = target.stat().st_mode & 0o777 if target.exists() else None
        write_atomic(target, text.encode("utf-8", "surrogateescape"))
        if mode is not None:
            target.chmod(mode)
    except OSError as error:
        raise translate_os_error(error, path, "write") from error
    return True


def _delete(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        raise translate_os_error(error, path, "write") from error


def _without_block(text: str) -> str:
    return _BLOCK.sub("", text)
