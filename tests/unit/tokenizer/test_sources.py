"""`[[tokenizer.sources]]`: shares, units of each source, normalizers, and text that comes back byte for byte."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Exported

from jprep.corpus.api import Corpus
from jprep.corpus.build import build
from jprep.corpus.config import decode_recipe
from jprep.dataset.manifest import DatasetConfig
from jprep.dataset.pack import pack
from jprep.engine.executors.local import Local
from jprep.engine.output_kinds import HASH_CACHE
from jprep.engine.runner import SilentProgress
from jprep.errors import ConfigError
from jprep.tokenizer.card import TokenizerCard
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting.sorted_runs import merge_blocks
from jprep.tokenizer.counting.sources import find_factors
from jprep.tokenizer.sources.data import SourcesTrainingData
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.train import train
from tests.conftest import digests
from tests.fakes.config_sections import tokenizer_config

CODE = """def  f(x):
    if x:

        return "a  b"  # \ttab
\treturn g(x)
"""
ENGLISH = "It is  two spaces.\nThe tokenizer's text, and the text of the model.\n"
JAPANESE = "早稲田 大学 で 学ぶ 。\nﾊﾝｶｸ の 文字 を 学ぶ 。\n"
SPELLINGS = [*"abxyz(){}=:#.", " ", "  ", "    ", "\t", "\n", "\r\n", "é", "語", "😀"]
SOURCES: dict[str, dict[str, Any]] = {
    "ja": {"weight": 3, "segmenter": "spaces", "normalizers": ["nfkc"]},
    "en": {"weight": 2},
    "code": {"weight": 1, "as_is": True, "required": ["        ", "self"]},
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Sources with a file each."""
    folder, found = tmp_path_factory.mktemp("texts"), []
    for (name, table), text in zip(SOURCES.items(), [JAPANESE * 3, ENGLISH * 9, CODE * 5], strict=True):
        (folder / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
        found.append({"name": name, "paths": [str(folder / f"{name}.txt")], "licence": f"{name}-licence", **table})
    return found


def no_corpus() -> Corpus:
    raise AssertionError("no source is in the recipe's corpus")


def trained(folder: Path, tables: Sequence[dict[str, Any]], workers: int = 1, **options: Any) -> TokenizerCard:
    section = {"vocab_size": 380, "sources": list(tables), "special": ["gpt"]} | options
    config = tokenizer_config(section, "test")
    data = SourcesTrainingData("mixed", config.source_list, no_corpus, folder / HASH_CACHE)
    return train(data, config, folder, Local(workers), SilentProgress())


@pytest.fixture(scope="module")
def models(tables: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tokenizer of each kind that restores text."""
    parent = tmp_path_factory.mktemp("models")
    for model, size in {"bpe": 380, "byte-bpe": 380, "unigram": 340}.items():
        trained(parent / model, tables, model=model, reserved=3, vocab_size=size)
    return {model: parent / model for model in ("bpe", "byte-bpe", "unigram")}


def test_the_shares_are_those_of_the_weights(models: dict[str, Path]) -> None:
    card = Tokenizer(models["bpe"]).card
    shares = [card.figures[f"share.{name}"] for name in SOURCES]
    assert shares == pytest.approx([3 / 6, 2 / 6, 1 / 6], rel=1e-3)
    products = [card.counts[f"units.counted.{name}"] * card.counts[f"units.factor.{name}"] for name in SOURCES]
    assert sum(products) == card.counts["units.total"]
    assert card.counts["units.counted.ja"] == 33  # words, as segmented; ﾊﾝｶｸ is one
    assert [(source["name"], source["licence"]) for source in card.sources] == [
        (name, f"{name}-licence") for name in SOURCES
    ]
    assert card.figures["lossless_rate.code"] == card.figures["lossless_rate.en"] == 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**12)), min_size=1, max_size=5))
def test_rounding_changes_no_share_by_more_than_a_thousandth(sources: list[tuple[int, int]]) -> None:
    shares, units = [Fraction(weight, 10) for weight, _ in sources], [count for _, count in sources]
    products = [count * factor for count, factor in zip(units, find_factors(shares, units), strict=True)]
    for share, product in zip(shares, products, strict=True):
        assert abs(Fraction(product, sum(products)) / (share / sum(shares)) - 1) <= Fraction(1, 999)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.dictionaries(st.text("abc", max_size=3), st.integers(1, 9)), max_size=4))
def test_streams_are_merged_as_one_table(tables: list[dict[str, int]]) -> None:
    def blocks(table: dict[str, int]) -> Iterator[Any]:
        rows = sorted(table.items())
        for start in range(0, len(rows), 2):
            part = rows[start : start + 2]
            names = pa.array([name.encode() for name, _ in part], pa.large_binary())
            yield names, np.array([count for _, count in part], np.int64)

    merged = [
        (name.decode(), count)
        for names, counts in merge_blocks([blocks(table) for table in tables])
        for name, count in zip(names.to_pylist(), counts.tolist(), strict=True)
    ]
    assert merged == sorted(sum(map(Counter, tables), Counter()).items())


@pytest.mark.parametrize("model", ["bpe", "byte-bpe", "unigram"])
@settings(max_examples=40, deadline=None)
@given(text=st.lists(st.sampled_from(SPELLINGS), max_size=60).map("".join))
def test_any_text_comes_back_byte_for_byte(models: dict[str, Path], model: str, text: str) -> None:
    """No normalizer is applied: the sources have different ones."""
    tokenizer = _loaded(models[model])
    assert tokenizer.decode(tokenizer.encode(text)) == text
    exported = _exported(models[model])
    assert exported.decode(exported.encode(text, add_special_tokens=False).ids, skip_special_tokens=False) == text


_CACHE: dict[tuple[Path, str], Any] = {}


def _loaded(folder: Path) -> Tokenizer:
    return _CACHE.setdefault((folder, "own"), Tokenizer(folder))  # type: ignore[no-any-return]


def _exported(folder: Path) -> Exported:
    return _CACHE.setdefault((folder, "exported"), Exported.from_file(str(folder / "tokenizer.json")))


@pytest.mark.parametrize("model", ["bpe", "byte-bpe", "unigram"])
def test_indentation_and_whole_code_come_back(models: dict[str, Path], model: str) -> None:
    tokenizer = _loaded(models[model])
    for text in (CODE, ENGLISH, CODE.replace("\n", "\r\n"), "\n\n  \n\t\t x\n"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode("        ")) == 1


def test_sources_that_agree_give_the_tokenizer_their_normalizers(tables: list[dict[str, Any]], tmp_path: Path) -> None:
    same = [table | {"as_is": False, "normalizers": ["nfkc"]} for table in tables[:2]]
    assert [step["name"] for step in trained(tmp_path / "same", same).normalizers] == ["nfkc"]
    given = trained(tmp_path / "given", tables[:2], normalizers=["nfkc"])
    assert [step["name"] for step in given.normalizers] == ["nfkc"]


def test_the_bytes_do_not_depend_on_the_workers_and_weights_are_cheap(
    tables: list[dict[str, Any]], models: dict[str, Path], tmp_path: Path
) -> None:
    trained(tmp_path / "two", tables, workers=2, model="byte-bpe", reserved=3)
    assert digests(tmp_path / "two") == digests(models["byte-bpe"])
    other = trained(tmp_path / "other", [tables[0] | {"weight": 300}, *tables[1:]], model="byte-bpe", reserved=3)
    assert other.fingerprint != Tokenizer(models["byte-bpe"]).card.fingerprint
    assert other.figures["share.ja"] > 0.98


def test_a_tokenizer_without_sources_records_none() -> None:
    config = json.loads(msgspec.json.encode(TokenizerConfig()))
    assert {"sources", "required", "reserved", "extends"}.isdisjoint(config)


@pytest.fixture(scope="module")
def corpus(tables: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """One corpus of the three sources, with words in all of them."""
    keys = ("name", "paths", "as_is", "normalizers")
    sources = [{"reader": "text"} | {key: table[key] for key in keys if key in table} for table in tables]
    recipe = decode_recipe({"name": "all", "corpus": {"sources": sources, "segmenter": "spaces"}})
    folder = tmp_path_factory.mktemp("corpus")
    build(recipe, folder, Local(1), SilentProgress())
    return Corpus(folder)


def of_corpus(corpus: Corpus, tables: list[dict[str, Any]], held_out: Sequence[str] = ()) -> SourcesTrainingData:
    sources = tokenizer_config({"sources": tables}, "test").source_list
    return SourcesTrainingData("all", sources, lambda: corpus, Path("unused"), held_out)


def test_sources_of_a_corpus_are_counted_each_for_itself(corpus: Corpus, tmp_path: Path) -> None:
    tables = [{"name": "ja"}, {"name": "rest", "corpus_sources": ["en", "code"], "segmenter": "none"}]
    config = tokenizer_config({"sources": tables, "vocab_size": 380, "model": "byte-bpe"}, "test")
    card = train(of_corpus(corpus, tables), config, tmp_path / "t", Local(1), SilentProgress())
    assert card.counts["units.counted.ja"] == 33  # the words of the corpus
    assert card.counts["units.counted.rest"] > 100  # "(" is a unit of raw text, and not a word
    assert card.figures["share.ja"] == pytest.approx(0.5, rel=1e-3)
    assert card.normalizers == [] and [source["name"] for source in card.sources] == ["ja", "en", "code"]
    pack(corpus, tmp_path / "t", DatasetConfig(validation=0), tmp_path / "dataset", Local(1), SilentProgress())
    path = tokenizer_config({"sources": [{"name": "all", "corpus": str(corpus.folder)}]}, "test").source_list
    assert len(SourcesTrainingData("all", path, no_corpus, Path("unused")).sources) == 3


def test_unknown_and_held_out_sources_are_refused(corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match="the corpus has no source 'zh'"):
        of_corpus(corpus, [{"name": "zh"}])
    with pytest.raises(ConfigError, match="'ja' is held out"):
        of_corpus(corpus, [{"name": "ja"}], held_out=["ja"])


def test_a_source_without_text_is_refused(tables: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(ConfigError, match="this source has no text"):
        trained(tmp_path / "out", [tables[0], {"name": "empty", "paths": [str(tmp_path / "empty.txt")]}])


def test_the_card_names_no_place(models: dict[str, Path], tables: list[dict[str, Any]]) -> None:
    card = (models["bpe"] / "card.json").read_text(encoding="utf-8")
    assert str(Path(tables[0]["paths"][0]).parent) not in card
    assert '"weight":3.0' in card or '"weight": 3.0' in card


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sources": [{"name": "a"}, {"name": "a"}]}, "two sources are called 'a'"),
        ({"sources": [{"name": "a", "weight": 0}]}, "cannot be a weight"),
        ({"sources": [{"name": "a/b"}]}, "cannot be called"),
        ({"sources": [{"name": "a", "paths": ["x"], "corpus": "y"}]}, "`corpus` does not apply"),
        ({"sources": [{"name": "a", "normalizers": ["nfkc"]}]}, "`normalizers` does not apply"),
        ({"sources": [{"name": "a", "segmenter": "pointwise"}]}, "not segmented again"),
        ({"sources": [{"name": "a", "paths": ["x"], "as_is": True, "normalizers": ["nfkc"]}]}, "keeps its text"),
        ({"sources": [{"name": "a"}], "boundaries": "super"}, "sources are for"),
        ({"sources": [{"name": "a"}], "min_frequency": 2}, "min_frequency has no meaning"),
        ({"sources": [{"name": "a", "paths": ["x"], "segmenter": "spaces"}], "boundaries": "none"}, "ignores"),
    ],
)
def test_impossible_sources_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tokenizer_config(changes, "test")
