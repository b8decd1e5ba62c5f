"""`python -m jprep_deepspeed.worker.launcher RUNNER'S OPTION… VARIABLE… -- MODULE ARGUMENT…`: a module on many hosts.

DeepSpeed's runner has each host's shell read the worker's arguments once more, and passes on few variables. So what
is told here is quoted, and the variables that are named go along, with those by which a worker knows its supervisor.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping

from jprep.train.run.attempt import ATTEMPT, RESUME


def command(arguments: list[str], variables: Mapping[str, str], python: str) -> list[str]:
    """The runner's command.

    Args:
        arguments: see above; options of the runner's are pairs.
        variables: this process's.
        python: the interpreter, at the same path on all hosts.
    """
    told, (module, *rest) = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    options = 2 * sum(part.startswith("--") for part in told)
    named = [f"{name}={variables[name]}" for name in (*told[options:], ATTEMPT, RESUME) if name in variables]
    worker = ["env", *(quoted(part) for part in [*named, python, "-m", module, *rest])]
    return [python, "-m", "deepspeed.launcher.runner", *told[:options], "--force_multi", "--no_local_rank",
            "--no_python", *worker]  # fmt: skip


def quoted(argument: str) -> str:
    """An argument as the runner has to be given it: it puts itself what has spaces between double quotes."""
    return re.sub(r"([\\$`])", r"\\\1", argument) if " " in argument else shlex.quote(argument)


if __name__ == "__main__":
    line = command(sys.argv[1:], os.environ, sys.executable)
    os.execv(line[0], line)
