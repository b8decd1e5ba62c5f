"""Shell completion: installed by one command, used by real shells, quick."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.conftest import COMMAND, Run, environment

SHELLS = ("bash", "zsh", "fish")


def home(folder: Path, **variables: str) -> dict[str, str]:
    """Return variables of a user whose home is a folder."""
    unset = dict.fromkeys(("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR", "BASH_COMPLETION_USER_DIR"), "")
    return {"HOME": str(folder), **unset, **variables}


def need(shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")


def complete(line: str, **variables: str) -> list[str]:
    """Return what click answers a shell for the last word of a line."""
    words = line.split(" ")
    env = environment(_JPREP_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1), **variables)
    done = subprocess.run([COMMAND], env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", SHELLS)
def test_installing_twice_changes_nothing_and_removing_restores(shell: str, tmp_path: Path, jprep: Run) -> None:
    startup = tmp_path / {"bash": ".bashrc", "zsh": ".zshrc", "fish": "unused"}[shell]
    startup.write_bytes(b"alias ll='ls -l' # \xff\n")
    startup.chmod(0o600)
    first = jprep("completion", "install", shell, env=home(tmp_path)).stdout
    assert "wrote " in first and f"{shell}: installed" in first and "source " in first
    if shell != "fish":
        startup.write_bytes(startup.read_bytes() + b"alias la='ls -a'\n")  # the block stays where it is
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = jprep("completion", "install", shell, env=home(tmp_path)).stdout
    assert "nothing to do" in again
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files
    assert startup.read_bytes().startswith(b"alias ll='ls -l' # \xff\n")
    assert stat.S_IMODE(startup.stat().st_mode) == 0o600
    jprep("completion", "remove", env=home(tmp_path))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [startup]
    added = b"" if shell == "fish" else b"alias la='ls -a'\n"
    assert startup.read_bytes() == b"alias ll='ls -l' # \xff\n" + added
    assert "nothing is installed" in jprep("completion", "remove", env=home(tmp_path)).stdout


def test_a_start_up_file_that_is_a_link_stays_one(tmp_path: Path, jprep: Run) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/zshrc").write_text("setopt\n", encoding="utf-8")
    (tmp_path / ".zshrc").symlink_to("dotfiles/zshrc")
    jprep("completion", "install", "zsh", env=home(tmp_path))
    assert (tmp_path / ".zshrc").is_symlink()
    assert "jprep completion" in (tmp_path / "dotfiles/zshrc").read_text(encoding="utf-8")


def test_the_shell_is_detected(tmp_path: Path, jprep: Run) -> None:
    assert "fish: installed" in jprep("completion", "install", env=home(tmp_path, SHELL="/usr/bin/fish")).stdout
    said = jprep("completion", "install", env=home(tmp_path, SHELL="/bin/tcsh"), code=2).stderr
    assert "name it: bash, zsh, fish" in said


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path, jprep: Run) -> None:
    (tmp_path / ".config").write_text("a file", encoding="utf-8")
    said = jprep("completion", "install", "fish", env=home(tmp_path), code=3).stderr
    assert said.startswith("jprep: ") and "Traceback" not in said


def test_fish_completes(tmp_path: Path, jprep: Run) -> None:
    need("fish")
    (tmp_path / "own recipe.toml").touch()
    jprep("completion", "install", "fish", env=home(tmp_path))

    def completed(line: str) -> str:
        command = ["fish", "-c", f"complete -C '{line}'"]
        env = environment(**home(tmp_path))
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert completed("jprep quickst").startswith("quickstart\t")
    assert completed("jprep run jaw").split() == ["jawiki"]
    assert "own recipe.toml" in completed("jprep run o").replace("\\", "")
    assert "jumandic" in completed("jprep corpus build --segmenter j")


def test_bash_completes(tmp_path: Path, jprep: Run) -> None:
    need("bash")
    (tmp_path / "jaw-own.toml").touch()
    jprep("completion", "install", "bash", env=home(tmp_path))
    script = tmp_path / ".local/share/bash-completion/completions/jprep"
    program = """
        source "$1"
        shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _jprep_completion jprep 2>/dev/null
        echo "${COMPREPLY[*]}"
    """

    def completed(*words: str) -> list[str]:
        command = ["bash", "-c", textwrap.dedent(program), "bash", str(script), "jprep", *words]
        env = environment(**home(tmp_path))
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()

    assert completed("quickst") == ["quickstart"]
    assert completed("run", "jaw") == ["jaw-own.toml", "jawiki"]
    assert completed("recipes", "show", "jaw") == ["jawiki"]
    assert completed("corpus", "build", "--segm") == ["--segmenter"]


def test_zsh_completes(tmp_path: Path, jprep: Run) -> None:
    need("zsh")
    jprep("completion", "install", "zsh", env=home(tmp_path))
    (tmp_path / ".zshrc").write_text("PS1='ready> '\n" + (tmp_path / ".zshrc").read_text(encoding="utf-8"))
    program = r"""
        zmodload zsh/zpty
        zpty shell zsh -i
        wait_for() { local seen= part; repeat 6000; do
            zpty -r -t shell part 2>/dev/null && seen+=$part || sleep 0.1
            [[ $seen == *$1* ]] && break; done; print -r -- ${(V)seen} }
        wait_for 'ready>' >/dev/null
        zpty -w -n shell $'jprep quickst\t'; wait_for 'quickstart'
        zpty -w -n shell $'\C-ujprep run jaw\t'; wait_for 'jawiki'
    """
    env = environment(**home(tmp_path, ZDOTDIR=str(tmp_path)), TERM="xterm")
    command = ["zsh", "-f", "-c", textwrap.dedent(program)]
    shown = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "quickstart" in shown and "jawiki" in shown


def test_names_are_completed(distribution, tmp_path: Path) -> None:
    distribution.add(
        "jprep_other",
        "from jprep.plugins import hookimpl\n@hookimpl\ndef jprep_backends():\n    return {'other': 'x:Y'}\n",
    )
    assert "plain,other" in complete("jprep train jawiki --backend o", **distribution.env)
    assert complete("jprep init --model roberta-b") == ["plain,roberta-base"]
    assert complete("jprep text normalize --using nf") == ["plain,nfkc"]
    assert complete("jprep tokenizer train x") == ["file,x"]


def test_completing_opens_no_log_and_changes_nothing(tmp_path: Path) -> None:
    complete(f"jprep recipes --log-file {tmp_path}/log --js")
    assert list(tmp_path.iterdir()) == []


def test_completion_is_light() -> None:
    """Each press of Tab starts a process."""
    heavy = ("numpy", "pyarrow", "rich", "fugashi", "jinja2", "torch")
    program = f"""
        import sys
        from jprep.cli.main import main
        sys.argv = ["jprep"]
        try:
            main()
        finally:
            sys.stderr.write(repr([name for name in {heavy!r} if name in sys.modules]))
    """
    for line in ("jprep tr", "jprep run jaw", "jprep init --model ro", "jprep run --backend t"):
        variables = {"_JPREP_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        command = [sys.executable, "-c", textwrap.dedent(program)]
        done = subprocess.run(command, env=environment(**variables), capture_output=True, text=True, check=True)
        assert done.stdout and done.stderr == "[]", line
