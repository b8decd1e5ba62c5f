"""Measure a checkpoint of a run on a test split or other rows. `docs/evaluation.md` describes it."""
