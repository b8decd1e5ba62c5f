"""On-disk format of a split: tokens in Megatron's indexed layout, word and sentence marks beside them."""
