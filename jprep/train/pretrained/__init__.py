"""Pretrained models in Hugging Face form: their config, their weights in every file format, and their vocabulary."""
