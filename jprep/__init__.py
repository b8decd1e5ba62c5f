"""From a raw dump of Japanese text to a corpus and a tokenizer, fast, lossless and resumable.

>>> from jprep import Corpus, load_tokenizer, normalize, segment, split_sentences
"""

from importlib.metadata import version

from jprep.corpus.api import Corpus
from jprep.corpus.text import normalize, segment, split_sentences
from jprep.tokenizer import load_tokenizer

__version__ = version("jprep")

__all__ = ["Corpus", "__version__", "load_tokenizer", "normalize", "segment", "split_sentences"]
