"""TPUs are detected by their device ids on the PCI bus."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.train.planning import host


def test_tpu_v2_and_v3_chips_have_two_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [("0x1ae0", "0x0063"), ("0x1ae0", "0x0027"), ("0x1ae0", "0x0042"), ("0x8086", "0x0063")]
    for place, (vendor, device) in enumerate(found):
        folder = tmp_path / str(place)
        folder.mkdir()
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "device").write_text(f"{device}\n")
    monkeypatch.setattr(host, "_PCI", tmp_path)
    assert host.tpu_count() == 1 + 2
    monkeypatch.setattr(host, "_PCI", tmp_path / "none")
    assert host.tpu_count() == 0
