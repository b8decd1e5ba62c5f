"""How a tokenizer does on a text: what it costs, what it loses, which words it keeps."""

from jprep.tokenizer.evaluation.adapter import EncodingWithOffsets, TokenizerAdapter
from jprep.tokenizer.evaluation.evaluate import evaluate, score_tokenizer
from jprep.tokenizer.evaluation.scores import RoundTripDifference, Scores

__all__ = ["EncodingWithOffsets", "RoundTripDifference", "Scores", "TokenizerAdapter", "evaluate", "score_tokenizer"]
