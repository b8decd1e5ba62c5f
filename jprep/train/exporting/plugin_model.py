"""How exports of plugins' models are described: transformers has no class for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from jprep.plugins import plugins
from jprep.train.backend_loading import DEFAULT_BACKEND
from jprep.train.exporting.custom_head import has_custom_head
from jprep.train.job.config import Job
from jprep.train.models import FAMILIES
from jprep.train.models.presets import TransformersConfig
from jprep.train.models.registry import VERSION, is_plugin_model

_EXAMPLES = {"mlm": "日本の首都は<mask>である。", "sft": "日本の首都はどこですか。", "clm": "日本の"}


def is_plugin_export(folder: Path) -> bool:
    """Return whether an exported model is of a plugin's family; False if there is no readable config."""
    try:
        return is_plugin_model(msgspec.json.decode((folder / "config.json").read_bytes(), type=dict[str, Any]))
    except (OSError, msgspec.MsgspecError):
        return False


def loading_note(model: TransformersConfig) -> str:
    """Return a sentence on what loads an exported model; "" for models that transformers loads."""
    if not is_plugin_model(model):
        return ""
    loads = "train.model.init loads" if has_custom_head(model) else "`jprep infer` and train.model.init load"
    return (
        f"transformers has no class for the model family {model['model_type']!r}: {loads} it, with its plugin installed"
    )


def loading_lines(job: Job, task: str) -> Iterator[str]:
    """Yield the lines of a model card on what loads the model.

    Args:
        job: the job, whose model is of a plugin's family.
        task: the task of the exported model.
    """
    kind, version = job.model["model_type"], job.model[VERSION]
    distribution = plugins().distribution("model", kind).partition(" ")[0]
    needed = f"`{distribution}`" if distribution else "the plugin that has it"
    yield f"Its model family `{kind}`, version {version}, is that of a plugin of jprep, {needed}. transformers has no"
    yield "class for it, so `AutoModel` does not load this folder; `AutoTokenizer` does. With the plugin installed,"
    yield from ("`train.model.init` of a recipe takes this folder.", "")
    if not has_custom_head(job.model):
        yield from _infer_lines(job, task)


def _infer_lines(job: Job, task: str) -> Iterator[str]:
    able = FAMILIES[job.model["model_type"]].plugin
    other = "" if able and DEFAULT_BACKEND in able.models else f" --backend {job.backend}"
    yield from ("With the plugin in the environment of the backend, too:", "")
    yield from ("```console", f'jprep infer . "{_EXAMPLES.get(task, "日本の文章")}"{other}', "```", "")
