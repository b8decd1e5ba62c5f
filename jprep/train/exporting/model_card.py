"""The README of an exported model: how to load it, its training data, hyperparameters and metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jprep.dataset.manifest import DatasetManifest
from jprep.hub.names import looks_like_name
from jprep.io.escaping import one_line
from jprep.tokenizer.card import TokenizerCard
from jprep.tokenizer.model_card import licence_identifiers, source_list, table
from jprep.train.evaluation.records import Evaluation, titles
from jprep.train.exporting.custom_head import exported_config, hook_lines
from jprep.train.exporting.loss_plot import Curve
from jprep.train.exporting.manifest import ModelExportManifest
from jprep.train.exporting.plugin_model import loading_lines
from jprep.train.job.config import LABELLED_TASKS, Job
from jprep.train.models.registry import is_plugin_model
from jprep.train.models.weights import HEAD_PARAMETERS
from jprep.train.optimization.optimizer import OptimizerConfig, OptimizerKind
from jprep.train.optimization.schedule import ScheduleConfig
from jprep.train.results.perplexity import perplexity
from jprep.train.run.data_lock import DataFile
from jprep.train.run.events import Event, metric_curve

CURVE = "loss.svg"

_TASKS = {
    "clm": ("text-generation", "AutoModelForCausalLM", "predicts the next token"),
    "mlm": ("fill-mask", "AutoModelForMaskedLM", "predicts hidden tokens"),
    "rtd": ("feature-extraction", "AutoModelForPreTraining", "tells original tokens from replaced ones"),
    "sft": ("text-generation", "AutoModelForCausalLM", "answers messages"),
    "classify": ("text-classification", "AutoModelForSequenceClassification", "tells classes of texts"),
    "regress": ("text-classification", "AutoModelForSequenceClassification", "gives texts a score"),
}
_OPTIMIZERS: dict[OptimizerKind, str] = {
    "adamw": "AdamW",
    "adamw-8bit": "AdamW with averages of eight bits",
    "muon": "Muon for the matrices of layers, AdamW for other weights",
}
_SHOWN = 20  # files of a source, or labels


class CardContent(NamedTuple):
    """The content of a model card.

    Attributes:
        job: the job.
        exported: the manifest of the exported model.
        events: the events of the run up to the checkpoint.
        dataset: the dataset's manifest; None for labelled data.
        tokenizer: the tokenizer's card; None without a tokenizer.
        files: the files of labelled rows or conversations, by name.
        base: the name of the model that the run started from; "" without one.
        evaluations: the figures of `jprep evaluate` for this checkpoint, and for initial weights that came from another
            model.
    """

    job: Job
    exported: ModelExportManifest
    events: Sequence[Event]
    dataset: DatasetManifest | None
    tokenizer: TokenizerCard | None
    files: Mapping[str, DataFile]
    base: str = ""
    evaluations: Sequence[Evaluation] = ()

    @property
    def curves(self) -> dict[str, Curve]:
        """The training and validation losses over steps."""
        return {"training": metric_curve(self.events), "validation": metric_curve(self.events, "validation")}


def model_card(content: CardContent) -> str:
    """Return the README of an exported model in Markdown, with the YAML header that model hubs read."""
    return "\n".join(_lines(content)) + "\n"


def _lines(content: CardContent) -> Iterator[str]:
    job, exported = content.job, content.exported
    yield from _head(content)
    about = f"{exported_config(job.model)['architectures'][0]}, {exported.parameters:,} parameters in {exported.dtype}"
    start = _start(content)
    yield f"A Japanese model that {_TASKS[exported.task][2]}: {about}, trained {start} with jprep {exported.jprep}"
    yield f"({exported.backend}) for {exported.step:,} of {job.steps:,} steps."
    if job.steps_before:
        yield f"The first {job.steps_before:,} were of the training that it continues, on data that is not known here."
    yield ""
    yield from _loading(content)
    yield from hook_lines(job)
    yield from _data(content)
    yield from table("Training", _training(job))
    yield from table("Figures", _figures(content))
    if any(steps for steps, _ in content.curves.values()):
        yield from (f"![Loss over steps]({CURVE})", "")
    yield "Nothing else was measured. What its texts say, errors and prejudices among it, the model may repeat."
    yield ""
    yield from table("Provenance", _provenance(content))
    yield "`export.json` has the SHA-256 of each file."


def _start(content: CardContent) -> str:
    if content.base:
        return f"from the weights of {_code(content.base)}"
    return "from given weights" if content.job.train.model.init else "from scratch"


def _code(text: str) -> str:
    """Return a name as code in Markdown, on one line."""
    return f"`{one_line(text).replace('`', chr(39))}`"


def _head(content: CardContent) -> Iterator[str]:
    job, pipeline = content.job, _TASKS[content.exported.task][0]
    library = "jprep" if is_plugin_model(job.model) else "transformers"
    yield from ("---", "language: ja", f"library_name: {library}")
    yield f"license: {licence_identifiers(_sources(content))}"
    if looks_like_name(content.base):  # hubs refuse others
        yield f"base_model: {json.dumps(content.base)}"
    yield f"pipeline_tag: {pipeline}"
    yield f"tags: [japanese, jprep, {job.model['model_type']}]"
    yield from ("---", "", f"# {job.name}", "")


def _sources(content: CardContent) -> Sequence[Mapping[str, Any]]:
    return content.dataset.sources if content.dataset else ()


_SNIPPETS = {
    "clm": """from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")  # this folder
