"""Export a user's own head: no class of transformers holds it, so its weights go to a file of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from jprep.errors import ConfigError
from jprep.train.hooks.config import job_hooks
from jprep.train.job.config import Job
from jprep.train.models import FAMILIES
from jprep.train.models.presets import TransformersConfig
from jprep.train.models.registry import is_plugin_model
from jprep.train.models.weights import HEAD_PARAMETERS, HEAD_PREFIX

_TORCH = ("torch", "deepspeed")

HEAD = "head.safetensors"
"""The file with the weights of a user's head, under the names that its class has for them."""


def split_head(model: TransformersConfig, names: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the files of an exported model's weights: file → name in the file → name in checkpoints.

    Args:
        model: the job's model.
        names: the name of each tensor in transformers → its name in checkpoints.
    """
    head = {name: names[HEAD_PREFIX + name] for name in sorted(model.get(HEAD_PARAMETERS, ()))}
    own = {name: names[name] for name in sorted(names) if names[name] not in head.values()}
    return {"model.safetensors": own} | ({HEAD: head} if head else {})


def has_custom_head(model: TransformersConfig) -> bool:
    """Return whether a job's model has a user's head."""
    return HEAD_PARAMETERS in model


def exported_config(model: TransformersConfig) -> TransformersConfig:
    """Return the config of an exported model: with a user's head, that of transformers' base model."""
    if not has_custom_head(model):
        return model
    name = FAMILIES[model["model_type"]].classes["classify"].removesuffix("ForSequenceClassification")
    plain = {key: value for key, value in model.items() if key != HEAD_PARAMETERS}
    return plain | {"architectures": [f"{name}Model"]}


def refuse_custom_head(folder: Path) -> None:
    """Raise ConfigError if an exported model has a user's head: jprep runs no code that an export names."""
    if (folder / HEAD).exists():
        fix = f"README.md in the folder shows how to load the weights of the head, {HEAD}"
        raise ConfigError(
            "this model has a head of its own, which `jprep infer` does not run", where=str(folder), fix=fix
        )


def hook_lines(job: Job) -> Iterator[str]:
    """Yield the lines of a model card about a user's own loss, head and metrics."""
    hooks = job_hooks(job)
    if not hooks.named():
        return
    yield from ("## Code besides jprep", "")
    for key, reference in hooks.named().items():
        module = reference.rpartition(":")[0]
        yield f"- `{key}`: `{reference}`, sha256 `{hooks.files.get(module, '')}`"
    yield ""
    if hooks.head:
        yield f"`model.safetensors` holds the base model only. The weights of the head are in `{HEAD}`, under the names"
        yield "of its class:"
        loads = job.backend in _TORCH and not is_plugin_model(job.model)
        yield from ("", "```python", *_snippet(hooks.head, loads=loads).splitlines(), "```", "")


def _snippet(head: str, *, loads: bool) -> str:
    """Return how to load the head; its arrays only, unless transformers loads the base model in its framework."""
    module, _, name = head.rpartition(":")
    if not loads:
        return f'from safetensors.numpy import load_file\n\nweights = load_file("{HEAD}")  # the parameters of {name}'
    return f"""from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer
from {module.removesuffix(".py")} import {name}

tokenizer, model = AutoTokenizer.from_pretrained("."), AutoModel.from_pretrained(".")  # this folder
head = {name}(model.config)
head.load_state_dict(load_file("{HEAD}"))
model.eval(), head.eval()
batch = tokenizer("日本の文章", return_tensors="pt")
print(head(model(**batch).last_hidden_state, batch["attention_mask"]))"""
