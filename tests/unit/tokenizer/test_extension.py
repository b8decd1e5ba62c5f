"""`tokenizer.extends`: old ids stay, and each new token is a sequence of old tokens, for several kinds."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Exported

from jprep.corpus.config import default_recipe
from jprep.engine.executors.local import Local
from jprep.engine.output_kinds import HASH_CACHE
from jprep.engine.runner import SilentProgress
from jprep.errors import ConfigError
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.card import TokenizerCard, read_own_card
from jprep.tokenizer.evaluation.loading import load_adapters
from jprep.tokenizer.extending.base import BaseTokenizer
from jprep.tokenizer.train import train
from jprep.tokenizer.training_data import InputTrainingData, TrainingData, WordCountTrainingData
from tests.conftest import digests
from tests.fakes.config_sections import tokenizer_config

OLD_TEXT = ["the tokenizer of the text", "def f(x):\n    return  the(text)", "some other words in English, and more"]
COUNTS = {
    "日本": 90, "日本語": 80, "日本人": 40, "です": 60, "でした": 30, " text": 9, " token": 9, "東京都": 50, "東京": 40,
    "    ": 20, " return": 30, "琵琶湖": 20, "学習": 30, "the": 5, "<s>": 50, "2026": 9, "学生": 20, "大学": 20,
}  # fmt: skip
MORE = {"大学生": 50, "日本語学習": 40, "琵琶": 9, "学": 9, "東京の大学": 3, "学習塾": 2, "生物学": 2}
KINDS = ["gpt2", "mistral", "t5", "bpe", "byte-bpe", "unigram"]
TEXTS = [*COUNTS, *OLD_TEXT, "日本語の学習です。", " ", "\t", "\n", "の", "琵", "é", "😀", "x", "<s>", "a b"]


def gpt2() -> Exported:
    """Byte-level BPE with GPT-2's pre-tokenizer, and an added token behind its vocabulary."""
    made = Exported(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        OLD_TEXT * 3, trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, show_progress=False)
    )
    made.add_special_tokens([AddedToken("<|endoftext|>", normalized=False)])
    return made


def mistral() -> Exported:
    """BPE of characters with byte fallback, a space in front of the text, and a token before it."""
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    made = Exported(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, show_progress=False)
    made.train_from_iterator(OLD_TEXT * 3, trainer)
    document = json.loads(made.to_str())
    document["added_tokens"] = document["added_tokens"][:3]  # bytes are pieces, not added tokens
    made = Exported.from_str(json.dumps(document))
    template = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    made.post_processor = template
    return made


def t5() -> Exported:
    """Unigram without bytes: what it does not know is one unknown token."""
    pieces = ["▁the", "▁", *"tokenizrfxdurhsanglishwpE():,▁</>", "▁text", "en", "日本", "日", "本", "語", "で", "す"]
    scores = {piece: -2.0 - 0.37 * number for number, piece in enumerate(dict.fromkeys(pieces))}
    made = Exported(models.Unigram([("<unk>", 0.0), *scores.items()], unk_id=0, byte_fallback=False))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.add_special_tokens(["<unk>", "</s>"])
    return made


def data(path: Path, counts: dict[str, int] = COUNTS) -> TrainingData:
    path.write_text("".join(f"{word}\t{count}\n" for word, count in counts.items()), encoding="utf-8")
    return WordCountTrainingData(path)


def extended(old: Path, folder: Path, more: int, counts: dict[str, int] = COUNTS, **options: Any) -> TokenizerCard:
    size = len(ids_of(old)) + more
    config = tokenizer_config({"extends": str(old), "vocab_size": size} | options, "test")
    folder.parent.mkdir(exist_ok=True, parents=True)
    return train(data(folder.with_suffix(".tsv"), counts), config, folder, Local(1), SilentProgress())


def loaded(folder: Path) -> Exported:
    return Exported.from_file(str(folder / "tokenizer.json"))


