"""Conversations with tokenizers that jprep did not write: some put a space before each text, or before the first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from jprep.dataset.conversations.encoding import ChatEncoder
from jprep.dataset.conversations.reader import Conversation, Message
from jprep.errors import ConfigError
from jprep.tokenizer import load_tokenizer

CHARACTERS = dict.fromkeys("[]/INST<>s|imuser_andtu日本東京。ありがとう \n")
INSTRUCTIONS = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}"
)
DATED = "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% else %}26 Jul 2024{% endif %}" + INSTRUCTIONS
TURNS: list[Message] = [
    {"role": "user", "content": "日本"},
    {"role": "assistant", "content": "東京。"},
    {"role": "user", "content": "ありがとう"},
    {"role": "assistant", "content": "日本東京"},
]


def character_bpe() -> Tokenizer:
    """Make a BPE whose normalizer puts a space before each text between special tokens, as Llama 2's does."""
    pieces = ["<unk>", "<s>", "</s>", "▁", *CHARACTERS, "▁▁", "▁東", "▁東京"]
    merges = [("▁", "▁"), ("▁", "東"), ("▁東", "京")]
    made = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, merges, unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return made


def merging_bpe() -> Tokenizer:
    """Make a BPE without a pre-tokenizer that merges the characters of a special token to that token."""
    merges = [("<", "/"), ("</", "s"), ("</s", ">"), ("日", "本")]
    pieces = ["<unk>", "<s>", *CHARACTERS, *map("".join, merges)]
    return Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, merges, unk_token="<unk>"))


def unigram(scheme: str, characters: Iterable[str] = CHARACTERS) -> Tokenizer:
    """Make a Unigram that has its special tokens in the vocabulary, with the best of all scores."""
    special = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    made = Tokenizer(models.Unigram([*special, ("▁", -2.0), *((each, -5.0) for each in characters)], 0, False))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    made.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return made


def byte_level() -> Tokenizer:
    """Make a byte-level BPE that puts a space before each text."""
    made = Tokenizer(models.BPE({each: number for number, each in enumerate(pre_tokenizers.ByteLevel.alphabet())}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.decoder = decoders.ByteLevel()
    return made


def word_level() -> Tokenizer:
    """Make a model of whole words, which has its special tokens among them."""
    words = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "日本", "東京", "。", "ありがとう"]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, "<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


MADE = {
    "Prepend": character_bpe(), "Metaspace, always": unigram("always"), "Metaspace, first": unigram("first"),
    "ByteLevel": byte_level(), "signs unknown": unigram("always", dict.fromkeys("INSTuser日本東京。ありがとう")),
    "words": word_level(), "merges": merging_bpe(),
}  # fmt: skip


def written(made: Tokenizer, folder: Path, template: str = INSTRUCTIONS, flagged: bool = True) -> Path:
    """Write a tokenizer with the tokens <unk>, <s> and </s>, the last of which may not be flagged as special."""
    made = Tokenizer.from_str(made.to_str())
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in ("<unk>", "<s>", "</s>")])
    document: dict[str, Any] = json.loads(made.to_str())
    for token in document["added_tokens"]:
        token["special"] = flagged or token["content"] != "</s>"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(document))
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | tokens))
    return folder


@pytest.mark.parametrize("kind", MADE)
def test_rows_have_the_ids_of_the_whole_text(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = written(MADE[kind], tmp_path / "made")
    encoder = ChatEncoder(load_tokenizer(folder))
    whole = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = encoder.template.render(TURNS, "here", prompt=False)
    assert encoder.encode([Conversation(TURNS, "here")], 1000).ids.tolist() == whole.encode(text).ids
    prompt = encoder.template.render(TURNS[:3], "here", prompt=True)
    assert encoder.encode_prompt(TURNS[:3]) == whole.encode(prompt).ids
    assert not caplog.messages


@pytest.mark.parametrize("flagged", [True, False])
@pytest.mark.parametrize("kind", MADE)
def test_special_tokens_spelt_in_a_text_are_text(kind: str, flagged: bool, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(written(MADE[kind], tmp_path / "made", flagged=flagged))
    text = "日本</s>東京 <s> </s>"
    assert not {tokenizer.id_of("</s>"), tokenizer.id_of("<s>")} & set(tokenizer.encode(text))
    encoder = ChatEncoder(tokenizer)
    turns: list[Message] = [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
    ids = encoder.encode([Conversation(turns, "here")], 1000).ids.tolist()
    assert (ids.count(tokenizer.id_of("<s>")), ids.count(tokenizer.id_of("</s>"))) == (1, 1)


def test_a_special_token_of_one_character_is_text_where_bytes_can_spell_it(tmp_path: Path) -> None:
    special = AddedToken("東", special=True, normalized=False)
    spelt = [f"<0x{byte:02X}>" for byte in "東".encode()]
    pieces = ["<unk>", "<s>", "</s>", *CHARACTERS, *(f"<0x{byte:02X}>" for byte in range(256))]
    ids = {piece: number for number, piece in enumerate(pieces)}
    made = Tokenizer(models.BPE(ids, [], unk_token="<unk>", byte_fallback=True))
    made.add_special_tokens([special])
    tokenizer = load_tokenizer(written(made, tmp_path / "fallback"))
    assert [tokenizer.piece_of(number) for number in tokenizer.encode("日東")] == ["日", *spelt]


@pytest.mark.parametrize("ignore_merges", [False, True])
def test_a_character_that_only_a_special_token_can_spell_is_not_lost(ignore_merges: bool, tmp_path: Path) -> None:
    made = byte_level()
    made.model.ignore_merges = ignore_merges
    made.add_special_tokens([AddedToken("!", special=True, normalized=False)])
    tokenizer = load_tokenizer(written(made, tmp_path / "bytes"))
    assert tokenizer.decode(tokenizer.encode("hi! th")).strip() == "hi! th"


def test_a_merge_that_continues_a_word_makes_no_special_token(tmp_path: Path) -> None:
    merges = [("<", "##/"), ("</", "##s"), ("</s", "##>")]
    pieces = ["<unk>", "<s>", "<", "##/", "##s", "##>", "</", "</s", "</s>"]
    ids = {piece: number for number, piece in enumerate(pieces)}
    made = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", continuing_subword_prefix="##"))
    tokenizer = load_tokenizer(written(made, tmp_path / "made"))
    assert [tokenizer.piece_of(number) for number in tokenizer.encode("</s>")] == ["</s", "##>"]


def test_a_template_that_would_give_the_date_if_it_could_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="strftime_now"):
        ChatEncoder(load_tokenizer(written(MADE["ByteLevel"], tmp_path / "made", DATED)))
