"""Inspect the hooks of a recipe: check them in the backend's environment, and describe them for the job."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.errors import ConfigError, MachineError
from jprep.train.backend import Backend
from jprep.train.hooks.check import ANSWER, REQUEST, CheckRequest, read_answer
from jprep.train.hooks.config import HOOKS, HooksConfig, JobHooks
from jprep.train.hooks.sources import HookSources, copy_hook_files, read_hook_sources
from jprep.train.job.config import LABELLED_TASKS, TrainConfig
from jprep.train.launcher.import_probe import run_probe
from jprep.train.models.weights import HEAD_PARAMETERS

_CODE = "from jprep.train.hooks.check import main; main({!r}, {!r})"


class InspectedHooks(NamedTuple):
    """Hooks that were checked.

    Attributes:
        hooks: as the job records them.
        model: the keys that they add to the model's config.
    """

    hooks: JobHooks
    model: dict[str, Any]


InspectHooks = Callable[[dict[str, Any]], InspectedHooks]
"""Checks the hooks of a recipe for a model's config."""


def find_hooks(train: TrainConfig, backend: Backend) -> HookSources | None:
    """Read the hooks of a recipe; None if it has none.

    Args:
        train: the recipe's section.
        backend: the backend.

    Raises:
        ConfigError: the backend or the task does not support a hook, or a file cannot be read.
    """
    if train.hooks == HooksConfig():
        return None
    if not backend.hooks:
        what = f"the backend {backend.name} does not support hooks: {backend.no_hooks_reason}"
        raise ConfigError(what, where="train.hooks", fix="use the backend torch, deepspeed, flax or keras")
    for key, value in (("head", train.hooks.head), ("metrics", train.hooks.metrics)):
        if value and train.task not in LABELLED_TASKS:
            what = f"train.hooks.{key} is for classify and regress, and the task is {train.task}"
            raise ConfigError(what, where=f"train.hooks.{key}", fix="remove it; a loss works with every task")
    if train.next_sentence or train.task == "rtd":
        what = "train.hooks.loss replaces the loss of a task that has one, and rtd and next_sentence have two"
        raise ConfigError(what, where="train.hooks.loss", fix="remove one of them")
    return read_hook_sources(train.hooks)


def inspector(
    sources: HookSources, train: TrainConfig, backend: Backend, python: Path, environment: dict[str, str]
) -> InspectHooks:
    """Return a function that tries the hooks in the backend's environment.

    Args:
        sources: from `find_hooks`.
        train: the recipe's section.
        backend: the backend.
        python: the interpreter of its environment.
        environment: environment variables for the framework (`Backend.check_environment`).
    """

    def inspect(model: dict[str, Any]) -> InspectedHooks:
        with tempfile.TemporaryDirectory(prefix="jprep-hooks-") as name:
            folder = Path(name)
            copy_hook_files(folder, sources.files)
            request = CheckRequest(sources.hooks, model, train.objective, environment)
            (folder / REQUEST).write_bytes(msgspec.json.encode(request))
            done = run_probe(python, _CODE.format(backend.hooks, name))
            if not (folder / ANSWER).exists():
                reason = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
                what = f"the hooks could not be checked in the environment of {backend.name}: {reason}"
                raise MachineError(what, where=HOOKS, fix="run `jprep doctor`, which checks the environment")
            answer = read_answer(folder)
        hooks = msgspec.structs.replace(sources.hooks, files=sources.hooks.files | answer.modules)
        if answer.head is None:
            return InspectedHooks(hooks, {})
        shapes = {name: list(shape) for name, shape in answer.head.items()}
        return InspectedHooks(hooks, {HEAD_PARAMETERS: shapes})

    return inspect
