"""The exported normalizers do the same to raw text as the corpus's normalizers."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from jprep.corpus.normalizers.characters import CharactersNormalizer
from jprep.corpus.normalizers.gentle import GentleNormalizer
from jprep.corpus.normalizers.neologdn import NeologdnNormalizer
from jprep.corpus.normalizers.neologdn_tables import CONVERSIONS, JOINS, TILDES, probe_text
from jprep.corpus.normalizers.nfkc import NfkcNormalizer
from jprep.corpus.step import Normalizer, describe_step
from jprep.errors import ConfigError
from jprep.tokenizer.normalizers import export_normalizers

SPECIAL = "".join(characters for characters, _ in CONVERSIONS.values())
KANA = "".join(kana for kana, _ in JOINS.values())
WIDTHS = "￥￮か\u3099は゜ヽ゛ Aは1"
SIGNS = "\u0600\u0601\U000110bd"  # each forms a grapheme with the next character
MARKS = "\u0301\u0323\u0483\u0484\u3099\u309a\u20e3\u200d\ufe0f"  # each forms a grapheme with the previous character
OTHERS = "aZ0*(.é漢한국。、「𠮷😀👨🏽½ﬁ㌔\xa0\xa8\n\n\n\r\t\0\x0b\u2028\ufeff\ufdd0▁␤"
DENSE = SPECIAL + TILDES + KANA + WIDTHS + SIGNS + MARKS + OTHERS + " 　" * 9 + "ーー—-‐‑ﾞﾟ゛゜ｶﾊ" * 3 + "글글글"
MASK = "<mask>"
CHAINS: list[list[Any]] = [
    *([{"tilde": tilde}] for tilde in ("ignore", "remove", "normalize", "normalize_zenkaku")),
    *([{"remove_space": False, "tilde": tilde}] for tilde in ("ignore", "remove")),
    *([{"hangul_spaces": "keep", "tilde": tilde}] for tilde in ("ignore", "remove")),
    [{}, "nfkc"],
    ["nfkc", {}, "nfkc"],
    [{"remove_space": False}, "nfkc"],
    ["nfkc"],
    [],
    ["characters"],
    ["characters", {}],
    [{}, "characters"],
    [{"remove_space": False}, "characters"],
    ["nfkc", {"tilde": "remove"}, "characters", "nfkc"],
    ["characters", {"remove_space": False}],
    ["gentle"],
    ["gentle without spaces"],
    ["gentle", {}],
    [{"remove_space": False}, "gentle"],
    ["characters", "gentle without spaces", "nfkc"],
]
GENTLE = {
    "gentle": GentleNormalizer.Config(),
    "gentle without spaces": GentleNormalizer.Config(latin_spaces="remove"),
}
CHARACTERS = CharactersNormalizer.Config(
    delete="\u200d^]*😀", ranges=("U+2010-U+2013",), categories=("So", "Co"), map={"Z": " ", "ー": "-長", "漢": "ｶﾞ"}
)

texts = st.text(st.sampled_from(DENSE), max_size=40)
chains = pytest.mark.parametrize("chain", CHAINS, ids=str)


def steps_of(chain: Sequence[Any]) -> list[Normalizer]:
    return [
        NfkcNormalizer()
        if options == "nfkc"
        else GentleNormalizer(GENTLE[options])
        if isinstance(options, str) and options in GENTLE
        else CharactersNormalizer(CHARACTERS)
        if options == "characters"
        else NeologdnNormalizer(NeologdnNormalizer.Config(**options))
        for options in chain
    ]


@cache
def pair(chain: str, space: str, keep_marks: bool = False) -> tuple[Callable[[str], str], Tokenizer]:
    """Return the corpus's normalizer, and a tokenizer whose tokens are bytes."""
    steps = steps_of(json.loads(chain))
    parts = export_normalizers([describe_step(step) for step in steps], space, keep_marks=keep_marks)
    vocabulary = {"<unk>": 0, **{f"<0x{byte:02X}>": byte + 1 for byte in range(256)}, MASK: 257}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": 257, "content": MASK, "special": True, **flags}],
        "normalizer": {"type": "Sequence", "normalizers": parts.normalizers},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": parts.pre_tokenizers},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "unk_token": "<unk>", "byte_fallback": True},
    }

    def normalize(text: str) -> str:
        for step in steps:
            text = step.apply(text)
        return text

    return normalize, Tokenizer.from_str(json.dumps(tokenizer))


