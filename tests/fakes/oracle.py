"""A backend `oracle` without a framework: it exports by copying, and its responses are computed from the ids.

The environment variable ORACLE makes it fail: `die`, `babble`, `refuse`.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from jprep.train.backend import Backend, Finding, Host, Plan
from jprep.train.inference.protocol import FillMask, Generate, Request, Response, TokenProbability
from jprep.train.job.config import Job
from tests.conftest import Distribution
from tests.fakes.backend_distribution import add_backend

WORKER = """import sys
from tests.fakes.oracle import main
if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
"""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    device: str = ""


class Oracle(Backend):
    name: ClassVar[str] = "oracle"
    module: ClassVar[str] = "oracle_framework"
    distribution: ClassVar[str] = "jprep-oracle"
    Options: ClassVar[type[Any]] = Options

    def check(self, options: Any) -> list[Finding]:
        return []

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        raise NotImplementedError


def offer(distribution: Distribution) -> dict[str, str]:
    """Add the backend to a distribution. Return the environment variables with which a process finds it."""
    return add_backend(distribution, Oracle.name, "tests.fakes.oracle:Oracle", Oracle.module, WORKER)


def main(verb: str, *arguments: str | Path) -> int:
    fault = os.environ.get("ORACLE")
    if fault == "refuse":
        sys.stderr.write("a thousand lines\nthe oracle is closed\n")
        return 3
    if verb == "export":
        shutil.copyfile(Path(arguments[1], "model.safetensors"), Path(arguments[2], "model.safetensors"))
        return 0
    for line in sys.stdin.buffer:
        if fault == "die":
            sys.stderr.write("the tripod fell over\n")
            return 9
        answer = answer_to(msgspec.json.decode(line, type=Request))
        sys.stdout.buffer.write(b"hm" if fault == "babble" else msgspec.json.encode(answer))
        sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()
    return 0


def answer_to(request: Request) -> Response:
    if isinstance(request, FillMask):
        guesses = [TokenProbability(number + 5, 1 / (number + 2)) for number in range(request.top)]
        return Response(masks=[guesses] * request.ids.count(request.mask))
    if isinstance(request, Generate):  # what it was given, backwards
        return Response(ids=request.ids[: -request.tokens - 1 : -1])
    if len(request.ids) > 25:
        return Response(error="that is too deep")
    return Response(scores=[0.25, 0.5, 0.25])
