"""The published presets: they load, name their source, and drop what their rules say."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from jprep.corpus.config import make_step
from jprep.corpus.document import Document
from jprep.corpus.filters.presets.preset import load_preset, preset_names
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.step import describe_step
from jprep.errors import ConfigError

_PROSE = (
    "昔々ある村に、山へ芝刈りに行くおじいさんと川へ洗濯に行くおばあさんが住んでいました。",
    "川上から大きな桃が流れてきたので、おばあさんはそれを拾って家に持ち帰ることにしました。",
    "桃を割ってみると中から元気な男の子が飛び出してきて、二人はたいそう驚いたということです。",
    "男の子はすくすくと育ち、やがて鬼が人々を苦しめているという島の話を聞くようになりました。",
    "そこで黍団子を腰につけ、犬と猿と雉を家来にして、鬼を退治するための長い旅に出かけました。",
    "鬼たちは宴会の最中でしたから、攻め込まれると慌てふためいて、とうとう降参してしまいました。",
    "奪われた宝物は荷車に積まれ、一行は海を渡り、懐かしい故郷の家へ意気揚々と帰っていきました。",
    "おじいさんとおばあさんは門の前で待っていて、無事な姿を見るなり涙を流して喜んだそうです。",
    "宝物は村じゅうに分けられて、誰もが安心して畑を耕し、豊かに暮らせるようになったのでした。",
    "今でもその土地では、春になると桃の花の下に集まり、勇気ある若者のことを語り合っています。",
)
_PROSE_OPEN = [line[:-1] + "、" for line in _PROSE]


def judge(ref: dict[str, Any], text: str, url: str = "https://www.example.jp/a") -> str:
    """Return the reason for which a text is dropped, or ""."""
    verdict = make_step("filter", ref).judge(Document("1", "s", "", url, text, words=text))
    return "" if verdict.keep else verdict.reason


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_can_be_used_and_names_its_source(name: str) -> None:
    preset = load_preset(name)
    assert make_step("filter", {"preset": name}).signals()
    if name == "web-ja":  # jprep's own
        return
    assert re.fullmatch("[0-9a-f]{40}", preset.source.commit)
    assert preset.source.file and preset.source.repository.startswith("https://")


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_keeps_plain_prose(name: str) -> None:
    assert judge({"preset": name}, "\n".join(_PROSE)) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\n".join(_PROSE[:3]), "swallow_letters"),
        ("\n".join(_PROSE + _PROSE), "swallow_duplicate_line_share"),
        ("".join(line[:-1] for line in _PROSE), "swallow_mean_sentence"),
        (
            "\n".join(line[:-1] + "…" if index % 3 else line for index, line in enumerate(_PROSE)),
            "swallow_ellipsis_share",
        ),
        ("\n".join(line[:15] + "。\n" + line[15:] for line in _PROSE), ""),
        (
            "\n".join(line[:-1] + f"、{turn}回目。" for turn in "一二" for line in _PROSE),
            "swallow_duplicate_5gram_share",
        ),
    ],
)
def test_swallow_drops_by_its_rules(text: str, reason: str) -> None:
    assert judge({"preset": "swallow-v1"}, text) == reason


def test_uzushio_judges_compression_where_it_is_asked_for() -> None:
    prose, ref = "\n".join(_PROSE), {"preset": "uzushio-03a", "also": ["compression"]}
    assert judge(ref, prose) == "lz4_ratio"
    assert judge(ref, "\n".join([prose, *(f"{line}と語った。" for line in _PROSE[::2])])) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [("\n".join(_PROSE)[:199], "uzushio_length"), ("漢字" * 90 + "かな" * 15, "uzushio_hiragana_share")],
)
def test_uzushio_drops_by_its_rules(text: str, reason: str) -> None:
    assert judge({"preset": "uzushio-03a"}, text.replace("\n", "")) == reason


@pytest.mark.parametrize(
    ("text", "url", "reason"),
    [
        ("\n".join(_PROSE), "https://example.cn/", "llm_jp_domain"),
        ("漢字" * 25 + "\n".join(_PROSE), "https://example.jp/", "llm_jp_kana_at_start"),
        ("\n".join(_PROSE).replace("。", "！"), "https://example.jp/", "llm_jp_mean_sentence"),
        (_PROSE[0] * 20, "https://example.jp/", "deflate_ratio"),
    ],
)
def test_llm_jp_drops_by_its_rules(text: str, url: str, reason: str) -> None:
    assert judge({"preset": "llm-jp-v1"}, text, url) == reason


def test_a_list_of_words_adds_its_rule(tmp_path: Path) -> None:
    (tmp_path / "ng.txt").write_text("おじいさん\n男の子\n鬼\n桃\n宝物\n", encoding="utf-8")
    ref = {"preset": "swallow-v1", "files": {"ng_words": str(tmp_path / "ng.txt")}}
    assert judge(ref, "\n".join(_PROSE)) == "swallow_ng_share"
    described = describe_step(make_step("filter", ref))
    assert str(tmp_path) not in str(described)
    assert "ng_words" not in described["provenance"]["not_run"]
    assert any("list" in signal["provenance"] for signal in described["signals"])


def test_rules_that_are_not_run_are_named_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    from jprep.corpus.filters.presets import preset

    preset._warn.cache_clear()
    with caplog.at_level(logging.WARNING):
        step = make_step("filter", {"preset": "swallow-v1"})
        make_step("filter", {"preset": "swallow-v1"})
    assert [record.args for record in caplog.records] == [("swallow-v1", "footers, language, ng_hosts, ng_words")]
    step.judge_all(TextBatch([Document("1", "s", "", "", "短い。")] * 3))
    assert step.tally["swallow-v1.not_run.ng_words"] == 3
    assert step.provenance()["not_run"] == "footers, language, ng_hosts, ng_words"


@pytest.mark.parametrize(
    ("options", "what", "fix"),
    [
        ({"also": ["ng_words"]}, "need a list of words", "files = { ng_words"),
        ({"files": {"ng_wordz": "x"}}, "no optional rules 'ng_wordz'", "ng_words"),
    ],
)
def test_what_a_preset_has_not_is_refused(options: dict[str, Any], what: str, fix: str) -> None:
    with pytest.raises(ConfigError, match=what) as error:
        make_step("filter", {"preset": "swallow-v1"} | options)
    assert fix in str(error.value.fix)
