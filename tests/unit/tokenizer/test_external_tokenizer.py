"""Tokenizers that jprep did not write: ids, special tokens, spans, cards, and the marks of packed documents."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.document import SENTENCE, WORD
from jprep.dataset.manifest import SENTENCE_START, WORD_START
from jprep.dataset.preprocessing.document_encoder import DocumentEncoder
from jprep.dataset.sampling.special_ids import special_ids
from jprep.errors import ConfigError, InputError, MachineError
from jprep.io.atomic import file_sha256
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.card import read_card
from jprep.tokenizer.evaluation.compare import compare
from jprep.tokenizer.external.alignment import align, surface
from jprep.tokenizer.external.extension import extend_tokenizer
from jprep.tokenizer.external.process import find_python
from tests.fakes.hugging_face import PIECES, write_byte_level, write_wordpiece

TEXT = "吾輩は猫である。the cats"


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return write_wordpiece(tmp_path / "bert")


def test_ids_are_those_of_the_library(bert: Path) -> None:
    loaded, plain = load_tokenizer(bert), tokenizers.Tokenizer.from_file(str(bert / "tokenizer.json"))
    texts = [TEXT, "", "東京", "  the\n猫 "]
    ids, offsets = loaded.encode_batch(texts)
    for number, text in enumerate(texts):
        found = ids[offsets[number] : offsets[number + 1]].tolist()
        assert found == plain.encode(text, add_special_tokens=False).ids
    assert loaded.decode(loaded.encode("the cats")) == "the cats"
    with pytest.raises(IndexError):
        loaded.decode([-100])


def test_special_tokens_come_from_the_files(bert: Path) -> None:
    special = special_ids(load_tokenizer(bert))
    cls, sep = PIECES.index("[CLS]"), PIECES.index("[SEP]")
    assert (special.before, special.after, special.between, special.pair_after) == ((cls,), (sep,), (sep,), (sep,))
    assert (special.pad, special.mask, special.types, special.special) == (0, 4, True, (0, 1, 2, 3, 4))
    settings = json.loads((bert / "tokenizer_config.json").read_text())
    (bert / "tokenizer_config.json").write_text(json.dumps(settings | {"mask_token": None, "pad_token": "[gone]"}))
    changed = load_tokenizer(bert)
    assert (changed.mask, changed.pad, changed.unk) == (None, None, 1)
    (bert / "tokenizer_config.json").unlink()  # early releases did not name the roles
    assert load_tokenizer(bert).special == load_tokenizer(write_wordpiece(bert)).special


def test_special_tokens_in_a_text_are_text(bert: Path) -> None:
    loaded = load_tokenizer(bert)
    assert not set(loaded.encode("猫[MASK][SEP]猫")) & {2, 3, 4}


def test_a_tokenizer_of_a_language_model(tmp_path: Path) -> None:
    loaded = load_tokenizer(write_byte_level(tmp_path / "gpt"))
    assert (loaded.eos, loaded.pad, loaded.bos) == (256, None, None)
    assert loaded.newline_id == loaded.id_of("Ċ")
    special = special_ids(loaded)
    assert (special.before, special.after, special.types) == ((), (), False)
    assert loaded.decode(loaded.encode("吾輩\n は")) == "吾輩\n は"
    encoder = DocumentEncoder(loaded)
    assert (encoder.end, encoder.newline) == (256, loaded.newline_id)


def test_the_card_has_the_hashes_of_the_files(bert: Path, tmp_path: Path) -> None:
    card = read_card(bert)
    assert card.external and card.files["tokenizer.json"] == file_sha256(bert / "tokenizer.json")
    copy = write_wordpiece(tmp_path / "copy")
    assert read_card(copy).fingerprint == card.fingerprint
    assert read_card(write_wordpiece(tmp_path / "other", [*PIECES, "東"])).fingerprint != card.fingerprint
    again = pickle.loads(pickle.dumps(load_tokenizer(bert)))
    assert again.encode(TEXT) == load_tokenizer(bert).encode(TEXT)


def test_what_is_no_tokenizer_is_refused(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="jprep tokenizer train"):
        load_tokenizer(tmp_path)
    (bert / "tokenizer_config.json").write_text("{")
    with pytest.raises(InputError, match="invalid JSON"):
        load_tokenizer(bert)
    (bert / "tokenizer_config.json").write_text("{}")
    (bert / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="not a tokenizer"):
        load_tokenizer(bert)
    monkeypatch.setenv("JPREP_BACKENDS", str(tmp_path / "none"))
    monkeypatch.setattr("jprep.tokenizer.external.process.find_spec", lambda name: None)
    with pytest.raises(MachineError, match=r"no tokenizer\.json") as caught:
        find_python(tmp_path)
    assert caught.value.fix == "jprep backends install torch"


def test_hostile_files_are_errors_or_ignored(bert: Path) -> None:
    settings = json.loads((bert / "tokenizer_config.json").read_text())
    for odd in ({"additional_special_tokens": 5}, {"mask_token": ["[MASK]"]}, {"extra_special_tokens": [None, {}]}):
        (bert / "tokenizer_config.json").write_text(json.dumps(settings | odd))
        assert load_tokenizer(bert).vocab_size == len(PIECES)
    saved = json.loads((bert / "tokenizer.json").read_text())
    saved["model"]["vocab"]["far"] = (1 << 32) - 1
    (bert / "tokenizer.json").write_text(json.dumps(saved))
    with pytest.raises(ConfigError, match="has the id 4,294,967,295"):
        load_tokenizer(bert)


def words_of(encoder: DocumentEncoder, tokenizer: object, document: str) -> tuple[list[str], list[int], list[int]]:
    """Return a document's tokens, and which of them start words and sentences."""
    found = encoder.encode([document.encode(), "猫".encode()])
    count = int(found.lengths[0]) - 1
    marks = found.marks[:count]
    pieces = [tokenizer.piece_of(number) for number in found.tokens[:count].tolist()]  # type: ignore[attr-defined]
    return pieces, np.flatnonzero(marks & WORD_START).tolist(), np.flatnonzero(marks & SENTENCE_START).tolist()


