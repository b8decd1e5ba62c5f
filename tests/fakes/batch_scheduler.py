"""A stand-in for the commands of PBS Pro and Grid Engine, `python batch_scheduler.py KIND COMMAND …`.

Debian has no PBS, and Grid Engine is not installed everywhere. It reads the options of `qsub` as strictly as Grid
Engine 8.1.9 was seen to do, and as the manual of PBS Pro 2022.1 describes; it runs the elements of an array one after
the other, and answers `qstat` in both formats.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HOME = "FAKE_SCHEDULER"
"""The variable that names the folder of the jobs."""

_FINISHED, _UNKNOWN = 35, 153
_COUNTS = {"-V": 0, "-pe": 2}  # values of options that do not have one
_AGAIN = 99  # the exit code after which Grid Engine runs an element again
_TIME = r"\d+:\d\d:\d\d"


def install(kind: str, folder: Path) -> dict[str, str]:
    """Write the commands into a folder; return the variables with which they are used."""
    programs, jobs = folder / "bin", folder / "jobs"
    for made in (programs, jobs):
        made.mkdir(parents=True)
    for name in ("qsub", "qstat", "qdel", *(["qconf"] if kind == "grid-engine" else [])):
        path = programs / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" {kind} {name} "$@"\n')
        path.chmod(0o755)
    return {HOME: str(jobs), "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)])}


class Kind:
    """What differs between the schedulers.

    Attributes:
        prefix: begins a line of options.
        flags: options without a value, options with one, and the pattern of each value.
        first: the number of an array's first element.
        refusal: what `qsub` prints of a line that it does not understand.
    """

    prefix: str
    options: dict[str, str | None]
    first: int
    array: str
    refusal: str

    def variables(self, job: str, element: int | None) -> dict[str, str]:
        """The variables of an element."""
        raise NotImplementedError


class Pbs(Kind):
    prefix, first, array = "#PBS", 0, "-J"
    refusal = "qsub: illegal option {}"
    options = {
        "-N": r"[A-Za-z][\w-]{0,230}",
        "-J": r"0-[1-9]\d*",  # a range of one is refused
        "-W": r"depend=afterany(:\d+(\[\])?\.here)+",
        "-q": r"\w+",
        "-P": r"\w+",
        "-l": rf"select=\d+(:(ncpus|mpiprocs|ngpus)=\d+|:mem=\d+[kmg]b)*|walltime={_TIME}",
        "-r": "y|n",
        "-j": "oe",
        "-o": r"/[^:,$#]*/|/dev/null",
        "-S": "/bin/bash",
        "-V": None,
    }

    def variables(self, job: str, element: int | None) -> dict[str, str]:
        if element is None:
            return {"PBS_JOBID": f"{job}.here"}
        return {"PBS_JOBID": f"{job}[{element}].here", "PBS_ARRAY_INDEX": str(element)}


class GridEngine(Kind):
    prefix, first, array = "#$", 1, "-t"
    refusal = "Unable to run job: illegal option {}\nExiting."
    options = {
        "-N": r"[A-Za-z][\w-]*",
        "-t": r"1-[1-9]\d*",
        "-hold_jid": r"\d+(,\d+)*",
        "-q": r"\w+",
        "-P": r"\w+",
        "-pe": r"\w+ \d+",
        "-l": rf"(h_rt|s_rt)={_TIME}|h_vmem=\d+[KMG]|gpu=\d+",
        "-r": "y|n",
        "-j": "y",
        "-o": r"/[^:,$#]*|:/[^,$#]*",  # before a colon is a host
        "-S": "/bin/bash",
        "-V": None,
    }

    def variables(self, job: str, element: int | None) -> dict[str, str]:
        return {"JOB_ID": job, "SGE_TASK_ID": "undefined" if element is None else str(element)}


KINDS = {"pbs": Pbs(), "grid-engine": GridEngine()}


def parse(kind: Kind, script: str) -> dict[str, list[str]]:
    """Return the options of a script; end with an error for one that the scheduler does not have."""
    found: dict[str, list[str]] = {}
    for line in script.splitlines():
        if line.startswith(f"{kind.prefix} "):
            name, *values = shlex.split(line.removeprefix(f"{kind.prefix} "), comments=True)
            value = " ".join(values)
            pattern = kind.options.get(name, "-")
            if len(values) != _COUNTS.get(name, 1) or not re.fullmatch(pattern or "", value):
                sys.exit(kind.refusal.format(line))
            found.setdefault(name, []).append(value)
    return found


def qsub(name: str, folder: Path) -> None:
    kind, script = KINDS[name], sys.stdin.read()
    options = parse(kind, script)
    number = str(len(list(folder.glob("*.sh"))) + 1)
    (folder / f"{number}.sh").write_text(script)
    array = options.get(kind.array)
    elements = list(range(kind.first, int(array[0].split("-")[1]) + 1)) if array else [None]
    after = re.findall(r"\d+", " ".join(options.get("-W", []) + options.get("-hold_jid", [])))
    write(folder, number, {"name": options["-N"][0], "state": "waits", "elements": elements, "after": after})
    runner = [sys.executable, __file__, name, "run", number]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen(runner, start_new_session=True, **quiet)  # type: ignore[call-overload]
    print(
        {"pbs": f"{number}[].here" if array else f"{number}.here"}.get(name)
        or (f"{number}.{array[0]}:1" if array else number)
    )


def run(name: str, folder: Path, number: str) -> None:
    """Run the elements of a job."""
    kind, job = KINDS[name], read(folder, number)
    while any(read(folder, each)["state"] != "ended" for each in job["after"]):
        time.sleep(0.05)
    write(folder, number, job | {"state": "runs", "process": os.getpid()})
    home = Path.home() if name == "pbs" else Path.cwd()  # where PBS starts scripts
    for element in job["elements"]:
        with (folder / f"{number}.{element}.out").open("wb") as out:
            variables = os.environ | kind.variables(number, element)
            command = ["/bin/bash", str(folder / f"{number}.sh")]
            while subprocess.run(command, env=variables, cwd=home, stdout=out, stderr=out).returncode == _AGAIN:
                if name == "pbs":
                    break
    write(folder, number, job | {"state": "ended"})


def qstat(name: str, folder: Path, words: list[str]) -> None:
    if name == "grid-engine":
        assert words == ["-xml", "-u", pwd.getpwuid(os.geteuid()).pw_name], words
        print(_xml(folder))
        return
    if words == ["-B", "-f", "-F", "json"]:
        print(json.dumps({"Server": {"here": {"max_array_size": 10000}}}))
        return
    assert words[:4] == ["-t", "-f", "-F", "json"], words
    number = re.split(r"\D", words[4])[0]
    if not (folder / f"{number}.json").exists():
        sys.exit(_UNKNOWN)
    job = read(folder, number)
    if job["state"] == "ended":
        sys.exit(_FINISHED)
    code = {"waits": "H" if job["after"] else "Q", "runs": "R"}[job["state"]]
    jobs: dict[str, Any] = {words[4]: {"job_state": "B" if code == "R" else code}}
    if job["elements"] != [None]:
        jobs |= {f"{number}[{each}].here": {"job_state": code, "exec_host": "node1/0"} for each in job["elements"]}
    print(json.dumps({"Jobs": jobs}))


def _xml(folder: Path) -> str:
    jobs = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    lines = [_xml_job(number, job) for number, job in jobs.items() if job["state"] != "ended"]
    return f"<?xml version='1.0'?><job_info><queue_info>{''.join(lines)}</queue_info><job_info/></job_info>"


def _xml_job(number: str, job: dict[str, Any]) -> str:
    code = "r" if job["state"] == "runs" else "hqw" if job["after"] else "qw"
    queue = "all.q@node1" if code == "r" else ""
    first, last = job["elements"][0], job["elements"][-1]
    tasks = f"<tasks>{first}-{last}:1</tasks>" if first is not None else ""
    fields = f"<JB_job_number>{number}</JB_job_number><state>{code}</state><queue_name>{queue}</queue_name>"
    return f"<job_list>{fields}{tasks}</job_list>"


def qdel(folder: Path, words: list[str]) -> None:
    for word in words:
        number = re.split(r"\D", word)[0]
        job = read(folder, number)
        if "process" in job:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job["process"], signal.SIGKILL)
        write(folder, number, job | {"state": "ended"})


def read(folder: Path, number: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{number}.json").read_text())
    return found


def write(folder: Path, number: str, job: dict[str, Any]) -> None:
    new = folder / f"{number}.{os.getpid()}.new"
    new.write_text(json.dumps(job))
    new.replace(folder / f"{number}.json")


def main() -> None:
    kind, command, *words = sys.argv[1:]
    folder = Path(os.environ[HOME])
    if command == "qsub":
        parser = argparse.ArgumentParser("qsub", allow_abbrev=False)
        if kind == "grid-engine":
            parser.add_argument("-terse", action="store_true", required=True)
        parser.parse_args(words)
        qsub(kind, folder)
    elif command == "qstat":
        qstat(kind, folder, words)
    elif command == "qdel":
        qdel(folder, words)
    elif command == "qconf":
        assert words == ["-sconf"], words
        print("max_aj_tasks                 75000")
    else:
        run(kind, folder, words[0])


if __name__ == "__main__":
    main()
