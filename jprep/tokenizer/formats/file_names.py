"""Names of the files that tokenizer libraries load."""

from __future__ import annotations

TOKENIZER_JSON = "tokenizer.json"
TOKENIZER_CONFIG_JSON = "tokenizer_config.json"
SPECIAL_TOKENS_MAP_JSON = "special_tokens_map.json"
SENTENCEPIECE_MODEL = "spm.model"