model = AutoModelForCausalLM.from_pretrained(".")
prompt = tokenizer("日本の", return_tensors="pt")
print(tokenizer.decode(model.generate(**prompt, max_new_tokens=20)[0]))""",
    "sft": """from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")  # this folder
model = AutoModelForCausalLM.from_pretrained(".")
messages = [{"role": "user", "content": "日本の首都はどこですか。"}]
prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
answer = model.generate(**prompt, max_new_tokens=100)[0, prompt["input_ids"].shape[1] :]
print(tokenizer.decode(answer, skip_special_tokens=True))""",
    "mlm": """from transformers import pipeline

fill = pipeline("fill-mask", model=".")  # this folder
print(fill(f"日本の{fill.tokenizer.mask_token}である。"))""",
    "rtd": """from transformers import AutoModelForPreTraining, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")  # this folder
model = AutoModelForPreTraining.from_pretrained(".")
text = tokenizer("日本の文章", return_tensors="pt")
print(model(**text).logits.sigmoid())  # for each token, the probability that it was replaced""",
    "classify": """from transformers import pipeline

classify = pipeline("text-classification", model=".")  # this folder
print(classify("日本の文章"))""",
    "pair": """from transformers import pipeline

classify = pipeline("text-classification", model=".")  # this folder
print(classify({"text": "日本の文章", "text_pair": "もう一つの文章"}))""",
}
"""Examples with plain transformers, by task."""


def _loading(content: CardContent) -> Iterator[str]:
    if is_plugin_model(content.job.model):
        yield from loading_lines(content.job, content.exported.task)
        return
    yield from ("```python", *_snippet(content).split("\n"), "```", "")
    if lines := _input_lines(content):
        yield from (*lines, "")


def _input_lines(content: CardContent) -> list[str]:
    """Return the lines on what input the model takes; none for a user's own head."""
    if not content.tokenizer:
        return ["It was trained without a tokenizer, so none is included."]
    if content.tokenizer.config.boundaries == "hard":
        return [
            "Its tokenizer takes words separated by U+001F; `jprep infer` and `jprep.load_tokenizer` find them in raw",
            "text by themselves.",
        ]
    if content.tokenizer.config.boundaries == "spaces":
        return ["Its tokenizer takes text with spaces between words."]
    if content.exported.task == "sft":
        return [
            "`apply_chat_template` (it needs Jinja2) writes messages as in training, and `generate` stops where the",
            "answer ends. Use `jprep infer .` to query it from the command line.",
        ]
    if content.exported.task == "rtd":
        return [
            'It is a discriminator, made to be fine-tuned: a recipe with `task = "classify"` and this',
            "directory as `model.init` does so, and so do `AutoModelFor…` classes.",
        ]
    if HEAD_PARAMETERS in content.job.model:
        return []
    return ["It takes raw text. Use `jprep infer .` to query it from the command line."]


def _snippet(content: CardContent) -> str:
    task, kind = content.exported.task, _TASKS[content.exported.task][1]
    if HEAD_PARAMETERS in content.job.model:
        kind = "AutoModel"
    if not content.tokenizer or kind == "AutoModel":
        return f'from transformers import {kind}\n\nmodel = {kind}.from_pretrained(".")  # this folder'
    if task in LABELLED_TASKS:
        return _SNIPPETS["pair" if content.exported.pair else "classify"]
    return _SNIPPETS[task]


