"""Plan a comparison: the models' size, the characters that each sees, and the seeds that fit into the budget."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from pathlib import Path

import msgspec

from jprep.compare.data.building import ArmData
from jprep.compare.models.sizes import MINIMUM_STEPS, SIZES, find_size
from jprep.compare.options import CompareOptions
from jprep.compare.result import ComparisonPlan, ModelSize
from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.io.atomic import write_atomic
from jprep.io.machine import cpu_count
from jprep.io.verified_files import read_if_exists
from jprep.train.planning.duration import core_rate

SEEDS, MORE_SEEDS, FEWEST_SEEDS = 3, 5, 2
_LONG = 7200.0  # seconds of a budget for more seeds
_TOKENS_PER_PARAMETER = 8  # below, a smaller model that sees more text is better
_EPOCHS = 4  # repeated more often, text teaches much less than new text
_MARGIN = 0.85  # of the time that is left: other programs slow a machine down
_LARGEST_OVERHEAD = 0.5  # of a model's time, spent on starting programs and scoring
_CPU_SHARE = 0.4  # of the peak rate that training reaches, for a first guess
_GPU_RATE = 5e12  # FLOP/s that a small model reaches, for a first guess
_SAMPLE = 4  # the sample of raw text is so many times what a model may see by the first guess
_SMALLEST_SAMPLE = 4_000_000  # characters
_GUESSED_TOKENS = 0.6  # per character


class Calibration(msgspec.Struct, frozen=True):
    """Times measured with a short training.

    Attributes:
        rate: FLOP/s of training.
        overhead: seconds for a model besides its steps: starting programs, exporting, scoring.
    """

    rate: float
    overhead: float


class StoredPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What has been decided, so that a resumed comparison does the same.

    Attributes:
        share: share of the raw documents to train on.
        plan: the plan, when it is made.
    """

    share: float
    plan: ComparisonPlan | None = None


def read_plan(path: Path) -> StoredPlan | None:
    """Return what has been decided; None if nothing was, or the file is damaged."""
    content = read_if_exists(path)
    try:
        return decode_checksummed(content, StoredPlan) if content else None
    except ValueError:
        return None


def write_plan(path: Path, plan: StoredPlan) -> None:
    """Store what has been decided."""
    write_atomic(path, encode_checksummed(msgspec.to_builtins(plan)))


def guess_rate(device: str) -> float:
    """Return the FLOP/s that training may reach on this machine, from a measurement of a tenth of a second."""
    return _GPU_RATE if device == "gpu" else _CPU_SHARE * core_rate() * cpu_count()


def sample_share(options: CompareOptions, characters: int) -> float:
    """Return the share of the raw documents that are worth processing within the budget.

    Args:
        options: the options.
        characters: raw characters of the arm with the least.
    """
    wanted: float = options.characters
    if not wanted:
        smallest = next(iter(SIZES.values()))
        each = options.budget.seconds / (2 * FEWEST_SEEDS)
        wanted = guess_rate(options.budget.device) * each / flops_per_character(smallest, 8000, _GUESSED_TOKENS)
    share = max(_SMALLEST_SAMPLE, _SAMPLE * wanted) / max(1, characters)
    return 1.0 if share >= 1 else round(share, 4) or 0.0001


def flops_per_character(size: ModelSize, vocabulary: int, tokens_per_character: float) -> float:
    """Return the FLOPs of training for a character of text."""
    weights = size.parameters + vocabulary * size.width
    return tokens_per_character * (6 * weights + 12 * size.layers * size.width * size.length)


def needs_calibration(options: CompareOptions) -> bool:
    """Return whether something is left to choose from the budget."""
    return not (options.size and options.characters and options.seeds)


def reference_size(options: CompareOptions) -> ModelSize:
    """Return the size of the model that times are measured with."""
    return find_size(options.size) if options.size else next(iter(SIZES.values()))


