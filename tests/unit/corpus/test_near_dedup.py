"""Near-duplicates: signatures against the exact share of common n-grams, clusters against a naive implementation."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.api import Corpus
from jprep.corpus.config import NearConfig
from jprep.corpus.dedup import hashes as hash_files
from jprep.corpus.dedup.near import clusters
from jprep.corpus.dedup.near import signatures as signature_writer
from jprep.corpus.dedup.near.ngrams import comparable, ngram_hashes
from jprep.corpus.dedup.near.pairs import pair_type
from jprep.corpus.dedup.near.signatures import band_keys, signatures
from jprep.corpus.document import Document
from jprep.errors import ConfigError, MachineError
from tests.fakes.dedup_corpus import build_deduplicated

pytestmark = pytest.mark.usefixtures("many_parts")

LETTERS = list(
    "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわん日本語文字列東西南北山川海"
)


def text(seed: int, length: int = 400) -> str:
    return "".join(np.random.default_rng(seed).choice(LETTERS, length))


def edited(original: str, seed: int, changes: int) -> str:
    rng = np.random.default_rng(seed)
    characters = list(original)
    for place in rng.choice(len(characters), changes, replace=False):
        characters[place] = rng.choice(LETTERS)
    return "".join(characters)


def jaccard(first: str, second: str) -> float:
    codes = ["".join(map(chr, comparable(document))) for document in (first, second)]
    a, b = ({each[place : place + 5] for place in range(len(each) - 4)} for each in codes)
    return len(a & b) / len(a | b)


def build(folder: Path, documents: Sequence[str], workers: int = 1, **near: Any) -> Corpus:
    """Build a corpus from files of four documents."""
    return build_deduplicated(folder, [{"text": each} for each in documents], 4, workers, dedup={"near": near})


def test_signatures_estimate_the_share_of_common_ngrams() -> None:
    config = NearConfig(bands=16, rows=16)
    pairs = [(text(seed), edited(text(seed), seed, seed % 40 + 1)) for seed in range(120)]
    first, second = (signatures([comparable(pair[side]) for pair in pairs], config) for side in (0, 1))
    errors = (first == second).mean(axis=1) - np.array([jaccard(*pair) for pair in pairs])
    assert abs(errors.mean()) < 0.01
    assert errors.std() < 1.3 * (0.25 / 256) ** 0.5


def test_spaces_punctuation_case_and_width_do_not_count() -> None:
    config = NearConfig()
    one, other = comparable("ＡＢＣ の 日本語、「テスト」です。"), comparable("abcの日本語テストです")
    assert (band_keys(signatures([one], config), config)[0] == band_keys(signatures([other], config), config)[0]).all()


@given(st.lists(st.text(max_size=12), max_size=6), st.integers(1, 6))
def test_hashes_are_those_of_each_text_alone(texts: list[str], size: int) -> None:
    codes = [comparable(each) for each in texts]
    hashes, starts = ngram_hashes(codes, size)
    assert len(starts) == len(texts) + 1
    for number, alone in enumerate(codes):
        expected = ngram_hashes([alone], size)[0].tolist()
        assert hashes[int(starts[number]) : int(starts[number + 1])].tolist() == expected
        assert len(expected) == max(0, len(alone) - size + 1)


@pytest.mark.parametrize("length", [63, 64, 65, 100, 1000])
def test_a_long_text_hashed_in_pieces_has_the_same_keys(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [Document("a", "s", "", "", each) for each in (text(1, 20), text(2, length), text(3, 20))]
    written = list[bytes]()
    for batch in (1 << 16, 32):
        monkeypatch.setattr(signature_writer, "_BATCH", batch)
        writer = signature_writer.BandKeyWriter(NearConfig())
        for doc in documents:
            writer.add(doc)
        writer.flush()
        written.append(np.sort(np.frombuffer(bytes(writer._records), "S24")).tobytes())
    assert written[0] == written[1]


@pytest.mark.parametrize(
    "hostile", ["", "あ" * 1_000_000, "\0" * 100, "\ud800あいうえお", "👨\u200d👩" * 1000, "。" * 9]
)
def test_hostile_documents_have_keys_of_their_own(hostile: str) -> None:
    writer = signature_writer.BandKeyWriter(NearConfig())
    for doc in (hostile, text(1), hostile):
        writer.add(Document("a", "s", "", "", doc))
    writer.flush()
    records = np.frombuffer(bytes(writer._records), hash_files.record_type())
    keys = [{(each["high"], each["low"]) for each in records[records["row"] == row]} for row in range(3)]
    assert keys[0] == keys[2] and not keys[0] & keys[1] and len(keys[1]) == 14


def test_near_duplicates_are_dropped_with_a_reason(tmp_path: Path) -> None:
    documents = [text(1), text(2), edited(text(1), 7, 3), text(3), text(1), edited(text(2), 8, 200)]
    corpus = build(tmp_path / "a", documents)
    assert [doc.id for doc in corpus] == ["s:0", "s:1", "s:3", "s:5"]
    assert [(each.id, each.step, each.reason) for each in corpus.rejects()] == [
        ("s:2", "dedup.near", "near_duplicate"),
        ("s:4", "dedup.documents", "duplicate"),
    ]
    [first, *others] = corpus
    assert first.meta == {"near_cluster": "0:0", "near_size": "3"}
    assert all(doc.meta == {} for doc in others)
    assert list(corpus.verify()) == []


def test_documents_without_ngrams_are_compared_exactly(tmp_path: Path) -> None:
    corpus = build(tmp_path / "a", ["はい。", "はい", "いいえ", "！", "？", "はいは"])
    assert [doc.text for doc in corpus] == ["はい。", "いいえ", "！", "？", "はいは"]


def test_the_longest_document_stays(tmp_path: Path) -> None:
    documents = [text(1), text(1) + "。", text(2), text(1) + "追加の語です"]
    assert [doc.id for doc in build(tmp_path / "a", documents, keep="longest")] == ["s:2", "s:3"]


def scored(folder: Path, scores: Sequence[str | None], **changes: Any) -> Corpus:
    """Build a corpus of near-duplicates with scores in `meta`, each in a file of its own."""
    texts = ({"text": edited(text(1), number, 2)} for number in range(len(scores)))
    records = [row if score is None else row | {"score": score} for row, score in zip(texts, scores, strict=True)]
    near = {"keep": "best", "score": "score"} | changes.pop("near", {})
    return build_deduplicated(folder, records, 1, dedup={"near": near}, **changes)


def test_the_document_with_the_best_score_stays(tmp_path: Path) -> None:
    corpus = scored(tmp_path / "a", ["-1.5", "0.25", None, "0.75", "0.75", "many", "nan"])
    assert [doc.id for doc in corpus] == ["s:3"]
    assert corpus.manifest.counts["dedup.near.without_score"] == 3
    assert [doc.id for doc in scored(tmp_path / "b", [None, "-2", None])] == ["s:1"]
    assert [doc.id for doc in scored(tmp_path / "c", [None, None])] == ["s:0"]


def test_a_score_that_no_document_has_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scored(tmp_path / "a", ["1", None])
    assert not caplog.messages
    scored(tmp_path / "b", ["1", "2"], near={"score": "scores"})
    assert caplog.messages == [
        "no document has the signal or field of meta 'scores' (key corpus.dedup.near.score): "
        "the first of each group was kept"
    ]


def test_a_signal_can_be_the_score(tmp_path: Path) -> None:
    signals: dict[str, Any] = {"signals": ["characters"], "near": {"score": "hiragana_share"}}
    corpus = scored(tmp_path / "a", [None] * 5, **signals)
    shares = [sum("ぁ" <= c <= "ゖ" for c in edited(text(1), n, 2)) / len(edited(text(1), n, 2)) for n in range(5)]
    assert [doc.id for doc in corpus] == [f"s:{int(np.argmax(shares))}"]


@pytest.mark.parametrize("near", [{"keep": "best", "score": ""}, {"keep": "first", "score": "score"}])
def test_best_and_score_need_each_other(tmp_path: Path, near: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="need each other"):
        scored(tmp_path / "a", ["1"], near=near)


def test_the_score_is_part_of_the_fingerprint_only_if_it_is_used(tmp_path: Path) -> None:
    plain, best = build(tmp_path / "a", [text(1)]), scored(tmp_path / "b", ["1"])
    assert "score" not in plain.manifest.made_from["documents"]["dedup"]["near"]
    assert best.manifest.made_from["documents"]["dedup"]["near"]["score"] == "score"


def test_documents_can_be_marked_only(tmp_path: Path) -> None:
    documents = [text(2), text(1), edited(text(1), 7, 3)]
    corpus = build(tmp_path / "a", documents, drop=False)
    assert [doc.meta.get("near_cluster") for doc in corpus] == [None, "0:1", "0:1"]


@given(st.integers(0, 10_000), st.integers(2, 14))
def test_joining_pairs_gives_the_connected_components(seed: int, number: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, number, (rng.integers(0, 12), 2))
    parents, naive = np.arange(number, dtype=np.uint32), list(range(number))
    for part in np.array_split(pairs, 3):
        clusters.join(parents, part[:, 0], part[:, 1])
    clusters.flatten(parents)
    for _ in range(number):
        for a, b in pairs.tolist():
            naive[a] = naive[b] = min(naive[a], naive[b])
    assert parents.tolist() == naive


@pytest.mark.parametrize("order", ["forward", "backward", "shuffled"])
def test_long_chains_are_one_cluster(order: str) -> None:
    number = 20_000
    forward = np.arange(number - 1)
    shuffled = np.random.default_rng(1).permutation(forward)
    places = {"forward": forward, "backward": forward[::-1], "shuffled": shuffled}[order]
    parents = np.arange(number, dtype=np.uint32)
    for part in np.array_split(places, 50):
        clusters.join(parents, part, part + 1)
    clusters.flatten(parents)
    assert not parents.any()


@pytest.mark.parametrize("keep", ["first", "longest", "best"])
def test_memory_for_clusters_is_a_few_bytes_per_document(
    keep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "_CHUNK", 1000)
    number, score = 400_000, "score" if keep == "best" else ""
    pairs = np.zeros(1000, pair_type())
    pairs["row"], pairs["other_row"] = np.arange(1000) * 300, np.arange(1000) * 300 + 7
    ranks = np.zeros(number // 100, hash_files.rank_type(score))
    rank_files = [hash_files.write_records(tmp_path, f"x/ranks{part}", ranks) for part in range(100)]
    files = [hash_files.write_records(tmp_path, "x/pairs", pairs)]
    config = NearConfig(keep=keep, score=score)  # type: ignore[arg-type]
    stage = clusters.NearClusters(files, [number], [] if keep == "first" else rank_files, config, "out/")
    tracemalloc.start()
    [written] = stage.run(next(stage.tasks()), tmp_path).outputs
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert written.rows == 2000
    assert peak / number < {"first": 9, "longest": 17, "best": 21}[keep]


def test_clusters_are_the_components_of_equal_keys(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    documents = [edited(text(int(rng.integers(6)), 120), number, int(rng.integers(30))) for number in range(30)]
    config = NearConfig(bands=5, rows=3)
    keys = band_keys(signatures([comparable(each) for each in documents], config), config)[0]
    naive = list(range(30))
    for _ in range(30):
        for a in range(30):
            for b in range(30):
                if (keys[a] == keys[b]).any():
                    naive[a] = naive[b] = min(naive[a], naive[b])
    corpus = build(tmp_path / "a", documents, bands=5, rows=3)
    assert [int(doc.id[2:]) for doc in corpus] == sorted(set(naive))


def test_workers_do_not_change_the_bytes(tmp_path: Path) -> None:
    documents = [edited(text(number % 9, 200), number, number % 17) for number in range(40)]
    one = build(tmp_path / "one" / "same", documents, workers=1).manifest
    two = build(tmp_path / "two" / "same", documents, workers=2).manifest
    assert one.rejects["dedup.near/near_duplicate"] > 5
    assert one == two


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "rensa", None)
    with pytest.raises(MachineError, match="near-duplicates need rensa"):
        build(tmp_path / "a", ["あいうえお"])
