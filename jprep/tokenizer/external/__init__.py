"""Tokenizers from elsewhere: any folder that `AutoTokenizer` loads. `docs/pretrained.md` describes them."""
