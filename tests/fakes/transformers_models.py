"""Tiny models and tokenizers made by transformers, and a plain training loop: run by the Python of torch's environment.

python transformers_models.py make FOLDER       # a BERT with its WordPiece tokenizer, dropout 0
python transformers_models.py finetune PLAN     # fine-tune it on given batches, print the loss of each step
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

WORDS = ["吾輩", "は", "猫", "で", "ある", "。", "名前", "まだ", "ない", "ど", "##こ", "##れ", "犬", "と", "走", "##る",
         "the", "cat", "##s", "run", "good", "bad", "吾", "輩", "名", "前"]  # fmt: skip
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def make(folder: Path) -> None:
    """Write a classifier of two classes with its tokenizer; a few more rows than ids, as published models have."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder.mkdir(parents=True)
    vocabulary = [*SPECIAL, *WORDS, *sorted({f"##{word}" for word in WORDS if "#" not in word})]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary), encoding="utf-8")
    tokenizer = BertTokenizerFast.from_pretrained(str(folder), do_lower_case=False)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=len(vocabulary) + 3, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=40,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.2,
        id2label={0: "bad", 1: "good"}, label2id={"bad": 0, "good": 1},
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)


def finetune(plan: Path) -> None:
    """Train as transformers' users do; the plan names the batches, so that only the order comes from jprep."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    given = json.loads(plan.read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(given["folder"])
    model = AutoModelForSequenceClassification.from_pretrained(given["folder"]).train()
    decayed = [one for one in model.parameters() if one.dim() >= 2]
    others = [one for one in model.parameters() if one.dim() < 2]
    groups = [{"params": decayed, "weight_decay": given["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.999), eps=1e-8)
    for rate, texts, pairs, labels in zip(given["rates"], given["texts"], given["pairs"], given["labels"], strict=True):
        rows = {"padding": True, "truncation": "longest_first", "max_length": given["length"], "return_tensors": "pt"}
        loss = model(**tokenizer(texts, pairs, **rows), labels=torch.tensor(labels)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        print(json.dumps(loss.item()))


def japanese(folder: Path) -> None:
    """Write a tokenizer with MeCab's words, and WordPiece inside of them."""
    import jumandic
    from transformers import BertJapaneseTokenizer

    folder.mkdir(parents=True)
    vocabulary = [*SPECIAL, *WORDS, *sorted({f"##{word}" for word in WORDS if "#" not in word})]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary), encoding="utf-8")
    mecab = {"mecab_dic": None, "mecab_option": f"-d {jumandic.DICDIR} -r /dev/null"}
    words = {"word_tokenizer_type": "mecab", "subword_tokenizer_type": "wordpiece", "mecab_kwargs": mecab}
    BertJapaneseTokenizer(str(folder / "vocab.txt"), **words).save_pretrained(folder)


def encode(plan: Path) -> None:
    """Print for each folder and text its ids alone, those of the text and itself, and those of it with a mask."""
    from transformers import AutoTokenizer

    given = json.loads(plan.read_text(encoding="utf-8"))
    for folder in given["folders"]:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        for text in given["texts"]:
            pair = tokenizer(text, text)
            masked = tokenizer(f"{text} {tokenizer.mask_token}{text}")
            every = [tokenizer(text, add_special_tokens=False), pair, masked if tokenizer.mask_token else pair]
            print(json.dumps([one["input_ids"] for one in every]))


def pickle(folder: Path) -> None:
    """Save the weights as PyTorch pickles them, one of them transposed, in both of its layouts."""
    import torch
    from safetensors.torch import load_file

    weights = load_file(folder / "model.safetensors")
    weights["bert.pooler.dense.weight"] = weights["bert.pooler.dense.weight"].t().contiguous().t()
    torch.save(weights, folder / "pytorch_model.bin")
    torch.save(weights, folder / "legacy.bin", _use_new_zipfile_serialization=False)
    (folder / "model.safetensors").unlink()


if __name__ == "__main__":
    modes = {"make": make, "finetune": finetune, "japanese": japanese, "encode": encode, "pickle": pickle}
    modes[sys.argv[1]](Path(sys.argv[2]))
