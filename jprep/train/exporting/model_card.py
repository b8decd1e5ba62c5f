"""An exported model's README: what it is, what it was trained on and how, and how it did."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jprep.dataset.manifest import DatasetManifest
from jprep.tokenizer.card import TokenizerCard
from jprep.tokenizer.model_card import source_list, table
from jprep.train.exporting.loss_plot import Curve
from jprep.train.exporting.manifest import ModelExportManifest
from jprep.train.job.config import Job
from jprep.train.run.data_lock import DataFile
from jprep.train.run.events import Event, metric_curve

CURVE = "loss.svg"

_MADE = {
    "clm": ("text-generation", "AutoModelForCausalLM", "predicts the next token"),
    "mlm": ("fill-mask", "AutoModelForMaskedLM", "predicts hidden tokens"),
    "classify": ("text-classification", "AutoModelForSequenceClassification", "tells classes of texts"),
    "regress": ("text-classification", "AutoModelForSequenceClassification", "gives texts a score"),
}
_HUB = re.compile(r"(apache|mit|cc0|cc-by|cc-by-sa|cc-by-nc|cc-by-nc-sa|odc-by|odbl)(-\d\.\d)?")
"""Licences that model hubs have a name for."""

_SHOWN = 20  # files of a source, or labels


class CardContent(NamedTuple):
    """What a card tells.

    Attributes:
        job: the job.
        exported: what is exported of it.
        events: of the run up to the checkpoint.
        dataset: the dataset's manifest; None for labelled data.
        tokenizer: the tokenizer's card; None where there is none.
        files: labelled files, by their place.
    """

    job: Job
    exported: ModelExportManifest
    events: Sequence[Event]
    dataset: DatasetManifest | None
    tokenizer: TokenizerCard | None
    files: Mapping[str, DataFile]

    @property
    def curves(self) -> dict[str, Curve]:
        """The losses over steps, by what they are measured on."""
        return {"training": metric_curve(self.events), "validation": metric_curve(self.events, "validation")}


def model_card(story: CardContent) -> str:
    """The README of an exported model, in Markdown, with the head that model hubs read."""
    return "\n".join(_lines(story)) + "\n"


def _lines(story: CardContent) -> Iterator[str]:
    job, exported = story.job, story.exported
    yield from _head(story)
    about = f"{job.model['architectures'][0]}, {exported.parameters:,} parameters in {exported.dtype}"
    start = "from given weights" if job.train.model.init else "from scratch"
    yield f"A Japanese model that {_MADE[exported.task][2]}: {about}, trained {start} with jprep {exported.jprep}"
    yield from (f"({exported.backend}) for {exported.step:,} of {job.steps:,} steps.", "")
    yield from _loading(story)
    yield from _data(story)
    yield from table("Training", _training(job))
    yield from table("Figures", _figures(story))
    if any(steps for steps, _ in story.curves.values()):
        yield from (f"![Loss over steps]({CURVE})", "")
    yield "Nothing else was measured. What its texts say, errors and prejudices among it, the model may repeat."
    yield ""
    yield from table("Provenance", _provenance(story))
    yield "`export.json` has the SHA-256 of each file."


def _head(story: CardContent) -> Iterator[str]:
    job, pipeline = story.job, _MADE[story.exported.task][0]
    yield from ("---", "language: ja", "library_name: transformers")
    yield f"license: {_licences(_sources(story))}"
    yield f"pipeline_tag: {pipeline}"
    yield f"tags: [japanese, jprep, {job.model['model_type']}]"
    yield from ("---", "", f"# {job.name}", "")


def _licences(sources: Iterable[Mapping[str, Any]]) -> str:
    """The sources' licences as model hubs call them."""
    slugs = {re.sub(r"[^a-z0-9.]+", "-", source["licence"].lower()).strip("-") for source in sources}
    named = sorted({slug if _HUB.fullmatch(slug) else "other" if slug else "unknown" for slug in slugs})
    return (named[0] if len(named) == 1 else f"[{', '.join(named)}]") if named else "unknown"


def _sources(story: CardContent) -> Sequence[Mapping[str, Any]]:
    return story.dataset.sources if story.dataset else ()


