"""How a run updates weights: the optimizer, the learning rate and the loss scale."""
