"""Sections about tokenizers: texts cut side by side, pieces and their use, agreement with words by kind of text."""
