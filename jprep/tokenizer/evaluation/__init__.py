"""Evaluate a tokenizer on a text: compression, losslessness, and word boundaries."""

from jprep.tokenizer.encoding.batch import TokenSpans
from jprep.tokenizer.evaluation.adapter import TokenizerAdapter
from jprep.tokenizer.evaluation.evaluate import evaluate, score_tokenizer
from jprep.tokenizer.evaluation.scores import RoundTripDifference, Scores

__all__ = ["RoundTripDifference", "Scores", "TokenSpans", "TokenizerAdapter", "evaluate", "score_tokenizer"]
