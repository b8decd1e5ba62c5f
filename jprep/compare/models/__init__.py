"""The models of a comparison: their sizes, training, and scores."""
