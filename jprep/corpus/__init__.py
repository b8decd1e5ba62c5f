"""From inputs to a corpus: readers, normalisers, splitter, filters, deduplication, segmenters, pipeline."""