def test_tokens_that_start_words_and_sentences_are_marked(bert: Path) -> None:
    loaded = load_tokenizer(bert)
    document = f"吾輩{WORD}は{WORD}猫{WORD}である{WORD}。{SENTENCE}the {WORD}cats\n日本{WORD}の{WORD}犬"
    pieces, words, sentences = words_of(DocumentEncoder(loaded), loaded, document)
    assert pieces == ["[UNK]", "。", "the", "cat", "##s", "[UNK]"]  # a word between spaces is one unit to BERT
    assert (words, sentences) == ([0, 1, 2, 3, 5], [0, 2, 5])


def test_pieces_inside_words_are_not_marked(tmp_path: Path) -> None:
    loaded = load_tokenizer(write_byte_level(tmp_path / "gpt"))
    document = f"ab{WORD} {WORD}猫だ{SENTENCE}c\nd"
    pieces, words, sentences = words_of(DocumentEncoder(loaded), loaded, document)
    assert "".join(pieces) == "abĠçĮ«ãģłcĊd"
    assert (words, sentences) == ([0, 2, 3, 9, 11], [0, 9, 11])


@given(st.lists(st.sampled_from(["吾輩", "は", "Cat", "ｶﾞ", " ", "é", "で", "〓"]), max_size=8))
def test_aligned_tokens_cover_the_text_in_order(parts: list[str]) -> None:
    text = "".join(parts)
    surfaces = [surface(part) if part != "〓" else "" for part in parts if not part.isspace()]
    spans = align(text, surfaces)
    assert len(spans) == len(surfaces)
    flat = [place for span in spans for place in span]
    assert flat == sorted(flat) and all(0 <= place <= len(text) for place in flat)
    visible = [part for part in parts if not part.isspace()]
    for (start, end), part in zip(spans, visible, strict=True):
        if "〓" not in visible and "ｶﾞ" not in visible:
            assert text[start:end].strip() == part


def test_unknown_tokens_cover_the_text_up_to_the_next() -> None:
    assert align("吾輩xyzは 猫", ["", surface("は"), surface("猫")]) == [(0, 5), (5, 6), (7, 8)]
    assert align("ABC def", [surface("ab"), surface("##c"), surface("▁DEF")]) == [(0, 2), (2, 3), (4, 7)]
    assert align("abc", ["", ""]) == [(0, 3), (3, 3)]


def test_white_space_that_is_a_token_belongs_to_the_word_after_it() -> None:
    pieces = ["▁", "ab", "▁▁", "〓", "▁", "c", "▁"]
    spans = align("ab xyz c", ["" if piece == "〓" else surface(piece) for piece in pieces])
    assert spans == [(0, 2), (0, 2), (3, 7), (3, 7), (7, 8), (7, 8), (8, 8)]


def test_tokens_are_added_with_the_next_ids(bert: Path, tmp_path: Path) -> None:
    added = extend_tokenizer(bert, ["琵琶湖", "猫", "琵琶湖"], tmp_path / "more")
    loaded = load_tokenizer(tmp_path / "more")
    assert added == ["琵琶湖"] and loaded.id_of("琵琶湖") == len(PIECES)
    assert loaded.encode("琵琶湖は") == [len(PIECES), PIECES.index("は")]
    assert loaded.special == load_tokenizer(bert).special
    with pytest.raises(ConfigError, match="tokens cannot be added"):
        extend_tokenizer(tmp_path, ["x"], tmp_path / "no")
    with pytest.raises(ConfigError, match="no such folder"):
        extend_tokenizer(tmp_path / "missing", ["x"], tmp_path / "no")


def test_any_tokenizer_is_evaluated(bert: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT + "\n", encoding="utf-8")
    [scores] = compare([bert], str(tmp_path / "a.txt"))
    assert (scores.vocab_size, scores.paragraphs) == (len(PIECES), 1)
