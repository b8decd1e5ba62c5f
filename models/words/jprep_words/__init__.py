"""The model of Japanese words that jprep's segmenter `pointwise` uses by default."""

from pathlib import Path

MODEL = Path(__file__).with_name("words.model")
"""The model file; `README.md` of this distribution says what it was trained on."""