_SNIPPETS = {
    "clm": """from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")  # this folder
model = AutoModelForCausalLM.from_pretrained(".")
prompt = tokenizer("日本の", return_tensors="pt")
print(tokenizer.decode(model.generate(**prompt, max_new_tokens=20)[0]))""",
    "mlm": """from transformers import pipeline

fill = pipeline("fill-mask", model=".")  # this folder
print(fill(f"日本の{fill.tokenizer.mask_token}である。"))""",
    "classify": """from transformers import pipeline

classify = pipeline("text-classification", model=".")  # this folder
print(classify("日本の文章"))""",
    "pair": """from transformers import pipeline

classify = pipeline("text-classification", model=".")  # this folder
print(classify({"text": "日本の文章", "text_pair": "もう一つの文章"}))""",
}
"""How plain transformers uses a model, by task."""


def _loading(story: CardContent) -> Iterator[str]:
    yield from ("```python", *_snippet(story).split("\n"), "```", "")
    if not story.tokenizer:
        yield from ("It comes without a tokenizer, as it was trained without one.", "")
    elif story.tokenizer.config.boundaries == "hard":
        yield "Its tokenizer takes words separated by U+001F; `jprep infer` and `jprep.load_tokenizer` find them in raw"
        yield from ("text by themselves.", "")
    else:
        yield from ("Raw text is all it needs. `jprep infer .` asks it from the command line.", "")


def _snippet(story: CardContent) -> str:
    task, kind = story.exported.task, _MADE[story.exported.task][1]
    if not story.tokenizer:
        return f'from transformers import {kind}\n\nmodel = {kind}.from_pretrained(".")  # this folder'
    if task in ("classify", "regress"):
        return _SNIPPETS["pair" if story.exported.pair else "classify"]
    return _SNIPPETS[task]


def _data(story: CardContent) -> Iterator[str]:
    yield from ("## What it was trained on, and its licences", "")
    for source in _sources(story):
        yield from source_list([source])
        files = source.get("files", [])
        yield from (
            f"  - `{file['name']}` sha256 `{file.get('sha256') or file.get('shards', '')}`" for file in files[:_SHOWN]
        )
        if len(files) > _SHOWN:
            yield f"  - and {len(files) - _SHOWN:,} more files"
    yield from (
        f"- `{place}` sha256 `{file.sha256}`; its licence is for its owner to say"
        for place, file in story.files.items()
    )
    yield ""
    if story.dataset:
        for split in story.dataset.splits:
            yield f"{split.name}: {split.documents:,} documents, {split.tokens:,} tokens.  "
        yield ""
    elif story.job.labels:
        more = " …" if len(story.job.labels) > _SHOWN else ""
        yield from (f"Classes: {', '.join(story.job.labels[:_SHOWN])}{more}", "")


def _training(job: Job) -> dict[str, object]:
    train, optimizer, schedule = job.train, job.train.optimizer, job.train.schedule
    rows: dict[str, object] = {
        "task": train.task,
        "steps": job.steps,
        "batch": f"{train.batch:,} rows",
        "length": f"{train.labelled.length if train.data else train.length:,} tokens",
    }
    if not train.data:
        rows["packing"] = train.packing
    if train.task == "mlm":
        rows["masking"] = ", ".join(f"{key} {getattr(train.masking, key)}" for key in train.masking.__struct_fields__)
    return rows | {
        "samples in an epoch": job.samples,
        "seed": str(train.seed),
        "precision": train.precision,
        "optimizer": f"AdamW, {_spelt(optimizer)}",
        "schedule": _spelt(schedule),
    }


def _spelt(section: Any) -> str:
    values = ((key, getattr(section, key)) for key in section.__struct_fields__)
    return ", ".join(f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}" for key, value in values)


def _figures(story: CardContent) -> dict[str, object]:
    rows: dict[str, object] = {}
    for name, (steps, losses) in story.curves.items():
        if steps:
            rows[f"{name} loss at step {steps[-1]:,}"] = float(losses[-1])
    validated = [event for event in story.events if event.kind == "validation"]
    figures = validated[-1].figures if validated else {}
    rows |= {f"validation {name}": value for name, value in figures.items() if name != "loss" and value is not None}
    loss = figures.get("loss")
    if story.exported.task in ("clm", "mlm") and loss is not None and loss < 100:
        rows["validation perplexity"] = math.exp(loss)
    return rows


def _provenance(story: CardContent) -> dict[str, object]:
    job, exported = story.job, story.exported
    rows: dict[str, object] = {"job": f"`{job.fingerprint}`", "checkpoint": f"step {exported.step}"}
    if story.dataset:
        rows["dataset"] = f"`{story.dataset.signature}`, `{story.dataset.fingerprint}`"
    if story.tokenizer:
        rows["tokenizer"] = f"`{story.tokenizer.signature}`, `{story.tokenizer.fingerprint}`"
    return rows | {"weights": f"sha256 `{exported.files['model.safetensors']}`"}
