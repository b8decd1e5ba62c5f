"""Word segmentation by a linear model of each boundary: features, weights, model files and the segmenter."""

from jprep.corpus.segmenters.pointwise.segmenter import Pointwise

__all__ = ["Pointwise"]