def stretches(tokenizer: Tokenizer, text: str) -> list[str]:
    """Encode a text and return what is between the masks."""
    parts = [bytearray()]
    for number in tokenizer.encode(text).ids:
        if number == 257:
            parts.append(bytearray())
        else:
            parts[-1].append(number - 1)
    return [part.decode() for part in parts]


@chains
@pytest.mark.parametrize("space", ["▁", " "])
@settings(max_examples=100, deadline=None)
@given(text=texts)
@example(text="ー ー\nカ ﾞ\na ー\n- ‐\n* ‐ -")
@example(text="\ufeff\ufeffa\n 　\ufeff ー\n~\ufeff")
@example(text="\u200d\ufeffa")
@example(text=" \xa0a")
@example(text="あ\n 글\n 　글 한\n글 \n\t 글")
@example(text=" 　글")
@example(text="~ 글")
@example(text="～ é\n～\ufeff")
@example(text="カ \u0483ﾊ\u0484")
@example(text="ﾊﾟ\u0601ﾊﾟﾟﾞ１\u0301う\u0483ﾞ")
def test_equals_the_normalizer_on_random_text(chain: list[Any], space: str, text: str) -> None:
    normalize, tokenizer = pair(json.dumps(chain), space)
    assert stretches(tokenizer, text) == [normalize(text).replace(" ", space)]


@chains
def test_equals_the_normalizer_on_the_probe_text(chain: list[Any]) -> None:
    normalize, tokenizer = pair(json.dumps(chain), "▁")
    for line in re.sub("[\x1e\x1f]", "", probe_text()).split("\n"):
        if "nfkc" not in chain or line[0] in SPECIAL + TILDES:  # the other lines contain every character
            assert stretches(tokenizer, line) == [normalize(line).replace(" ", "▁")]


def test_nfkc_only_differs_in_newer_characters() -> None:
    normalize, tokenizer = pair('["nfkc"]', " ")
    newer = {*range(0xA7F2, 0xA7F5), 0xAB69, *range(0x10780, 0x107C0), 0x1F16C, *range(0x1FBF0, 0x1FBFA), 0x1E, 0x1F}
    codes = (*range(0xD800), *range(0xE000, 0x20000), *range(0x2F800, 0x2FA20))
    text = "\n".join(chr(code) for code in codes if code not in newer)
    assert tokenizer.normalizer.normalize_str(text) == normalize(text)


@pytest.mark.parametrize("key", "１　ｶ—")
def test_text_after_a_converted_character_is_kept(key: str) -> None:
    normalize, tokenizer = pair("[{}]", "▁")
    blocks = ((0x20, 0x3400), (0xA600, 0xAC20), (0xF900, 0x12000), (0x1F000, 0x1FC00), (0xE0000, 0xE0200))
    graphic = [code for block in blocks for code in range(*block)]
    text = "\n".join(f"a{key}{chr(code)}ｶﾞ{chr(code)}\u0301{chr(code)}{key}" for code in graphic)
    assert tokenizer.normalizer.normalize_str(text) == normalize(text).replace(" ", "▁")


@pytest.mark.parametrize(
    "chain",
    [[{}], [{"remove_space": False}], [{"tilde": "remove"}, "nfkc"], [{"hangul_spaces": "keep"}]],
    ids=str,
)
@pytest.mark.parametrize("space", ["▁", " "])
@settings(max_examples=100, deadline=None)
@given(text=texts, data=st.data())
def test_stretches_between_special_tokens(chain: list[Any], space: str, text: str, data: st.DataObject) -> None:
    normalize, tokenizer = pair(json.dumps(chain), space)
    for _ in range(3):
        text = normalize(text)
    assume(normalize(text) == text)
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    cut = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    expected = [part.removesuffix(" ").replace(" ", space) for part in cut]
    assert stretches(tokenizer, MASK.join(cut)) == expected


