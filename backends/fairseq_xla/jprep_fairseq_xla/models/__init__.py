"""fairseq's models, and their weights under transformers' names."""
