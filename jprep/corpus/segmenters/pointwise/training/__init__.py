"""Train models of the segmenter `pointwise` from word-segmented sentences."""