def choose_plan(
    options: CompareOptions, arms: Sequence[ArmData], calibration: Calibration | None, seconds: float
) -> ComparisonPlan:
    """Choose what the user has left open so that it fits into the time.

    Args:
        options: the options.
        arms: arms with different data.
        calibration: measured times; None if nothing is to be chosen.
        seconds: what is left of the budget.
    """
    if calibration is None:
        return _plan(options, find_size(options.size), options.characters, options.seeds)
    seeds = options.seeds or _seeds(options, len(arms), calibration, seconds)
    each = _MARGIN * seconds / (seeds * len(arms)) - calibration.overhead
    sizes = [find_size(options.size)] if options.size else list(SIZES.values())
    found = [(size, _characters(size, arms, calibration.rate, each)) for size in sizes]
    density = min(arm.tokens_per_character for arm in arms)
    size, characters = _largest(found, options.characters, density)
    return _plan(options, size, round(characters), seeds)


def expected_seconds(plan: ComparisonPlan, arms: Sequence[ArmData], calibration: Calibration) -> float:
    """Return how long the models of a plan take.

    Args:
        plan: the plan.
        arms: arms with different data.
        calibration: measured times.
    """
    work = [flops_per_character(plan.size, arm.manifest.vocab_size, arm.tokens_per_character) for arm in arms]
    return len(plan.seeds) * (sum(work) * plan.characters / calibration.rate + len(arms) * calibration.overhead)


def _plan(options: CompareOptions, size: ModelSize, characters: int, seeds: int) -> ComparisonPlan:
    return ComparisonPlan(
        budget=options.budget.text,
        backend=options.backend,
        device=options.budget.device,
        size=size,
        characters=characters,
        seeds=list(range(1, seeds + 1)),
    )


def _seeds(options: CompareOptions, arms: int, calibration: Calibration, seconds: float) -> int:
    """Return the most seeds for which starting programs and scoring does not take most of the time."""
    wanted = MORE_SEEDS if options.budget.seconds >= _LONG else SEEDS
    for seeds in range(wanted, FEWEST_SEEDS, -1):
        if calibration.overhead <= _LARGEST_OVERHEAD * _MARGIN * seconds / (seeds * arms):
            return seeds
    return FEWEST_SEEDS


def _characters(size: ModelSize, arms: Sequence[ArmData], rate: float, seconds: float) -> int:
    """Return the characters that a model of a size sees in a time, two digits; at most a few epochs."""
    slowest = max(flops_per_character(size, arm.manifest.vocab_size, arm.tokens_per_character) for arm in arms)
    possible = min(max(0.0, seconds) * rate / slowest, _EPOCHS * min(arm.characters for arm in arms))
    least = MINIMUM_STEPS * size.rows * size.length / max(arm.tokens_per_character for arm in arms)
    return _two_digits(max(possible, least))


def _largest(
    found: Sequence[tuple[ModelSize, float]], wanted: int, tokens_per_character: float
) -> tuple[ModelSize, float]:
    """Return the largest size whose models see enough text for it, or else the smallest; with the characters.

    Args:
        found: sizes, the smallest first, with the characters that their models can see in the time.
        wanted: characters that the user wants; 0 for as many as possible.
        tokens_per_character: of the arm with the fewest.
    """
    if wanted:
        fits = [size for size, characters in found if characters >= wanted]
        found = [(size, wanted) for size in fits or [found[0][0]]]
    enough = [each for each in found if each[1] * tokens_per_character >= _TOKENS_PER_PARAMETER * each[0].parameters]
    return enough[-1] if enough else found[0]


def _two_digits(number: float) -> int:
    unit = 10 ** max(0, floor(log10(max(number, 1))) - 1)
    return int(number // unit * unit)


def guess_plan(options: CompareOptions, arms: int) -> ComparisonPlan:
    """Return a plan without any data, for `--dry-run`: its figures are guesses.

    Args:
        options: the options.
        arms: number of arms.
    """
    seeds = options.seeds or (MORE_SEEDS if options.budget.seconds >= _LONG else SEEDS)
    work = _MARGIN * 0.7 * options.budget.seconds * guess_rate(options.budget.device) / (seeds * arms)
    sizes = [find_size(options.size)] if options.size else list(SIZES.values())
    found = [(size, work / flops_per_character(size, 8000, _GUESSED_TOKENS)) for size in sizes]
    size, number = _largest(found, options.characters, _GUESSED_TOKENS)
    return _plan(options, size, options.characters or _two_digits(number), seeds)
