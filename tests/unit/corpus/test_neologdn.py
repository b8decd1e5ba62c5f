"""The fast implementation gives the same result as neologdn, and counts the changes."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import re
from pathlib import Path
from typing import Any

import neologdn
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jprep.corpus.normalizers.neologdn import NeologdnNormalizer
from jprep.corpus.normalizers.neologdn_tables import CONVERSIONS, JOINS, TILDES
from jprep.testing.conformance.normalizer import NormalizerSuite
from tests.sampling import every

SHARED = Path(os.environ.get("JPREP_SHARED", Path(__file__).parents[3].parent / "shared"))
SPECIAL = "".join(characters for characters, _ in CONVERSIONS.values())
KANA = "".join(kana for kana, _ in JOINS.values())
OTHERS = "aZ0*(.é漢。、「𠮷😀\n\n\n\r\t\0\x0b\u2028\ufeff\u3099"
DENSE = SPECIAL + TILDES + KANA + OTHERS + " 　" * 9 + "ーー—-‐‑ﾞﾟ゛゜ｶﾊ" * 3
OPTIONS: list[dict[str, Any]] = [
    *({"tilde": tilde} for tilde in ("ignore", "remove", "normalize", "normalize_zenkaku")),
    *({"remove_space": False, "tilde": tilde} for tilde in ("ignore", "remove", "normalize")),
    *({"repeat": repeat} for repeat in (1, 2)),
    {"repeat": 1, "max_repeat_substr_length": 2, "tilde": "remove"},
]
STEPS = [
    (NeologdnNormalizer(NeologdnNormalizer.Config(**options)), {"tilde": "ignore", **options}) for options in OPTIONS
]

texts = st.text(st.sampled_from(DENSE), max_size=40) | st.text(max_size=20).filter(lambda s: s.isprintable())


class TestNeologdn(NormalizerSuite):
    step = NeologdnNormalizer
    pairs = (("ﾊﾝｶｸ　と　ＡＢ Ｃ", "ハンカクとAB C"),)


def reference(text: str, **options: Any) -> str:
    return "\n".join(neologdn.normalize(line, **options) for line in text.split("\n"))


KOREAN = "안녕 하세요  세계 (Korea) 2021 년, 日本 語 한국 어"


def test_neologdn_removes_the_spaces_between_hangul_and_they_are_counted() -> None:
    result, counts = normalize(KOREAN)
    assert result == reference(KOREAN, tilde="ignore") == "안녕하세요세계(Korea) 2021 년,日本語한국어"
    assert counts["spaces.between_hangul"] == 3


def test_spaces_beside_hangul_can_be_kept() -> None:
    result, counts = normalize(f"{KOREAN} \n 한\u3000국", hangul_spaces="keep")
    assert result == "안녕 하세요 세계 (Korea) 2021 년,日本語 한국 어\n한 국"
    assert "spaces.between_hangul" not in counts


@settings(max_examples=200, deadline=None)
@given(text=texts.filter(lambda text: not re.search("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff]", text)))
def test_text_without_hangul_is_the_same_either_way(text: str) -> None:
    assert normalize(text, hangul_spaces="keep") == normalize(text)


def normalize(text: str, **options: Any) -> tuple[str, dict[str, int]]:
    step = NeologdnNormalizer(NeologdnNormalizer.Config(**options))
    return step.apply(text), dict(step.tally)


@pytest.mark.parametrize(("step", "options"), STEPS, ids=map(str, OPTIONS))
@settings(max_examples=400, deadline=None)
@given(text=texts)
@example(text="ー ー\nカ ﾞ\na ー\n- ‐\n* ‐ -")
@example(text="\ufeff\ufeffa\n 　\ufeff ー\n~\ufeff")
@example(text="a ~ あ\na～ b\n〜 ‐~‐")
def test_equals_neologdn(step: NeologdnNormalizer, options: dict[str, Any], text: str) -> None:
    assert step.apply(text) == reference(text, **options)


AROUND = ["{}", "a{}b", "あ{}い", "a {} b", "カ{}", "- {}ー", "*　{}ﾞ"]


@pytest.mark.parametrize(("number", "around"), every(3, [(number, around) for number in range(7) for around in AROUND]))
def test_equals_neologdn_on_every_character(number: int, around: str) -> None:
    step, options = STEPS[number]
    scalars = (chr(code) for code in (*range(0x0A), *range(0x0B, 0xD800), *range(0xE000, 0x10100)))
    text = "\n".join(map(around.format, scalars))
    assert step.apply(text) == reference(text, **options)


@pytest.mark.parametrize("path", ["web/*.jsonl.gz", "prose/*.jsonl.gz"])
def test_equals_neologdn_on_real_text(path: str) -> None:
    files = sorted((SHARED / "data").glob(path))
    if not files:
        pytest.skip("the shared data is absent")
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") as rows:
            text = "\n".join(json.loads(row)["text"] for i, row in enumerate(rows) if i % 20 == 0)
        assert STEPS[0][0].apply(text) == reference(text, tilde="ignore"), file.name


@settings(max_examples=300)
@given(text=texts)
def test_counts_add_up(text: str) -> None:
    step = STEPS[1][0]
    step.tally.clear()
    result, tally = step.apply(text), dict(step.tally)
    lines = zip(text.split("\n"), result.split("\n"), strict=True)
    assert tally.pop("lines_changed", 0) == sum(before != after for before, after in lines)
    assert len(text) - len(result) == sum(n for name, n in tally.items() if name.endswith(".removed"))
    assert all(tally.values())


@pytest.mark.parametrize(
    ("text", "result", "counts"),
    [
        ("変わらない。\nabc def", "変わらない。\nabc def", {}),
        ("　東京 都　", "東京都", {"spaces.removed": 3}),
        ("a　b c", "a b c", {"spaces.replaced": 1}),
        ("a 　b", "a b", {"spaces.removed": 1}),
        ("ラーーメン―", "ラーメンー", {"long_vowels.removed": 1, "long_vowels.replaced": 1}),
        ("1‐‑2", "1-2", {"hyphens.removed": 1, "hyphens.replaced": 1}),
        ("（ＡＢ１）", "(AB1)", {"full_width.replaced": 5}),
        ("ｱｶﾞﾞ｡", "アガﾞ。", {"half_width_kana.replaced": 3, "voicing_marks.removed": 1}),
        ("カ゛あ゛", "ガあﾞ", {"voicing_marks.removed": 1, "voicing_marks.replaced": 1}),
        ("“‘’”", '"`\'"', {"quotes.replaced": 4}),
        ("\u00a5", "\\", {"yen_signs.replaced": 1}),
        ("\ufeffa", "a", {"byte_order_marks.removed": 1}),
        ("a\ud83d", "a\ufffd", {"surrogates.replaced": 1}),
        ("2020年〜2021年", "2020年〜2021年", {}),
    ],
)
def test_each_count(text: str, result: str, counts: dict[str, int]) -> None:
    expected = {**counts, "lines_changed": 1} if counts else {}
    assert normalize(text) == (result, expected)


def test_options_of_tildes_and_repeats_are_counted() -> None:
    assert normalize("あ〜い", tilde="remove") == ("あい", {"tildes.removed": 1, "lines_changed": 1})
    assert normalize("あ～~い", tilde="normalize") == ("あ~~い", {"tildes.replaced": 1, "lines_changed": 1})
    assert normalize("無駄無駄無駄無駄", repeat=1)[1] == {"repeats.removed": 6, "lines_changed": 1}


def test_unchanged_text_is_the_same_object() -> None:
    text = "そのまま。\nラーメンとパン屋"
    assert NeologdnNormalizer().apply(text) is text


def test_blocks_are_joined_correctly() -> None:
    text = "（あ）　い\n" * 30_000 + "う" * 200_000 + "\n\n"
    assert normalize(text)[0] == "(あ)い\n" * 30_000 + "う" * 200_000 + "\n\n"


def test_unknown_version_of_neologdn_is_called_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(line: str, **options: Any) -> str:
        return neologdn_normalize(line, **options).replace("〓", "")

    neologdn_normalize = neologdn.normalize
    module = importlib.import_module("neologdn")
    monkeypatch.setattr(module, "normalize", other)
    monkeypatch.setattr(module, "__version__", "99")
    counts = {"characters.removed": 1, "surrogates.replaced": 1, "lines_changed": 2}
    assert normalize("（〓\na\ud800") == ("(\na\ufffd", counts)


def test_provenance() -> None:
    assert NeologdnNormalizer().provenance() == {"neologdn": neologdn.__version__}


@pytest.mark.parametrize("tilde", ["ignore", "remove", "normalize", "normalize_zenkaku"])
def test_the_tables_hold_for_the_installed_version(tilde: str) -> None:
    assert NeologdnNormalizer(NeologdnNormalizer.Config(tilde=tilde))._agrees()
