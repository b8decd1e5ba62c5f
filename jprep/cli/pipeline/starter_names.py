"""The names that `jprep init` accepts, as in `jprep.pipeline.starter.choices`, which would be slow to import."""

from __future__ import annotations

SOURCES = ("wikipedia", "cc100", "text", "hf")
BACKENDS = ("torch", "deepspeed", "flax", "fairseq-xla", "keras")
TASKS = ("classify", "regress", "sft")
TOKENIZERS = ("bpe", "byte-bpe", "unigram", "wordpiece")
MODELS = (
    "gpt2-tiny", "gpt2-small", "gpt2-medium", "gpt2-large", "gpt2-xl", "bert-tiny", "bert-small", "bert-base",
    "bert-large", "roberta-tiny", "roberta-base", "roberta-large", "electra-tiny", "electra-small", "electra-base",
    "electra-large", "modernbert-tiny", "modernbert-base", "modernbert-large", "deberta-v2-tiny", "deberta-v2-base",
    "deberta-v2-large", "llama-tiny", "llama-160m", "llama-1b", "llama3-1b", "llama3-8b", "qwen3-tiny",
    "qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-moe-tiny", "qwen3-moe-30b-a3b",
)  # fmt: skip
