"""How a tokenizer does on a text: what it costs, what it loses, which words it keeps."""

from jprep.tokenizer.evaluation.encoder import Encoded, Encoder
from jprep.tokenizer.evaluation.evaluate import evaluate, scores_of
from jprep.tokenizer.evaluation.scores import Difference, Scores

__all__ = ["Difference", "Encoded", "Encoder", "Scores", "evaluate", "scores_of"]
