"""Convert TensorFlow 1 checkpoints of google-research/bert and google-research/electra to Hugging Face form."""
