"""Export a checkpoint to a directory that `AutoModel` and `AutoTokenizer` load. `docs/models.md` describes it."""

from __future__ import annotations

import contextlib
from importlib.metadata import version
from pathlib import Path

import msgspec

from jprep.dataset.manifest import DatasetManifest, read_dataset
from jprep.engine.runner import refuse_mismatch
from jprep.errors import ConfigError, MachineError
from jprep.tokenizer.chat_template import CHAT_TEMPLATE
from jprep.train.evaluation.records import read_evaluations
from jprep.train.exporting.base_model import base_model_name
from jprep.train.exporting.checkpoint_selection import default_checkpoint, named_checkpoint, select_checkpoint
from jprep.train.exporting.config_files import write_config_files
from jprep.train.exporting.custom_head import exported_config
from jprep.train.exporting.loss_plot import plot_losses
from jprep.train.exporting.manifest import FORMAT, Dtype, ModelExportManifest, read_export, write_export
from jprep.train.exporting.model_card import CURVE, CardContent, model_card
from jprep.train.exporting.output_folder import atomic_export, file_hashes
from jprep.train.exporting.parts import export_part
from jprep.train.exporting.weights import write_weights
from jprep.train.job.config import Job
from jprep.train.run.checkpoints import Checkpoint
from jprep.train.run.data_lock import read_data_lock
from jprep.train.run.directory import EXPORT, GENERATOR, read_job
from jprep.train.run.events import read_events

README = "README.md"


def export(
    run: Path, folder: Path | None = None, *, which: str = "last", dtype: Dtype = "fp32", generator: bool = False
) -> Path:
    """Export a checkpoint as a directory that transformers loads: weights, config, tokenizer and model card.

    The directory is replaced atomically, and the same checkpoint gives the same bytes. The run may be training
    meanwhile.

    Args:
        run: the run directory.
        folder: the directory to write; by default `export/` in the run directory, or `generator/` for a generator.
        which: `last`; `best`, with the lowest validation loss, or the best figure of `checkpoint.best`; or a step.
        dtype: the dtype of the weights.
        generator: whether to export the generator of an ELECTRA, as a model for `mlm`, and not its discriminator.

    Returns:
        The exported directory.

    Raises:
        ConfigError: there is no run, no such checkpoint or no generator, or the directory holds something else.
        MismatchError: the dataset or the tokenizer differs from that of the run.
        InputError: the checkpoint is damaged, or its weights do not fit the job's model.
        MachineError: the backend is not installed, or the disk is full or not writable.
    """
    job = read_job(run)
    part = export_part(job, generator=generator)
    checkpoint = select_checkpoint(run, job, which)
    folder = folder or run / (GENERATOR if generator else EXPORT)
    with atomic_export(folder) as partial:
        try:
            count = write_weights(run, job, checkpoint.folder, partial, dtype, part.names)
        except BaseException as error:
            if checkpoint.folder.exists():
                raise
            what, fix = "the checkpoint was deleted during the export", "run the same command again"
            raise MachineError(what, where=str(checkpoint.folder), fix=fix) from error
        exported = msgspec.structs.replace(
            _manifest_of(run, job, checkpoint.step, dtype), task=part.task, parameters=count
        )
        _write_other_files(run, msgspec.structs.replace(job, model=part.config), checkpoint, partial, exported)
    return folder


def export_of(run: Path, step: int | None = None, *, generator: bool = False) -> Path | None:
    """Return `export/` of a run, if it holds an export of this run.

    Args:
        run: the run directory.
        step: the step that it has to be of; None for any.
        generator: whether to look for the generator of an ELECTRA, in `generator/`.

    Raises:
        ConfigError: there is no run.
    """
    job, folder = read_job(run), run / (GENERATOR if generator else EXPORT)
    with contextlib.suppress(ConfigError):
        found = read_export(folder)
        return folder if found.job == job.fingerprint and step in (None, found.step) else None
    return None


def find_default_export(run: Path) -> Path | None:
    """Return `export/` of a run if it holds an export of the checkpoint of `default_checkpoint`.

    Raises:
        ConfigError: there is no run, or no checkpoint.
    """
    job = read_job(run)
    return export_of(run, named_checkpoint(run, job, default_checkpoint(run, job)).step)


def export_default(run: Path) -> Path:
    """Return the export of the checkpoint of `default_checkpoint`, made if it is not there; see `export`."""
    return find_default_export(run) or export(run, which=default_checkpoint(run, read_job(run)))


def _write_other_files(
    run: Path, job: Job, checkpoint: Checkpoint, folder: Path, manifest: ModelExportManifest
) -> None:
    """Write everything except the weights, the manifest last.

    Args:
        run: the run directory.
        job: the job, with the config of the exported model.
        checkpoint: the checkpoint.
        folder: the exported directory.
        manifest: the manifest, without tokenizer and files.
    """
    dataset, lock = _dataset_of(run, job), read_data_lock(run)
    tokenizer = run / job.tokenizer if job.tokenizer else None
    if job.chat:
        (folder / CHAT_TEMPLATE).write_text(job.chat.template, encoding="utf-8")
    exported, card = write_config_files(folder, manifest, exported_config(job.model), tokenizer)
    marks = {"dataset": exported.dataset, "tokenizer": exported.tokenizer}
    fix = "restore the dataset and the tokenizer that the run began with"
    refuse_mismatch(marks, {name: getattr(lock, name) for name in marks}, run, fix)
    events = [event for event in read_events(run) if event.step <= checkpoint.step]
    files = {Path(path).name: lock.files[f"data/{number}"] for number, path in enumerate(job.train.data)}
    base = base_model_name(job, run, generator=job.train.task == "rtd" and exported.task == "mlm")
    given = bool(job.train.model.init)  # random weights are no model to compare with
    measured = [one for one in read_evaluations(run, job) if one.step == checkpoint.step or (given and one.initial)]
    _write_card(CardContent(job, exported, events, dataset, card, files, base, measured), folder)
    every = exported.files | file_hashes(folder, known=exported.files)
    write_export(folder, msgspec.structs.replace(exported, files=dict(sorted(every.items()))))


def _manifest_of(run: Path, job: Job, step: int, dtype: Dtype) -> ModelExportManifest:
    """Return the manifest, without tokenizer and files."""
    labelled, dataset = job.train.labelled, _dataset_of(run, job)
    return ModelExportManifest(
        jprep=version("jprep"),
        format=FORMAT,
        name=job.name,
        task=job.train.task,
        backend=job.backend,
        step=step,
        job=job.fingerprint,
        dataset=dataset.fingerprint if dataset else "",
        dtype=dtype,
        parameters=job.parameters,
        special=job.special,
        end=dataset.end if dataset else job.chat.end if job.chat else -1,
        length=labelled.length if job.train.has_labelled_rows else 0,
        pair=bool(job.train.has_labelled_rows and labelled.pair),
        files={},
    )


def _write_card(story: CardContent, folder: Path) -> None:
    if any(steps for steps, _ in story.curves.values()):
        (folder / CURVE).write_text(plot_losses(story.curves), encoding="utf-8")
    (folder / README).write_text(model_card(story), encoding="utf-8")


def _dataset_of(run: Path, job: Job) -> DatasetManifest | None:
    try:
        return read_dataset(run / job.dataset) if job.dataset else None
    except ConfigError as error:
        fix = "restore it; or, if it was moved, repeat `jprep train` with --dataset, which only stores the new path"
        what = "the run's dataset, whose sources the model card lists, was not found"
        raise ConfigError(what, where=error.where, fix=fix) from error
