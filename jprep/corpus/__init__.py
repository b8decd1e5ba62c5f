"""Build a corpus from raw inputs: readers, normalizers, splitters, filters, deduplication, segmenters."""
