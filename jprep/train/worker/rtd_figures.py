"""Figures of replaced-token detection, from sums over the tokens of a batch or of a whole split."""

from __future__ import annotations

from collections.abc import Sequence

SUMS = (
    "generator_loss",  # − Σ ln p(original) over masked tokens
    "masked",  # masked tokens
    "sampled_original",  # masked tokens for which the generator's sample is the original
    "discriminator_loss",  # Σ of the binary cross-entropy over all tokens
    "tokens",  # tokens without padding
    "replaced",  # tokens that differ from the original
    "flagged",  # tokens that the discriminator takes for replaced
    "found",  # replaced tokens among these
)
"""What a backend sums, in this order."""


def rtd_figures(sums: Sequence[float], discriminator_weight: float) -> dict[str, float]:
    """Return the loss and its parts, and how well both halves do.

    Args:
        sums: in the order of `SUMS`.
        discriminator_weight: the weight of the discriminator's loss.

    Returns:
        `loss`; `generator_loss` and `discriminator_loss`, its parts before weighting; `generator_accuracy`, the share
        of masked tokens whose sample is the original; `discriminator_accuracy`; `replaced`, the share of tokens that
        were replaced; `precision` and `recall` of replaced tokens, 0 if there are none.
    """
    of = dict(zip(SUMS, sums, strict=True))
    generator, discriminator = (_share(of[f"{half}_loss"], of[count]) for half, count in _LOSSES)
    hits = of["tokens"] - of["replaced"] - of["flagged"] + 2 * of["found"]
    return {
        "loss": generator + discriminator_weight * discriminator,
        "generator_loss": generator,
        "discriminator_loss": discriminator,
        "generator_accuracy": _share(of["sampled_original"], of["masked"]),
        "discriminator_accuracy": _share(hits, of["tokens"]),
        "replaced": _share(of["replaced"], of["tokens"]),
        "precision": _share(of["found"], of["flagged"]),
        "recall": _share(of["found"], of["replaced"]),
    }


_LOSSES = (("generator", "masked"), ("discriminator", "tokens"))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
