"""The preset web-ja on test sets of our own: junk, and clean documents of odd form.

Every third document (index 2, 5, 8, …) is held out: thresholds were chosen on the others. docs/web-ja.md states the
figures of both parts.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jprep.corpus.document import Document, Verdict
from jprep.corpus.filters.presets.preset import PresetFilter
from jprep.corpus.signals.batch import TextBatch

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("JPREP_SHARED", "shared")) / "data" / "web"


def read_set(name: str) -> list[dict[str, str]]:
    """Return the documents of a test set, each with `kind` and `text`."""
    lines = (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def judge(texts: list[str]) -> list[Verdict]:
    """Return the preset's verdict on each text."""
    preset = PresetFilter(PresetFilter.Config(preset="web-ja"))
    docs = [Document(str(index), "web", "", "", text, "", {}) for index, text in enumerate(texts)]
    return [
        verdict
        for first in range(0, len(docs), 100)
        for verdict in preset.judge_all(TextBatch(docs[first : first + 100]))
    ]


def dropped_share(documents: list[dict[str, str]]) -> float:
    verdicts = judge([document["text"] for document in documents])
    return sum(not verdict.keep for verdict in verdicts) / len(verdicts)


def part(name: str, held_out: bool) -> list[dict[str, str]]:
    return [each for index, each in enumerate(read_set(name)) if (index % 3 == 2) == held_out]


def test_the_sets_have_the_sizes_they_need() -> None:
    junk, clean = read_set("web_junk"), read_set("web_clean")
    assert len(junk) >= 200
    assert len(clean) >= 100
    for documents in (junk, clean):
        texts = [document["text"] for document in documents]
        assert len(set(texts)) == len(texts)
        assert all(90 <= len(text) <= 800 for text in texts)
        assert len({document["kind"] for document in documents}) >= 30


def test_drops_junk() -> None:
    assert dropped_share(part("web_junk", held_out=False)) >= 0.9


def test_keeps_clean_documents_of_odd_form() -> None:
    assert dropped_share(part("web_clean", held_out=False)) <= 0.02


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("repetition", "続きを読む\n" * 8),
        ("repetition", "あ" * 200),
        ("mojibake", "縺薙ｌ縺ｯ譁�ｭ怜喧縺代＠縺滓枚遶縺ｧ縺吶" * 4),
        ("foreign", "The quick brown fox jumps over the lazy dog. " * 3),
        ("few_kana", "欢迎光临我们的网站，本公司专业生产各种不锈钢管材，产品质量可靠，价格优惠。" * 2),
        (
            "no_sentences",
            "会社概要\n事業内容\n採用情報\nアクセス\nサイトマップ\nプライバシーポリシー\nログイン\n新規会員登録\n閲覧履歴",
        ),
        ("decoration", "今すぐ登録！！！！誰でも簡単に始められます！！！！"),
    ],
)
def test_gives_the_reason(reason: str, text: str) -> None:
    assert judge([text])[0] == Verdict(False, reason)


@pytest.mark.parametrize("text", ["はい。", "", "日光浴に適しているのは？", "港のそばの古い倉庫"])
def test_does_not_judge_short_texts_by_chance(text: str) -> None:
    assert judge([text])[0].keep


def test_code_in_prose_does_not_make_it_foreign() -> None:
    code = "\n".join(f'auto value_{n} = std::make_unique<int>({n}); // "{n}"' for n in range(40))
    prose = "この関数は、引数で渡された値から新しいオブジェクトを作り、所有権を持つポインターを返します。"
    assert judge([f"{prose}\n{code}\n例外を投げることがあるので、呼び出す側で受け取ってください。"])[0].keep
    assert judge([code])[0] == Verdict(False, "code")


def shared(name: str) -> Iterator[dict[str, Any]]:
    path = SHARED / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip("the shared data are not here")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


@pytest.mark.parametrize(
    ("name", "most"),
    [("cpprefjp", 0.1), ("jaquad_contexts", 0.01), ("quasi_reviews", 0.01), ("real_persona_chat", 0.01)],
)
def test_keeps_real_text(name: str, most: float) -> None:
    documents = [document for index, document in enumerate(shared(name)) if index % 5 == 0]
    assert dropped_share(documents) <= most
