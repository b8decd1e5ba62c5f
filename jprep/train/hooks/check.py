"""Check hooks in the backend's environment before anything is trained: the part that runs there.

    python -P -c "from jprep.train.hooks.check import main; main('jprep_torch.worker.hooks', 'FOLDER')"

The folder has `request.json` and the hooks' files; the answer is written to `answer.json`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from jprep.errors import ConfigError, JprepError
from jprep.train.hooks.config import HOOKS, JobHooks
from jprep.train.hooks.loading import Hook, LoadedHooks, load_hooks, module_hash
from jprep.train.hooks.metrics import hook_metrics
from jprep.train.hooks.references import SUFFIX
from jprep.typed_json import decode_json

REQUEST, ANSWER = "request.json", "answer.json"
ROWS = 6
"""Rows of the arrays that hooks are tried with."""


class CheckRequest(msgspec.Struct, frozen=True):
    """What to check.

    Attributes:
        hooks: the hooks; their files are in the folder `hooks`.
        model: transformers' config.
        task: the job's task.
        environment: environment variables for the framework.
    """

    hooks: JobHooks
    model: dict[str, Any]
    task: str
    environment: dict[str, str] = {}


class CheckAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a check.

    Attributes:
        modules: the SHA-256 of each installed module.
        head: the shape of each parameter of the head; None without a head.
        code: the exit code of an error; 0 without one.
        what, where, fix: the error.
    """

    modules: dict[str, str] = {}
    head: dict[str, tuple[int, ...]] | None = None
    code: int = 0
    what: str = ""
    where: str = ""
    fix: str = ""


class Labels(NamedTuple):
    """Arrays that hooks are tried with.

    Attributes:
        logits: (rows, classes); (rows, 1) for scores.
        labels: (rows,), int64 classes or float32 scores.
    """

    logits: np.ndarray[Any, np.dtype[np.float32]]
    labels: np.ndarray[Any, Any]


class FrameworkCheck(Protocol):
    """The function `check_hooks` of a backend's module `Backend.hooks`."""

    def __call__(self, hooks: LoadedHooks, model: dict[str, Any], task: str) -> dict[str, tuple[int, ...]] | None:
        """Call the loss and the head once, and return the shapes of the head's parameters; None without a head.

        Args:
            hooks: the hooks.
            model: transformers' config.
            task: the job's task.

        Raises:
            ConfigError: one fails, or returns something of another form.
        """


def main(module: str, folder: str) -> None:
    """Check hooks, and write the answer.

    Args:
        module: the backend's module with `check_hooks`.
        folder: the folder of the request.
    """
    request = decode_json(Path(folder, REQUEST).read_bytes(), CheckRequest)
    os.environ |= request.environment
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}  # tiny arrays, and no device is taken
    try:
        answer = _check(module, Path(folder), request)
    except JprepError as error:
        where = error.where.replace(str(Path(folder, HOOKS)) + os.sep, "")
        answer = CheckAnswer(code=error.exit_code, what=error.what, where=where, fix=error.fix)
    Path(folder, ANSWER).write_bytes(msgspec.json.encode(answer))


def sample_labels(model: dict[str, Any], task: str) -> Labels:
    """Return logits and labels that a loss is tried with."""
    classes = len(model["id2label"]) if task in ("classify", "regress") else model["vocab_size"]
    logits = np.sin(np.arange(ROWS * classes, dtype=np.float32)).reshape(ROWS, classes)
    numbers = np.arange(ROWS)
    return Labels(logits, (numbers / ROWS).astype(np.float32) if task == "regress" else numbers % classes)


def check_traced_loss(
    hook: Hook, labels: Labels, loss: Callable[..., Iterable[Any]], gradient: Callable[..., tuple[Any, Any, Any]]
) -> None:
    """Check a loss in a framework whose programs have fixed shapes, so that labels can be masked.

    Args:
        hook: the loss.
        labels: from `sample_labels`.
        loss: maps NumPy's logits, labels and label mask to the summed loss and the count.
        gradient: maps the same to the loss, the count and the gradient of the logits.

    Raises:
        ConfigError: a number is not finite, the loss does not depend on the logits, or masked labels have an effect.
    """
    given = *labels, np.ones(len(labels.labels), np.bool_)
    total, count, slope = gradient(*given)
    if not np.isfinite([total, count]).all() or not np.isfinite(slope).all():
        what = f"returned the loss {float(total)} and the count {float(count)} for finite logits"
        raise hook.error(f"{what}, or has a gradient that is not finite")
    if not np.any(slope):
        raise hook.error("returned a loss that does not depend on the logits", fix="compute it from `logits`")
    filled = (np.concatenate([values, np.zeros_like(values[:2])]) for values in given)
    if not np.allclose([*loss(*filled)], [total, count], rtol=1e-5):
        fix = "multiply the losses by batch.label_mask, and return its sum as the count"
        raise hook.error("counts labels that batch.label_mask leaves out", fix=fix)


def read_answer(folder: Path) -> CheckAnswer:
    """Return the answer in a folder.

    Raises:
        ConfigError: a hook failed.
    """
    answer = decode_json((folder / ANSWER).read_bytes(), CheckAnswer)
    if answer.code:
        raise ConfigError(answer.what, where=answer.where, fix=answer.fix)
    return answer


def _check(module: str, folder: Path, request: CheckRequest) -> CheckAnswer:
    hooks = request.hooks
    loaded = load_hooks(folder / HOOKS, hooks)
    check: FrameworkCheck = importlib.import_module(module).check_hooks
    head = check(loaded, request.model, request.task)
    if loaded.metrics:
        logits, labels = sample_labels(request.model, request.task)
        hook_metrics(loaded.metrics, logits if request.task == "classify" else logits[:, 0], labels)
    installed = {text.rpartition(":")[0]: key for key, text in hooks.named().items()}
    modules = {name: module_hash(name, key) for name, key in installed.items() if not name.endswith(SUFFIX)}
    return CheckAnswer(modules, head)
