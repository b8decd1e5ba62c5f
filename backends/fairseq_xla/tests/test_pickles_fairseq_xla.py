"""Checkpoints of fairseq are pickles: only weights and options are read, and damage is reported."""

from __future__ import annotations

import argparse
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from native_training import state_of

from jprep.errors import ConfigError, InputError
from jprep_fairseq_xla.convert.__main__ import main
from jprep_fairseq_xla.convert.from_fairseq import from_fairseq
from jprep_fairseq_xla.convert.pickles import read_checkpoint


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {MARK}",)


MARK = "it-ran"


@pytest.mark.parametrize("old", [False, True])
def test_code_in_a_checkpoint_does_not_run(old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    state = {"model": {}, "cfg": {"model": argparse.Namespace(arch="roberta")}, "extra_state": Evil()}
    torch.save(state, "evil.pt", _use_new_zipfile_serialization=not old)
    with pytest.raises(InputError, match="system") as caught:
        read_checkpoint(Path("evil.pt"))
    assert "save what is needed" in caught.value.fix and not Path(MARK).exists()
    Path("bare.pt").write_bytes(pickle.dumps(Evil(), protocol=2))
    with pytest.raises(InputError, match="system"):
        read_checkpoint(Path("bare.pt"))
    assert not Path(MARK).exists()


def test_missing_extra_and_invalid_weights_are_refused(train_natively: Callable[..., Any], tmp_path: Path) -> None:
    hand = train_natively("roberta")
    base = "encoder.sentence_encoder."
    name = f"{base}layers.1.self_attn.k_proj.weight"

    def refused(change: Callable[[dict[str, Any]], Any], message: str) -> None:
        state = state_of(hand.checkpoint)
        change(state["model"])
        torch.save(state, tmp_path / "changed.pt")
        with pytest.raises((ConfigError, InputError), match=message):
            from_fairseq(tmp_path / "changed.pt", hand.tokenizer, tmp_path / "model")
        assert not (tmp_path / "model").exists()

    refused(lambda model: model.pop(name), "k_proj")
    refused(lambda model: model.pop(f"{base}embed_tokens.weight"), "embed_tokens")
    refused(lambda model: model.update({name: model[name][:3].clone()}), "k_proj.weight cannot be converted")
    refused(lambda model: model[name].fill_(float("nan")), "NaN or infinity")
    refused(
        lambda model: model.update({"encoder.adapter.weight": torch.zeros(2)}),
        "no counterpart of the tensor encoder.adapter",
    )
    refused(lambda model: model.update({"encoder.lm_head.weight": torch.zeros(409, 16)}), "differs from the input")
    refused(lambda model: model.update({"encoder.lm_head.bias": torch.zeros(7)}), "lm_head.bias cannot be converted")
    refused(lambda model: model.update({name: torch.tensor(1.0)}), "k_proj.weight cannot be converted")
    refused(lambda model: model.update({name: torch.zeros(1).expand(1 << 20, 1 << 20)}), "larger than the file")
    refused(lambda model: model.update({name: "weights"}), "not a tensor")
    refused(lambda model: model.update({name: torch.zeros(2, 2, device="meta")}), "not a tensor")
    refused(lambda model: model.update({f"{base}layers.{10**12}.fc1.bias": torch.zeros(2)}), "no counterpart")


def test_damaged_and_other_files_are_refused(train_natively: Callable[..., Any], tmp_path: Path) -> None:
    whole = train_natively("roberta").checkpoint.read_bytes()
    path = tmp_path / "one.pt"
    for data in (b"", b"text", whole[:-100], whole[: len(whole) // 2], b"PK\x05\x06" + bytes(18)):
        path.write_bytes(data)
        with pytest.raises(InputError, match="not a checkpoint of fairseq"):
            read_checkpoint(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(1 << 20))
    with pytest.raises(InputError, match="compressed"):
        read_checkpoint(path)
    for state in ([], {"model": []}, {"model": {}}, {"model": {}, "cfg": []}, {"model": {}, "cfg": {"model": 3}}):
        torch.save(state, path)
        with pytest.raises(InputError, match="not a checkpoint of fairseq"):
            read_checkpoint(path)
    with pytest.raises(ConfigError, match="cannot read"):
        read_checkpoint(tmp_path / "none.pt")
    assert main(["from-fairseq", str(path), "tokenizer", str(tmp_path / "model")]) == 4
