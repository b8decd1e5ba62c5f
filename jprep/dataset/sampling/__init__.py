"""From a step's number to its batch: samples, their order, special tokens and masking."""
