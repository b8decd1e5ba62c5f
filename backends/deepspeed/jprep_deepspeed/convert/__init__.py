"""Convert checkpoints to DeepSpeed's own forms."""
