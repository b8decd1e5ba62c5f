"""The signals of language, words and perplexity in a build."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jprep.corpus.signals.perplexity.model import PerplexityModel
from tests.fakes.small_corpus import GOOD, build_corpus

CHINESE = "昨天下了一整天的雨，所以我一直在家里看书。傍晚我去附近的商店买了一些鱼和蔬菜。"
SPAM = "無修正エロ動画が見放題！素人動画、人妻動画を今すぐダウンロード。無料会員登録はこちら。即日振込、審査なし。"
FILTERS = [
    {"signal": "japanese_score", "min": 0.5, "reason": "not_japanese"},
    {"signal": "ng_adult_share", "max": 0.01, "reason": "adult"},
]


def test_documents_are_dropped_by_language_and_words(tmp_path: Path) -> None:
    texts = {"良い文章": GOOD, "中国語": CHINESE, "文字化け": GOOD.encode().decode("cp932", "replace"), "広告": SPAM}
    records = [{"title": title, "text": text} for title, text in texts.items()]
    signals = ["language", "ng_words"]
    corpus = build_corpus(tmp_path, records, signals=signals, filters=FILTERS, dedup={"documents": False})
    [doc] = corpus
    assert doc.title == "良い文章"
    assert doc.signals["japanese_score"] > 0.9
    assert doc.signals["ng_adult_words"] == 0
    reasons = {reject.title: reject.reason for reject in corpus.rejects()}
    assert reasons == {"中国語": "not_japanese", "文字化け": "not_japanese", "広告": "adult"}


@pytest.mark.parametrize("changed", [False, True])
def test_a_model_of_other_content_makes_another_corpus(tmp_path: Path, changed: bool) -> None:
    prints = []
    for number, text in enumerate((GOOD, CHINESE if changed else GOOD)):
        model, path = PerplexityModel(2, 8), tmp_path / f"{number}.npz"
        model.train([text])
        model.write(path)
        signals = [{"use": "perplexity", "model": str(path)}]
        corpus = build_corpus(tmp_path / str(number), [{"title": "良い", "text": GOOD}], signals=signals)
        assert np.isfinite(next(iter(corpus)).signals["perplexity_bits"])
        prints.append(corpus.manifest.fingerprint)
    assert (prints[0] != prints[1]) == changed
