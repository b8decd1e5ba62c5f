"""Export for `datasets.load_from_disk`: a directory per split with Arrow streams of one column, `input_ids`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from jprep.dataset.exports.base import ExportedSplit, ExportFormat, ExportJob, write_shards
from jprep.dataset.exports.row_reader import Block, RowReader
from jprep.engine.fingerprint import fingerprint
from jprep.io.atomic import atomic_path, write_atomic

SHARD_MB = 500


def write(job: ExportJob) -> tuple[list[ExportedSplit], list[Path]]:
    """Write the Arrow files and the metadata files of `datasets`; see `ExportFormat.write`."""
    tokens = max(1, (job.options.shard_mb or SHARD_MB) * 1_000_000 // np.dtype(job.dataset.dtype).itemsize)
    splits = write_shards(job, "{split}/data-{number:05d}-of-{count:05d}.arrow", tokens, _write_shard)
    nonempty = [split for split in splits if split.rows]  # `datasets` cannot read a split without files
    metadata = [path for split in nonempty for path in _describe(job, split)]
    return splits, [*metadata, _json(job.out / "dataset_dict.json", {"splits": [split.name for split in nonempty]})]


def _write_shard(job: ExportJob, rows: RowReader, first: int, last: int, path: Path) -> None:
    schema = _schema(job.dataset.dtype)
    with (
        atomic_path(path) as temporary,
        pa.OSFile(str(temporary), "wb") as file,
        pa.ipc.new_stream(file, schema) as stream,
    ):
        for block in rows.blocks(first, last):
            stream.write_batch(_batch(block, schema))
            job.done(block)


def _batch(block: Block, schema: pa.Schema) -> pa.RecordBatch:
    column = pa.ListArray.from_arrays(pa.array(block.edges.astype(np.int32)), pa.array(block.tokens))
    return pa.record_batch([column], schema=schema)


def _schema(dtype: str) -> pa.Schema:
    about = msgspec.json.encode({"info": {"features": _features(dtype)}})
    return pa.schema([("input_ids", pa.list_(pa.type_for_alias(dtype)))], metadata={b"huggingface": about})


def _features(dtype: str) -> dict[str, Any]:
    """Return the features, spelt as by `datasets` before version 4; later versions read both spellings."""
    return {"input_ids": {"feature": {"dtype": dtype, "_type": "Value"}, "_type": "Sequence"}}


def _describe(job: ExportJob, split: ExportedSplit) -> list[Path]:
    """Write `state.json` and `dataset_info.json` of one split."""
    files = [{"filename": Path(file.path).name} for file in split.files]
    made_from = {"dataset": job.dataset.fingerprint, "split": split.name, "length": job.options.length}
    state: dict[str, Any] = {
        "_data_files": files,
        "_fingerprint": fingerprint(made_from)[:16],  # key of the cache of `datasets`
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": split.name,
    }
    about = {"description": job.dataset.signature, "features": _features(job.dataset.dtype)}
    folder = job.out / split.name
    return [_json(folder / "state.json", state), _json(folder / "dataset_info.json", about)]


def _json(path: Path, content: dict[str, Any]) -> Path:
    write_atomic(path, msgspec.json.format(msgspec.json.encode(content), indent=2))
    return path


FORMAT = ExportFormat(write, ("length", "shard_mb"))
