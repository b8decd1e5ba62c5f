"""Text that contains characters with a meaning to jprep or WordPiece."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vocabularies import finished, small

from jprep import load_tokenizer, normalize
from jprep.corpus.config import make_step
from jprep.corpus.step import describe_step
from jprep.errors import MismatchError
from jprep.tokenizer.tokenizer import Tokenizer

TEXTS = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("\x1e\x1f a#猫\n")))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_tokenizer(finished(tmp_path_factory.mktemp("plain"), small("byte-bpe")))


@pytest.fixture(scope="module")
def normalizing(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    steps = [describe_step(make_step("normalizer", {"use": "neologdn", "tilde": "ignore"}))]
    return load_tokenizer(finished(tmp_path_factory.mktemp("normalizing"), small("byte-bpe"), steps))


@given(TEXTS)
def test_byte_bpe_is_lossless(plain: Tokenizer, text: str) -> None:
    assert plain.decode(plain.encode(text)) == text


@given(TEXTS)
def test_normalizing_tokenizer_equals_normalize(normalizing: Tokenizer, text: str) -> None:
    assert normalizing.decode(normalizing.encode(text)) == normalize(text)


@pytest.mark.parametrize("text", ["##", "###東", "a##b", "#", "東\x1f##\x1f京", "####"])
def test_double_hash_in_text_is_not_a_continuation_prefix(text: str, tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Exported

    tokenizer = load_tokenizer(finished(tmp_path / "t", small("wordpiece", boundaries="hard")))
    marked = text if "\x1f" in text else f"{text}\x1f"
    ids = tokenizer.encode(marked, normalized=True)
    assert tokenizer.unk not in ids
    assert tokenizer.decode(ids) == text.replace("\x1f", "")
    exported = Exported.from_file(str(tmp_path / "t/tokenizer.json"))
    assert exported.encode(marked, add_special_tokens=False).ids == ids
    assert exported.decode(ids) == text.replace("\x1f", "")


def test_single_string_is_rejected(plain: Tokenizer) -> None:
    with pytest.raises(TypeError, match="a list of texts"):
        plain.encode_batch("猫です")


@pytest.mark.parametrize("name", ["tokenizer.json", "spm.model"])
def test_files_of_another_tokenizer_are_rejected(name: str, tmp_path: Path) -> None:
    import msgspec

    from jprep.io.atomic import file_sha256
    from jprep.tokenizer.card import read_card, write_card

    folder = finished(tmp_path / "t", small("bpe"))
    files = {path.name: file_sha256(path) for path in folder.iterdir() if path.name != "card.json"}
    write_card(folder, msgspec.structs.replace(read_card(folder), files=files))
    assert load_tokenizer(folder).encode("猫")
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    with pytest.raises(MismatchError, match="was changed or damaged"):
        load_tokenizer(folder)