def ids_of(folder: Path) -> dict[str, int]:
    return loaded(folder).get_vocab(with_added_tokens=True)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tokenizers to extend: three of another library, and three of jprep's."""
    parent = tmp_path_factory.mktemp("old")
    for name, made in {"gpt2": gpt2(), "mistral": mistral(), "t5": t5()}.items():
        (parent / name).mkdir()
        made.save(str(parent / name / "tokenizer.json"))
        (parent / name / "tokenizer_config.json").write_text('{"tokenizer_class": "Other", "eos_token": "</s>"}')
        (parent / name / "vocab.json").write_text("{}")
    for model, size in (("bpe", 290), ("byte-bpe", 270), ("unigram", 280)):
        words = {"the": 9, " text": 8, "token": 7, "日": 6, "本": 5, "return": 4, "です": 3}
        config = tokenizer_config({"model": model, "vocab_size": size}, "test")
        train(data(parent / f"{model}.tsv", words), config, parent / model, Local(1), SilentProgress())
    return {name: parent / name for name in KINDS}


@pytest.fixture(scope="module")
def new(old: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each extended twice: the second time with other words and reserved tokens."""
    parent = tmp_path_factory.mktemp("new")
    for name, folder in old.items():
        extended(folder, parent / "once" / name, 20)
        extended(
            parent / "once" / name,
            parent / "twice" / name,
            12,
            MORE,
            reserved=2,
        )
    return {name: parent / "twice" / name for name in old}


@pytest.mark.parametrize("kind", KINDS)
def test_old_ids_are_unchanged_and_new_ones_follow(kind: str, old: dict[str, Path], new: dict[str, Path]) -> None:
    before, after = ids_of(old[kind]), ids_of(new[kind])
    assert before.items() <= after.items()
    assert sorted(after.values()) == list(range(len(before) + 32))
    assert [after[f"<|reserved_{number}|>"] for number in range(2)] == [len(before) + 30, len(before) + 31]
    assert len(before) + 31 in loaded(new[kind]).encode("a<|reserved_1|>b").ids
    assert not (new[kind] / "vocab.json").exists()


def expansions(old: Exported, folders: list[Path]) -> dict[int, tuple[int, ...]]:
    """Return the old ids that each id stands for, by the merges that form it; a new character stands for its bytes."""
    known = {number: (number,) for number in old.get_vocab().values()}
    for folder in folders:
        model = json.loads((folder / "tokenizer.json").read_text())["model"]
        if model["type"] == "Unigram":
            known |= expansions_of_unigram(old, model["vocab"], known)
            continue
        vocab, merges = model["vocab"], {a + b: (a, b) for a, b in model["merges"]}
        for piece, number in sorted(vocab.items(), key=lambda item: item[1]):
            if number in known or piece.startswith("<|reserved"):
                continue
            if piece in merges:
                known[number] = tuple(chain.from_iterable(known[vocab[part]] for part in merges[piece]))
            else:
                known[number] = bytes_of(old, piece)
    return known


def bytes_of(old: Exported, character: str) -> tuple[int, ...]:
    """Return the old ids of a character without a piece."""
    vocab: dict[str, int] = old.get_vocab()
    names = [f"<0x{byte:02X}>" for byte in character.encode()]
    return tuple(vocab[name] for name in (names if names[0] in vocab else ["<unk>"]))


def expansions_of_unigram(
    old: Exported, pieces: list[tuple[str, float]], known: dict[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """Return the old ids of each new piece: those that the old tokenizer gives the piece alone."""
    vocab, found = old.get_vocab(), dict[int, tuple[int, ...]]()
    for number, (piece, _) in enumerate(pieces):
        if number not in known and not piece.startswith("<|reserved"):
            tokens = [token.value for token in old.model.tokenize(piece)]
            parts = [(vocab[token],) if token in vocab else bytes_of(old, token) for token in tokens]
            found[number] = tuple(chain.from_iterable(parts))
    return found


def one_unknown(ids: list[int]) -> list[int]:
    return [number for place, number in enumerate(ids) if number or not place or ids[place - 1]]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50, deadline=None)
@given(text=st.lists(st.sampled_from([*TEXTS, "日", "本", "大学生", "学習"]), max_size=8).map("".join))
def test_each_new_token_is_a_sequence_of_old_tokens(
    kind: str, old: dict[str, Path], new: dict[str, Path], text: str
) -> None:
    """The law: if each new token is replaced by the old ones that it is made of, the old ids of the text are there."""
    once = new[kind].parent.parent / "once" / kind
    before, after = loaded(old[kind]), loaded(new[kind])
    known = expansions(before, [once, new[kind]])
    ids, old_ids = after.encode(text).ids, before.encode(text).ids
    found = list(chain.from_iterable(known[number] for number in ids))
    if kind == "t5":  # unknown characters that follow each other are one token
        assert one_unknown(found) == one_unknown(old_ids)
        return
    assert found == old_ids and after.decode(ids) == before.decode(old_ids)


@pytest.mark.parametrize("kind", KINDS)
def test_new_text_takes_fewer_tokens(kind: str, old: dict[str, Path], new: dict[str, Path]) -> None:
    for text in ("日本語です", "琵琶湖", "東京都"):
        before, after = loaded(old[kind]).encode(text), loaded(new[kind]).encode(text)
        assert len(after.ids) < len(before.ids) or (kind == "t5" and before.ids[-1] == 0)  # unknown
    assert load_adapters([new[kind]])
    tokenizer = load_tokenizer(new[kind])
    assert tokenizer.card.external and tokenizer.vocab_size == len(ids_of(new[kind]))
    if kind != "t5":  # which has neither bytes nor a piece for a newline
        assert tokenizer.decode(tokenizer.encode("日本語です\n    x")).strip() == "日本語です\n    x"


@pytest.mark.parametrize("kind", ["t5", "unigram"])
def test_added_tokens_are_no_pieces_of_a_text_that_spells_them(kind: str, new: dict[str, Path]) -> None:
    tokenizer = loaded(new[kind])
    tokenizer.encode_special_tokens = True
    for token in ("<unk>", "</s>", "<|reserved_0|>"):
        assert tokenizer.token_to_id(token) not in tokenizer.encode(token, add_special_tokens=False).ids


@pytest.mark.parametrize("kind", ["gpt2", "unigram"])
def test_reserved_tokens_of_two_stages_have_their_own_names(kind: str, new: dict[str, Path], tmp_path: Path) -> None:
    before = ids_of(new[kind])
    extended(new[kind], tmp_path / "third", 5, {"大学院生": 50, "日本語学習者": 40, "琵琶湖畔": 30}, reserved=2)
    after = ids_of(tmp_path / "third")
    assert before.items() <= after.items()
    assert [after[f"<|reserved_{number}|>"] for number in (2, 3)] == [len(before) + 3, len(before) + 4]
    contents = [
        token["content"] for token in json.loads((tmp_path / "third/tokenizer.json").read_text())["added_tokens"]
    ]
    assert len(contents) == len(set(contents))


def test_of_old_pieces_that_are_as_likely_those_that_join_are_taken(tmp_path: Path) -> None:
    scores = {"a": -1.5, "b": -2.5, "c": -2.0, "x": -3.0, "ab": -3.25, "bc": -3.75}
    made = Exported(models.Unigram([("<unk>", 0.0), *scores.items()], unk_id=0, byte_fallback=False))
    made.add_special_tokens(["<unk>"])
    (tmp_path / "old").mkdir()
    made.save(str(tmp_path / "old" / "tokenizer.json"))
    extended(tmp_path / "old", tmp_path / "new", 1 + len("<unk>"), {"xab": 5})
    assert loaded(tmp_path / "old").encode("xabc").tokens == ["x", "a", "bc"]
    assert loaded(tmp_path / "new").encode("xabc").tokens == ["xab", "c"]


def test_another_model_is_refused(old: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model = 'unigram', but .* is byte-bpe"):
        extended(old["gpt2"], tmp_path / "new", 5, model="unigram")
    extended(old["unigram"], tmp_path / "new", 12, model="unigram")


def test_a_piece_with_two_ids_is_refused(old: dict[str, Path], tmp_path: Path) -> None:
    document = json.loads((old["t5"] / "tokenizer.json").read_text())
    document["model"]["vocab"].append(document["model"]["vocab"][3])
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(ConfigError, match="occurs twice"):
        BaseTokenizer(tmp_path)


def test_characters_without_a_piece_get_one(old: dict[str, Path], new: dict[str, Path]) -> None:
    once = new["mistral"].parent.parent / "once" / "mistral"
    card = read_own_card(once)
    assert card.counts["ids.new.characters"] > 5 and card.counts["ids.old"] == len(ids_of(old["mistral"]))
    assert card.config.extends == "mistral" and card.config.model == "bpe"
    assert "<s>" not in [piece for piece in ids_of(once) if ids_of(once)[piece] >= card.counts["ids.old"]]
    assert "with 20 more; old ids are unchanged" in (once / "README.md").read_text()


def test_the_same_command_verifies_and_another_one_is_refused(old: dict[str, Path], tmp_path: Path) -> None:
    extended(old["gpt2"], tmp_path / "a", 10)
    files = digests(tmp_path / "a")
    extended(old["gpt2"], tmp_path / "a", 10)
    assert digests(tmp_path / "a") == files
    with pytest.raises(ConfigError, match="can be learnt from this text"):
        extended(old["gpt2"], tmp_path / "c", 5000)


@pytest.mark.parametrize(("more", "options"), [(0, {}), (3, {"reserved": 3})])
def test_a_vocabulary_without_room_is_refused_before_the_text_is_counted(
    more: int, options: dict[str, Any], old: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(WordCountTrainingData, "count")
    with pytest.raises(ConfigError, match="leaves no new ones"):
        extended(old["gpt2"], tmp_path / "new", more, **options)
    assert not (tmp_path / "new").exists()


def test_figures_tell_what_the_extension_saves(old: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "ja.txt").write_text("日本語の文字を学習する。日本語の学習です。\n" * 5, encoding="utf-8")
    recipe = default_recipe({"text": [str(tmp_path / "ja.txt")]}, "none")
    size = len(ids_of(old["gpt2"])) + 12
    section = {"extends": str(old["gpt2"]), "vocab_size": size, "boundaries": "none"}
    source = InputTrainingData(recipe, tmp_path / "out" / HASH_CACHE)
    card = train(source, tokenizer_config(section, "test"), tmp_path / "out", Local(1), SilentProgress())
    assert card.figures["characters_per_token"] > card.figures["characters_per_token_before"] > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "Unigram"}, "cannot be extended"),
        ({"type": "Unigram", "vocab": []}, "cannot be extended"),
        ({"ignore_merges": True}, "cannot be extended"),
        ({"end_of_word_suffix": "</w>"}, "cannot be extended"),
    ],
)
def test_other_models_are_refused(changes: dict[str, Any], message: str, old: dict[str, Path], tmp_path: Path) -> None:
    document = json.loads((old["gpt2"] / "tokenizer.json").read_text())
    document["model"] |= changes
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    config = tokenizer_config({"extends": str(tmp_path), "vocab_size": 1000}, "test")
    with pytest.raises(ConfigError, match=message):
        train(data(tmp_path / "x.tsv"), config, tmp_path / "out", Local(1), SilentProgress())


@pytest.mark.parametrize(
    "section", [{"special": ["gpt"]}, {"model": "wordpiece"}, {"boundaries": "super"}, {"required": ["x"]}]
)
def test_keys_of_the_old_tokenizer_are_refused(section: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        tokenizer_config({"extends": "old"} | section, "test")