def test_space_after_a_special_token() -> None:
    _, tokenizer = pair("[{}]", "▁")
    assert stretches(tokenizer, " a <mask> b<mask>　あ\n c <mask>") == ["a", "▁b", "あ\nc", ""]


@settings(max_examples=100, deadline=None)
@given(text=texts, seed=st.integers(0, 99))
def test_marked_text_is_unchanged(text: str, seed: int) -> None:
    normalize, tokenizer = pair("[{}]", "▁", True)
    text = normalize(normalize(text))
    assume(normalize(text) == text)
    flip = random.Random(seed).random
    words = re.sub(r" |(?<=[^ ])(?=[^ ])", lambda gap: f"\x1f{gap[0]}\x1f" if gap[0] else "\x1f" * (flip() < 0.5), text)
    assert stretches(tokenizer, words) == [words.replace(" ", "▁")]


def test_word_marks_are_deleted_unless_kept() -> None:
    assert stretches(pair("[{}]", "▁")[1], "a\x1f\x1e　あ\x1f") == ["aあ"]
    assert stretches(pair("[{}]", "▁", True)[1], "a\x1f \x1fb\x1e\x1f \x1f<mask>\x1f \x1fb") == [
        "a\x1f▁\x1fb\x1f\x1f",
        "▁\x1fb",
    ]


def test_offsets_refer_to_the_raw_text() -> None:
    _, tokenizer = pair("[{}]", "▁")
    text = "\ufeff ﾊﾟｿ　ｺﾝ ＡＢ  Ｃ１\u0301"
    offsets = list(dict.fromkeys(tokenizer.encode(text).offsets))
    assert [text[start:end] for start, end in offsets] == ["ﾊ", "ｿ", "ｺ", "ﾝ", "Ａ", "Ｂ", " ", "Ｃ", "１", "\u0301"]


def test_real_lines(shared_data: Path) -> None:
    normalize, tokenizer = pair("[{}]", "▁")
    lines: list[str] = []
    for path in sorted([*shared_data.glob("web/*.jsonl.gz"), *shared_data.glob("prose/*.jsonl.gz")]):
        with gzip.open(path, "rt", encoding="utf-8") as rows:
            lines += (line for i, row in enumerate(rows) if i % 60 == 0 for line in json.loads(row)["text"].split("\n"))
    assert lines
    expected = [[line.replace(" ", "▁")] for line in normalize("\n".join(lines)).split("\n")]
    assert [stretches(tokenizer, line) for line in lines] == expected


@chains
def test_uses_only_steps_that_all_clients_implement(chain: list[Any]) -> None:
    """JavaScript clients treat every `Precompiled` map as NFKC."""
    parts = export_normalizers([describe_step(step) for step in steps_of(chain)], "▁")
    assert {part["type"] for part in parts.normalizers} <= {"Replace", "NFKC"}
    assert {part["type"] for part in parts.pre_tokenizers} <= {"Metaspace", "Split"}


STEP = describe_step(NeologdnNormalizer())


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        ([describe_step(NeologdnNormalizer(NeologdnNormalizer.Config(repeat=2)))], "`repeat`"),
        ([STEP | {"name": "shout"}], "'shout'"),
        ([STEP | {"version": 2}], "version 2"),
        ([describe_step(NfkcNormalizer()) | {"version": 0}], "version 0"),
        ([STEP | {"provenance": {"neologdn": "9.9"}}], "this version of neologdn"),
        ([STEP | {"config": {"tild": "remove"}}], "tild"),
        ([STEP, STEP], "twice"),
    ],
)
def test_rejects_steps_that_cannot_be_exported(steps: list[dict[str, Any]], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        export_normalizers(steps, "▁")
