"""The section about a comparison: the verdict first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import fsum
from typing import Any

import msgspec

from jprep.compare.result import Arm, Comparison, Curve, Judgement, read_comparison
from jprep.html import plots
from jprep.report.inputs import ReportInput
from jprep.report.section import ReportContext, Section

_PARTS = (
    ("figures", "Figures"),
    ("tasks", "Tasks"),
    ("recipes", "Recipes"),
    ("left-out", "Left out"),
    ("curves", "Learning curves"),
    ("seeds", "Seeds"),
    ("texts", "Texts"),
    ("method", "Method"),
)
_SHORT = {"bits per character": "bits", "bits per character as seen": "bits as seen"}
_TEXTS = 15  # held-out texts in which the arms differ most
_POINTS = 200  # of a curve
_CURVES = 16
_REASONS = 12  # of each arm are listed
_WORDS = 300  # characters of a cell


def build(inputs: Sequence[ReportInput], context: ReportContext) -> list[Section]:
    """Return a section for each comparison.

    Raises:
        DamagedError: a result is damaged.
    """
    return [_section(each, f" ({each.label})" if len(inputs) > 1 else "") for each in inputs]


def _section(given: ReportInput, which: str) -> Section:
    """Return a section; `which` distinguishes the captions of several."""
    found = read_comparison(given.path)
    primary = [each for each in found.judgements if each.primary]
    values = {
        "which": which,
        "verdicts": [each.sentence for each in primary],
        "others": [_judgement(each) for each in found.judgements if not each.primary],
        "arms": _arms(found),
        "bits_plot": _bits_plot(found),
        "difference_plots": _difference_plots(found.judgements),
        "tasks": _tasks(found),
        "arm_names": [arm.name for arm in found.arms],
        "recipes": [_recipe(arm) for arm in found.arms],
        "left_out": Counter(item.left_out for item in found.items if item.left_out).most_common(_REASONS),
        "tasks_left_out": [[task.name, task.items, task.left_out] for task in found.tasks],
        "items": len(found.items),
        "scored": len(found.scored),
        "curves_plot": _curves_plot(found.curves),
        "seeds": _seeds(found),
        "texts": _texts(found),
        "plan": found.plan,
        "signature": found.signature,
    }
    figures = {
        "path": given.label,
        "judgements": msgspec.to_builtins(found.judgements),
        "bits": found.bits_per_character,
    }
    return Section(
        title=f"Comparison {found.name} ({given.label})",
        kind="comparison",
        template="comparison.html",
        values=values,
        figures=figures,
        highlights={"verdict": primary[0].sentence} if primary else {},
        parts=_PARTS,
        notes=[f"The {_TEXTS} held-out texts in which the recipes differ most are listed."],
    )


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / max(len(values), 1)


def _judgement(found: Judgement) -> list[Any]:
    unit = " %" if found.unit == "%" else ""
    interval = f"{found.low:+.2f} to {found.high:+.2f}{unit}"
    return [f"{found.a} against {found.b}", found.measure, f"{found.difference:+.2f}{unit}", interval, found.sentence]


def _arms(found: Comparison) -> dict[str, Any]:
    """Return a table with a column for each arm."""
    rows: list[list[str]] = [
        ["Recipe", *(arm.recipe for arm in found.arms)],
        ["Bits per character", *(f"{_mean(bits):.4f}" for bits in found.bits_per_character)],
        ["Bits per character of the text as seen", *(f"{_mean(bits):.4f}" for bits in found.bits_as_seen)],
        ["Training documents", *(f"{arm.documents:,}" for arm in found.arms)],
        ["Training characters", *(f"{arm.characters:,}" for arm in found.arms)],
        ["Ids of the tokenizer", *(f"{arm.vocab_size:,}" for arm in found.arms)],
        ["Tokens per character", *(f"{arm.tokens_per_character:.3f}" for arm in found.arms)],
        ["Parameters", *(f"{arm.parameters:,}" for arm in found.arms)],
        ["Steps", *(f"{arm.steps:,}" for arm in found.arms)],
        ["Epochs", *(f"{arm.epochs:.2f}" for arm in found.arms)],
        ["Characters of the held-out texts that it changes", *(f"{arm.changed_characters:,}" for arm in found.arms)],
    ]
    return {"headings": ["Figure", *(arm.name for arm in found.arms)], "rows": rows}


def _bits_plot(found: Comparison) -> Any:
    """Return the bits per character of each arm, with their range over the seeds."""
    scores = found.bits_per_character
    return plots.intervals(
        [f"{arm.name}: {arm.title}" for arm in found.arms],
        [_mean(bits) for bits in scores],
        [(min(bits), max(bits)) for bits in scores],
        title="Bits per character of each recipe, with the range over seeds",
        x_label="bits per character",
    )


def _difference_plots(judgements: Sequence[Judgement]) -> list[tuple[Any, str]]:
    """Return a plot for each unit: how much better the first recipe of a pair is, with the 95 % interval."""
    found = []
    for unit in ("%", "points"):
        own = [each for each in judgements if each.unit == unit]
        if own:
            title = f"How much better the first recipe of each pair is, in {unit}, with 95 % intervals"
            svg = plots.intervals(
                [f"{each.a}–{each.b}, {_SHORT.get(each.measure, each.measure)}" for each in own],
                [each.difference for each in own],
                [(each.low, each.high) for each in own],
                title=title,
                x_label=f"better by, {unit}",
                zero=True,
            )
            found.append((svg, f"{title}. An interval that contains 0 shows no difference."))
    return found


def _tasks(found: Comparison) -> list[list[str]]:
    return [
        [
            task.name,
            f"{task.items:,}",
            f"{task.metric} ({'lower' if task.lower_is_better else 'higher'} is better)",
            f"{task.chance:.3f}" if task.chance else "–",
            *(f"{_mean(scores):.3f}" for scores in task.scores),
        ]
        for task in found.tasks
    ]


def _recipe(arm: Arm) -> dict[str, Any]:
    dropped = sorted(arm.dropped.items(), key=lambda pair: (-pair[1], pair[0]))[:_REASONS]
    differences = [each[:_WORDS] for each in arm.differences]
    return {"arm": arm, "dropped": [list(pair) for pair in dropped], "differences": differences}


def _curves_plot(curves: Sequence[Curve]) -> Any:
    shown = [curve for curve in curves if curve.characters][:_CURVES]
    if not shown:
        return None
    series = {f"{curve.arm}, seed {curve.seed}": (_thinned(curve.characters), _thinned(curve.bits)) for curve in shown}
    title = "Training loss over the characters seen"
    return plots.lines(series, title=title, x_label="characters seen", y_label="bits per character")


def _thinned(values: Sequence[float]) -> list[float]:
    """Return at most so many values as are drawn, evenly spaced, with the last one."""
    size = -(-len(values) // _POINTS)
    return [*values[:-1:size], values[-1]]


def _seeds(found: Comparison) -> list[list[str]]:
    return [
        [f"{seed}", *(f"{bits[number]:.4f}" for bits in found.bits_per_character)]
        for number, seed in enumerate(found.plan.seeds)
    ]


def _texts(found: Comparison) -> list[list[str]]:
    """Return the held-out texts in which arms differ most, with their bits per character by arm."""
    rows = []
    for number, item in enumerate(found.scored):
        scores = [
            (_mean([seed[number] for seed in bits]) + restoring[number]) / max(item.characters, 1)
            for bits, restoring in zip(found.bits, found.restoring, strict=True)
        ]
        shown = [(item.title or item.id)[:_WORDS], item.source, f"{item.characters:,}"]
        rows.append((min(scores) - max(scores), number, [*shown, *(f"{score:.3f}" for score in scores)]))
    return [row for _, _, row in sorted(rows)[:_TEXTS]]
