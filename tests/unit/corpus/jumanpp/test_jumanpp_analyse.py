"""Full analyses as pyknp objects."""

from __future__ import annotations

import sys

import pytest

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.analyzer_process import InvalidAnswer
from jprep.corpus.segmenters.juman_output import parse_analyses
from jprep.errors import MachineError
from jprep.testing.conformance.segmenter import HARD, LONG, SENTENCES


def needs_pyknp():
    try:
        import pyknp  # noqa: F401
    except ImportError as missing:
        pytest.skip(f"the extra `pyknp` is not installed: {missing}")


def test_the_words_join_to_the_text(either):
    needs_pyknp()
    either.tally.clear()
    texts = [*SENTENCES, *HARD, LONG[0], LONG[3]]
    for text, analysis in zip(texts, either.analyze(texts), strict=True):
        assert "".join(morpheme.midasi for morpheme in analysis) == text
    assert not either.tally


def test_words_are_those_of_the_segmenter(either):
    needs_pyknp()
    words = [[morpheme.midasi for morpheme in analysis] for analysis in either.analyze(SENTENCES)]
    assert words == [marked.split(WORD) for marked in either.segment(SENTENCES)]


def test_fields_spaces_and_equal_analyses(make):
    needs_pyknp()
    (analysis,) = make().analyze(["母と (^ ^)"])
    mother, _, space, face = analysis
    assert (mother.yomi, mother.hinsi, mother.hinsi_id, mother.bunrui, mother.imis) == (
        "はは",
        "名詞",
        6,
        "普通名詞",
        "NIL",
    )
    assert [(other.midasi, other.yomi) for other in mother.doukei] == [("母", "ぼ")]
    assert mother.repnames() == "母/ぼ"
    assert (space.midasi, space.yomi) == (" ", "\\␣")
    assert (face.midasi, face.yomi, face.genkei) == ("(^ ^)", "(^ ^)", "(^ ^)")
    assert (face.bunrui, face.repname, face.imis) == ("記号", "顔文字/顔文字", "代表表記:顔文字/顔文字 顔文字")
    assert [m.mrph_id for m in analysis] == [1, 3, 4, 5]


def test_failed_text_is_one_unknown_word(make):
    needs_pyknp()
    jumanpp = make("--fake-fault=die")
    good, bad, mark = jumanpp.analyze(["無事な文", "罠の文", f"印{WORD}"])
    assert len(good) > 1
    assert [(m.midasi, m.hinsi) for m in [*bad, *mark]] == [("罠の文", "未定義語"), (f"印{WORD}", "未定義語")]
    assert jumanpp.tally == {"unanalysed.died": 1, "unanalysed.mark": 1}


def test_the_missing_extra_names_its_pip_command(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyknp", None)
    with pytest.raises(MachineError) as caught:
        make().analyze(SENTENCES)
    assert caught.value.fix == "pip install 'jprep[pyknp]'"


GOOD = "東 東 東 名詞 6 普通名詞 1 * 0 * 0 NIL\n京 京 京 名詞 6 普通名詞 1 * 0 * 0 NIL\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("EOS\n", "changed"),
        (GOOD.replace("京", "都") + "EOS\n", "changed"),
        (GOOD + GOOD + "EOS\n", "changed"),
        (GOOD.replace(" 6 ", " 六 ") + "EOS\n", "changed"),
        (GOOD + "EOS\nEOS\n", "lines"),
        (GOOD, "lines"),
        ("", "lines"),
    ],
)
def test_analysis_of_another_text_is_invalid(answer, reason):
    with pytest.raises(InvalidAnswer) as caught:
        parse_analyses("東京\n".encode(), answer.encode())
    assert caught.value.reason == reason


def test_valid_analysis_is_accepted():
    (rows,) = parse_analyses("東京\n".encode(), f"{GOOD}EOS\n".encode())
    assert [row.surface for row in rows] == ["東", "京"]
