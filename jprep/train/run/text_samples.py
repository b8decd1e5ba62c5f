"""`samples.jsonl`: what the checkpoints of a run made of the prompts in `train.samples`, one JSON object per line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from jprep.io.os_errors import write_error

SAMPLES = "samples.jsonl"


class SampledText(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a checkpoint made of a prompt.

    Attributes:
        step: the checkpoint's step.
        prompt: the raw text that it was given.
        text: the continuation, the prompt with filled masks, or the class or score.
        error: why there is no text.
    """

    step: int
    prompt: str
    text: str = ""
    error: str = ""


def read_samples(run: Path) -> list[SampledText]:
    """Return the samples of a run by step and in the order of the prompts; of repeated ones the last.

    Damaged lines are skipped; there are none if the job asks for none.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        lines = (run / SAMPLES).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    found = [sample for line in lines if (sample := _decoded(line))]
    last = {(sample.step, sample.prompt): sample for sample in found}
    return sorted(last.values(), key=lambda sample: sample.step)


def add_samples(run: Path, samples: Sequence[SampledText]) -> None:
    """Append samples.

    Raises:
        MachineError: the disk is full or not writable.
    """
    data = b"".join(msgspec.json.encode(sample) + b"\n" for sample in samples)
    try:
        with (run / SAMPLES).open("ab") as file:
            file.write(data if not file.tell() or _ends_in_newline(run) else b"\n" + data)
    except OSError as error:
        raise write_error(error, run / SAMPLES) from error


def _ends_in_newline(run: Path) -> bool:
    with (run / SAMPLES).open("rb") as file:
        file.seek(-1, 2)
        return file.read() == b"\n"


def _decoded(line: bytes) -> SampledText | None:
    try:
        return msgspec.json.decode(line, type=SampledText) if line else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
