"""The signal `fasttext`, with a model that is written here."""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jprep.corpus.config import make_step
from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.errors import ConfigError, InputError, MachineError

WORDS = {"これは": (4.0, 0.0), "本です": (4.0, 0.0), "这是": (0.0, 4.0), "书": (0.0, 4.0)}
LABELS = {"__label__ja": (1.0, 0.0), "__label__zh": (0.0, 1.0)}


def write_model(path: Path, labels: Mapping[str, tuple[float, float]] = LABELS) -> Path:
    """Write a supervised model of two dimensions: words as vectors, and a softmax over the labels."""
    args = (2, 5, 1, 1, 5, 1, 3, 3, 0, 0, 0, 100)  # dim … loss = softmax, model = supervised, no hashed n-grams
    content = struct.pack("<ii12id", 793712314, 12, *args, 1e-4)
    content += struct.pack("<iiiqq", len(WORDS) + len(labels), len(WORDS), len(labels), 10, -1)
    for kind, entries in enumerate((WORDS, labels)):
        content += b"".join(entry.encode() + b"\0" + struct.pack("<qb", 1, kind) for entry in entries)
    for matrix in (WORDS, labels):
        content += struct.pack("<?qq", False, len(matrix), 2)
        content += b"".join(struct.pack("<ff", *row) for row in matrix.values())
    path.write_bytes(content)
    return path


def _measure(model: Path, texts: list[str], **options: Any) -> dict[str, np.ndarray]:
    pytest.importorskip("fasttext")
    signal = make_step("signal", {"use": "fasttext", "model": str(model), "labels": ["ja", "zh"], **options})
    docs = [Document(id=str(number), source="s", title="", url="", text=text) for number, text in enumerate(texts)]
    return dict(signal.measure(TextBatch(docs)))


def test_the_probabilities_of_labels_are_columns(tmp_path: Path) -> None:
    found = _measure(write_model(tmp_path / "m.bin"), ["これは 本です", "这是 书", "これは\n书"])
    sure = 1 / (1 + np.exp(-4))
    assert list(found) == ["fasttext_ja_score", "fasttext_zh_score"]
    assert found["fasttext_ja_score"] == pytest.approx([sure, 1 - sure, 0.5], abs=1e-3)
    assert found["fasttext_zh_score"] == pytest.approx([1 - sure, sure, 0.5], abs=1e-3)


def test_labels_may_have_their_prefix(tmp_path: Path) -> None:
    found = _measure(write_model(tmp_path / "m.bin"), ["これは"], labels=["__label__zh"])
    assert list(found) == ["fasttext_zh_score"]


def test_only_the_beginning_of_a_text_is_looked_at(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.bin")
    assert _measure(model, ["これは 书 书 书"], max_chars=3)["fasttext_ja_score"][0] > 0.9
    assert _measure(model, ["これは 书 书 书"], max_chars=0)["fasttext_ja_score"][0] < 0.5


def test_white_space_has_no_score_and_a_lone_surrogate_has_one(tmp_path: Path) -> None:
    found = _measure(write_model(tmp_path / "m.bin"), ["", " \n\u3000", "これは \ud800"])
    assert np.isnan(found["fasttext_ja_score"][:2]).all()
    assert found["fasttext_ja_score"][2] > 0.9


def test_no_documents_have_no_scores(tmp_path: Path) -> None:
    assert [len(values) for values in _measure(write_model(tmp_path / "m.bin"), []).values()] == [0, 0]


def test_a_label_that_the_model_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no label 'ko'"):
        _measure(write_model(tmp_path / "m.bin"), ["これは"], labels=["ko"])


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"hello, this is no model", struct.pack("<ii", 793712314, 99)])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.bin").write_bytes(content)
    with pytest.raises(InputError, match="fastText's format"):
        _measure(tmp_path / "m.bin", ["これは"])


def test_a_truncated_model_is_refused(tmp_path: Path) -> None:
    whole = write_model(tmp_path / "m.bin").read_bytes()
    for size in range(8, len(whole)):
        (tmp_path / "m.bin").write_bytes(whole[:size])
        with pytest.raises(InputError, match="truncated or damaged"):
            _measure(tmp_path / "m.bin", ["これは"])


def test_a_missing_model_and_missing_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        _measure(tmp_path / "none.bin", ["これは"])
    with pytest.raises(ConfigError, match="needs a model and labels"):
        make_step("signal", {"use": "fasttext", "model": "m.bin"})


def test_the_model_enters_the_fingerprint_and_its_path_does_not(tmp_path: Path) -> None:
    pytest.importorskip("fasttext")
    paths = [write_model(tmp_path / name) for name in ("a.bin", "b.bin", "c.bin")]
    paths[2].write_bytes(paths[2].read_bytes() + b"x")
    keys = [make_step("signal", {"use": "fasttext", "model": str(path), "labels": ["ja"]}).key for path in paths]
    assert keys[0] == keys[1] != keys[2]


def test_a_missing_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fasttext", None)
    signal = make_step("signal", {"use": "fasttext", "model": str(write_model(tmp_path / "m.bin")), "labels": ["ja"]})
    with pytest.raises(MachineError) as caught:
        signal.provenance()
    assert caught.value.fix == "pip install 'jprep[fasttext]'"


def test_the_preset_of_fineweb2_takes_a_model(tmp_path: Path) -> None:
    pytest.importorskip("fasttext")
    model = write_model(tmp_path / "m.bin", {"__label__jpn_Jpan": (1.0, 0.0), "__label__zho_Hans": (0.0, 1.0)})
    files = {"language_score": str(model)}
    step = make_step("filter", {"preset": "fineweb2-ja", "files": files})
    assert step.not_run == ["words"]
    texts = ["これは 本です。", "这是 书。"]
    docs = [Document(id=text, source="s", title="", url="", text=text, words=text) for text in texts]
    assert [verdict.reason for verdict in step.judge_all(TextBatch(docs))] == ["", "fasttext_jpn_Jpan_score"]
