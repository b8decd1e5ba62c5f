"""The signal `kenlm`, with a model that is written here."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jprep.corpus.config import make_step
from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.errors import ConfigError, InputError, MachineError

ARPA = """\\data\\
ngram 1=5
ngram 2=1

\\1-grams:
-2.0\t<unk>
0\t<s>\t-0.5
-1.0\t</s>
-0.5\t本\t-0.25
-0.75\t雨

\\2-grams:
-0.125\t本 雨

\\end\\
"""


def _measure(path: Path, texts: list[str], **options: Any) -> list[float]:
    pytest.importorskip("kenlm")
    docs = [Document(id="", source="s", title="", url="", text=text) for text in texts]
    signal = make_step("signal", {"use": "kenlm", "model": str(path), **options})
    found: list[float] = signal.measure(TextBatch(docs))["kenlm_bits"].tolist()
    return found


def _model(tmp_path: Path) -> Path:
    path = tmp_path / "model.arpa"
    path.write_text(ARPA, encoding="utf-8")
    return path


def test_bits_are_those_of_the_model(tmp_path: Path) -> None:
    known = (0.5 + 0.5) + 0.125 + 1.0  # 本 after the beginning, by backing off; 雨 after 本; the end
    lone = (0.75 + 0.5) + 1.0
    found = _measure(_model(tmp_path), ["本雨", "雨", "本雨\n\n雨"])
    decimal = [known / 3, lone / 2, (known + lone) / 5]
    assert found == pytest.approx([each * math.log2(10) for each in decimal], rel=1e-5)


def test_tokens_are_characters_or_what_spaces_separate(tmp_path: Path) -> None:
    characters, spaces = _measure(_model(tmp_path), ["本 雨"]), _measure(_model(tmp_path), ["本 雨"], tokens="spaces")
    assert characters == spaces == _measure(_model(tmp_path), ["本雨"])
    assert _measure(_model(tmp_path), ["本雨"], tokens="spaces") > spaces


def test_white_space_has_no_measure(tmp_path: Path) -> None:
    assert np.isnan(_measure(_model(tmp_path), ["", " \n"])).all()
    assert _measure(_model(tmp_path), []) == []


@pytest.mark.parametrize("content", ["", "text", ARPA[:60]])
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.arpa").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"model\.arpa"):
        _measure(tmp_path / "model.arpa", ["本"])


def test_a_missing_model_and_a_missing_library_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="needs a model"):
        make_step("signal", "kenlm")
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(MachineError) as caught:
        make_step("signal", {"use": "kenlm", "model": str(_model(tmp_path))}).provenance()
    assert caught.value.fix == "pip install 'jprep[kenlm]'"
