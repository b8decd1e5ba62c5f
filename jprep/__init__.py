"""From a raw dump of Japanese text to a corpus, fast, lossless and resumable.

>>> from jprep import Corpus, normalize, split_sentences, segment
"""

from jprep.corpus.corpus import Corpus
from jprep.text import normalize, segment, split_sentences

__all__ = ["Corpus", "normalize", "segment", "split_sentences"]
