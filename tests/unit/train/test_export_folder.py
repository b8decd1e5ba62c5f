"""The directory of an exported model is replaced atomically, by one writer, and only if jprep wrote it."""

from __future__ import annotations

import functools
import threading
from pathlib import Path

import msgspec
import pytest

from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.errors import ConfigError, JprepError, MachineError
from jprep.io.lock import hold_lock
from jprep.train.exporting import output_folder as folder_of_exports
from jprep.train.exporting.manifest import FORMAT, MANIFEST, ModelExportManifest, write_export
from jprep.train.exporting.output_folder import atomic_export, file_hashes

ABOUT = ModelExportManifest(
    jprep="0.1.0", format=FORMAT, name="run", task="mlm", backend="numpy", step=1, dtype="fp32", parameters=1,
    special=SpecialIds(vocab_size=1), end=-1, files={},
)  # fmt: skip


def finish(folder: Path) -> None:
    """Write the manifest of an export with the existing files."""
    write_export(folder, msgspec.structs.replace(ABOUT, files=file_hashes(folder)))


def test_two_exports_to_one_folder_wait_for_one_another(tmp_path: Path) -> None:
    """Regression: the lock was inside the renamed folder, so that a second export found no folder to lock."""
    out, inside, leave = tmp_path / "out", threading.Event(), threading.Event()

    def fill(name: str) -> None:
        with atomic_export(out) as new:
            (new / name).write_text(name)
            finish(new)
            inside.set()
            leave.wait(600)

    first = threading.Thread(target=fill, args=("first",))
    first.start()
    assert inside.wait(600)
    second = threading.Thread(target=fill, args=("second",))
    second.start()
    leave.set()
    first.join()
    second.join()
    assert {path.name for path in out.iterdir()} == {"second", MANIFEST}
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_an_export_beside_a_running_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_of_exports, "hold_lock", functools.partial(hold_lock, timeout=0.1))
    with atomic_export(tmp_path / "out") as new:
        with pytest.raises(MachineError, match="another jprep is running") as caught, atomic_export(tmp_path / "out"):
            raise AssertionError("not reached")
        assert caught.value.where == str(tmp_path / "out")
        finish(new)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_export_through_a_link_replaces_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk/out")
    (tmp_path / "disk" / "out").mkdir()
    with atomic_export(tmp_path / "link") as new:
        finish(new)
    assert (tmp_path / "link").is_symlink()
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["out"]


def test_an_export_killed_between_two_renames_is_restored(tmp_path: Path) -> None:
    old = tmp_path / "partial-out" / "old"
    old.mkdir(parents=True)
    (tmp_path / "partial-out" / ".lock").touch()
    finish(old)
    with pytest.raises(JprepError, match="died"), atomic_export(tmp_path / "out"):
        raise JprepError("died")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / MANIFEST).exists()


def test_a_sibling_folder_of_the_user_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "partial-out").mkdir()
    (tmp_path / "partial-out" / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="files that jprep did not write"), atomic_export(tmp_path / "out"):
        raise AssertionError("not reached")
    assert (tmp_path / "partial-out" / "thesis.tex").exists() and not (tmp_path / "out").exists()
