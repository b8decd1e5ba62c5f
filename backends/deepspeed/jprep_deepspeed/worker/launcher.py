"""Start a module on several hosts: `python -m jprep_deepspeed.worker.launcher OPTION… VARIABLE… -- MODULE ARGUMENT…`.

The options are those of DeepSpeed's runner. The shell of each host evaluates the worker's arguments again, and the
runner forwards few environment variables. So this program quotes the arguments, and forwards the named variables,
those that identify the worker's supervisor, and the steps to profile.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping

from jprep.train.run.attempt import ATTEMPT, RESUME
from jprep.train.run.profile import PROFILE


def runner_command(arguments: list[str], variables: Mapping[str, str], python: str) -> list[str]:
    """Return the command of DeepSpeed's runner.

    Args:
        arguments: this program's arguments; options of the runner are pairs of a name and a value.
        variables: environment variables of this process.
        python: the interpreter, which has the same path on all hosts.
    """
    separator = arguments.index("--")
    before, (module, *rest) = arguments[:separator], arguments[separator + 1 :]
    options = 2 * sum(part.startswith("--") for part in before)
    forwarded = [
        f"{name}={variables[name]}" for name in (*before[options:], ATTEMPT, RESUME, PROFILE) if name in variables
    ]
    worker = ["env", *(quote_argument(part) for part in [*forwarded, python, "-m", module, *rest])]
    return [python, "-m", "deepspeed.launcher.runner", *before[:options], "--force_multi", "--no_local_rank",
            "--no_python", *worker]  # fmt: skip


def quote_argument(argument: str) -> str:
    """Return an argument in the form that the runner needs: it puts those with spaces between double quotes itself."""
    return re.sub(r"([\\$`])", r"\\\1", argument) if " " in argument else shlex.quote(argument)


if __name__ == "__main__":
    line = runner_command(sys.argv[1:], os.environ, sys.executable)
    os.execv(line[0], line)