def _data(content: CardContent) -> Iterator[str]:
    yield from ("## What it was trained on, and its licences", "")
    for source in _sources(content):
        yield from source_list([source])
        files = source.get("files", [])
        yield from (
            f"  - `{file['name']}` sha256 `{file.get('sha256') or file.get('shards', '')}`" for file in files[:_SHOWN]
        )
        if len(files) > _SHOWN:
            yield f"  - and {len(files) - _SHOWN:,} more files"
    yield from (
        f"- `{place}` sha256 `{file.sha256}`; licence unknown: ask its owner" for place, file in content.files.items()
    )
    yield ""
    if content.dataset:
        for split in content.dataset.splits:
            yield f"{split.name}: {split.documents:,} documents, {split.tokens:,} tokens.  "
        yield ""
    elif content.job.labels:
        more = " …" if len(content.job.labels) > _SHOWN else ""
        yield from (f"Classes: {', '.join(content.job.labels[:_SHOWN])}{more}", "")


def _training(job: Job) -> dict[str, object]:
    train, optimizer, schedule = job.train, job.train.optimizer, job.train.schedule
    rows: dict[str, object] = {
        "task": train.task,
        "steps": job.steps,
        "batch": f"{train.batch:,} rows",
        "length": f"{', then '.join(f'{length:,}' for length in train.lengths)} tokens",
    }
    if job.chat:
        rows |= {name.replace("_", " "): count for name, count in job.chat.counts.items()}
    if not train.has_labelled_rows:
        rows["packing"] = "sentence pairs" if train.next_sentence else train.packing
    if train.document_masks:
        rows["documents of a row"] = "do not see each other"
    if train.task in ("mlm", "rtd"):
        rows["masking"] = ", ".join(f"{key} {getattr(train.masking, key)}" for key in train.masking.__struct_fields__)
    if train.task == "rtd":
        rows["weight of the discriminator's loss"] = train.rtd.discriminator_weight
    return (
        rows
        | {
            "samples in an epoch": job.samples,
            "seed": str(train.seed),
            "precision": train.precision,
            "optimizer": f"{_OPTIMIZERS[optimizer.kind]}, {_format_values(optimizer, _unused_of_optimizer(optimizer))}",
            "schedule": f"{schedule.kind}, {_format_values(schedule, _unused_of_schedule(schedule))}",
        }
        | ({"z-loss": train.z_loss} if train.z_loss else {})
    )


def _unused_of_optimizer(optimizer: OptimizerConfig) -> set[str]:
    """Return keys that the card leaves out: those without an effect, and the kind, which it names."""
    unused = {"kind"} | (set() if optimizer.kind == "muon" else {"momentum"})
    return unused | ({"layer_decay"} if optimizer.layer_decay == 1 else set())


def _unused_of_schedule(schedule: ScheduleConfig) -> set[str]:
    """Return keys that the card leaves out: those without an effect, and the kind, which it names."""
    unused = {"kind", "steps"} | (set() if schedule.kind == "wsd" else {"decay_steps", "decay_shape"})
    unused |= set() if schedule.restarts else {"restarts", "restart_warmup"}
    return unused | (set() if schedule.total else {"total"})


def _format_values(section: Any, left_out: set[str]) -> str:
    values = ((key, getattr(section, key)) for key in section.__struct_fields__ if key not in left_out)
    return ", ".join(f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}" for key, value in values)


def _figures(content: CardContent) -> dict[str, object]:
    rows: dict[str, object] = {}
    for name, (steps, losses) in content.curves.items():
        if steps:
            rows[f"{name} loss at step {steps[-1]:,}"] = float(losses[-1])
    validated = [event for event in content.events if event.kind == "validation"]
    figures = validated[-1].figures if validated else {}
    rows |= {f"validation {name}": value for name, value in figures.items() if name != "loss" and value is not None}
    generator = content.job.train.task == "rtd" and content.exported.task == "mlm"
    if (found := perplexity(content.job, figures, generator=generator)) is not None:
        rows["validation perplexity"] = found
    for one, title in zip(content.evaluations, titles(content.evaluations), strict=True):
        precision = f", in {one.precision}" if one.precision != content.job.train.precision else ""
        before = ", before the training" if one.initial else ""
        what = f"{title}, {one.rows:,} {'training ' * one.seen}rows{precision}{before}"
        rows |= {f"{name} on {what}": value for name, value in one.figures.items() if value is not None}
    return rows


def _provenance(content: CardContent) -> dict[str, object]:
    job, exported = content.job, content.exported
    rows: dict[str, object] = {"job": f"`{job.fingerprint}`", "checkpoint": f"step {exported.step}"}
    if content.dataset:
        rows["dataset"] = f"`{content.dataset.signature}`, `{content.dataset.fingerprint}`"
    if content.tokenizer:
        rows["tokenizer"] = f"`{content.tokenizer.signature}`, `{content.tokenizer.fingerprint}`"
    return rows | {"weights": f"sha256 `{exported.files['model.safetensors']}`"}
