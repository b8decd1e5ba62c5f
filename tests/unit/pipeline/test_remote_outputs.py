"""Finished outputs are uploaded to URLs with the manifest last, and downloaded as inputs of the next step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import fsspec
import pytest

from jprep.cli.common.remote_output import Url, local_file
from jprep.cli.main import cli
from jprep.corpus.api import Corpus
from jprep.errors import ConfigError, DamagedError, MismatchError
from jprep.io.remote import list_objects, read_bytes, write_bytes
from jprep.io.remote import retry as retry_module
from jprep.pipeline.remote.download import download_output
from jprep.pipeline.remote.manifests import CORPUS, DATASET, read_remote_output
from jprep.pipeline.remote.upload import check_destination, upload_output
from tests.conftest import digests
from tests.fakes.small_work import small_work
from tests.fakes.trained_run import trained_run

URL, SMALLER = "memory://bucket/corpus-1.0", "memory://bucket/smaller"


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Give the file system in memory, empty, and a cache of downloads."""
    monkeypatch.setattr(retry_module, "PAUSES", (0.0,))
    monkeypatch.setenv("JPREP_CACHE", str(tmp_path / "cache"))
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def call(*words: object) -> None:
    cli.main([*map(str, words)], standalone_mode=False)


def visible(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in digests(folder).items() if not name.startswith(".")}


def text_files(folder: Path) -> Path:
    folder.mkdir()
    for number in range(3):
        text = "\n\n".join(f"これは{number}の{line}番目の文書です。" for line in range(20))
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a folder with a recipe's finished tokenizer and dataset."""
    small_work(tmp_path)
    return tmp_path / "work" / "small"


def test_the_outputs_of_all_steps_go_through_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text_files(tmp_path / "texts")
    options = ("--workers", 1, "-o")
    build = ("corpus", "build", "--text", "texts/*.txt", "--segmenter", "none", *options)
    call(*build, URL)
    call(*build, "local")
    [made] = (tmp_path / "work").glob("*/corpus")
    assert visible(made) == visible(tmp_path / "local") and set(list_objects(URL)) == set(visible(made))
    call(*build, URL)  # nothing is built or sent again
    train = ("tokenizer", "train", URL, "--vocab-size", 300, "--boundaries", "none", *options)
    call(*train, "out", "--dry-run")
    assert "3 documents" in capsys.readouterr().out and not (tmp_path / "cache").exists()  # only the manifest is read
    call(*train, "memory://bucket/tokenizer")
    tokenizer = download_output("memory://bucket/tokenizer")
    assert set(list_objects("memory://bucket/tokenizer")) == set(visible(tokenizer))
    call(
        "dataset",
        "pack",
        URL,
        "--tokenizer",
        "memory://bucket/tokenizer",
        "--set",
        "dataset.validation=0",
        *options,
        "memory://bucket/dataset",
    )
    call("tokenizer", "train", URL, "--vocab-size", 290, "--boundaries", "none", "--work", "other", *options, SMALLER)
    call("tokenizer", "evaluate", "memory://bucket/tokenizer", "--against", SMALLER, URL)
    inspect = ("dataset", "inspect", "memory://bucket/dataset", "--token", 9)
    call(*inspect, "--corpus", URL, "--tokenizer", "memory://bucket/tokenizer")
    call("dataset", "export", "memory://bucket/dataset", "--format", "tfrecord", "-o", "memory://bucket/records")
    call("tokenizer", "export", "memory://bucket/tokenizer", "--format", "sentencepiece", "-o", "memory://bucket/spm")
    call("corpus", "export", URL, "-o", "memory://bucket/corpus.txt")
    call("corpus", "export", URL, "--lines-per-file", 7, *options, "memory://bucket/lines")
    assert read_remote_output("memory://bucket/lines").kind.name == "corpus export"
    found = set(list_objects("memory://bucket"))
    assert {"dataset/dataset.json", "records/export.json", "spm/spm.model", "spm/spm.vocab", "corpus.txt"} <= found
    assert not [name for name in found if "probe" in name or "upload" in name]
    assert "memory://bucket/records/export.json" in capsys.readouterr().out
    assert (read_bytes("memory://bucket/corpus.txt") or b"").decode().count("番目の文書です。") == 60
    manifest = read_remote_output("memory://bucket/records")
    assert manifest.kind.name == "dataset export" and all(f"records/{name}" in found for name in manifest.files)


@pytest.mark.parametrize("url", ["memory://bucket", "memory://bucket/", "memory://bucket/text/"])
def test_a_file_needs_the_name_of_an_object(url: str) -> None:
    with pytest.raises(click.UsageError, match="give the URL of an object"), local_file(Url(url)):
        pass


@pytest.mark.backends
def test_a_model_export_goes_to_a_store(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    call("export", run, "-o", "memory://bucket/model")
    call("export", run, "-o", tmp_path / "here")
    copy = download_output("memory://bucket/model")
    assert digests(copy) == digests(tmp_path / "here") and not (run / "export").exists()


def test_a_missing_or_damaged_object_is_named_by_the_next_step(work: Path) -> None:
    upload_output(work / "dataset", URL, DATASET, replace=False)
    name = next(iter(read_remote_output(URL).files))
    data = bytearray(read_bytes(f"{URL}/{name}") or b"")
    data[-1] ^= 1
    write_bytes(bytes(data), f"{URL}/{name}")
    with pytest.raises(DamagedError) as raised:
        download_output(URL)
    assert raised.value.where == f"{URL}/{name}"


def test_an_interrupted_upload_does_not_look_finished_and_resumes(
    work: Path, monkeypatch: pytest.MonkeyPatch, store: Any
) -> None:
    sent: list[str] = []
    real = type(store).put_file

    def put_file(self: Any, path: str, target: str, **options: Any) -> None:
        if len(sent) == 2:
            raise PermissionError("revoked")
        sent.append(Path(path).name)
        real(self, path, target, **options)

    with monkeypatch.context() as broken:
        broken.setattr(type(store), "put_file", put_file)
        with pytest.raises(Exception, match="revoked"):
            upload_output(work / "dataset", URL, DATASET, replace=False)
    with pytest.raises(ConfigError, match="no finished output"):
        download_output(URL)
    check_destination(URL, DATASET)
    upload_output(work / "dataset", URL, DATASET, replace=False)
    assert digests(download_output(URL)) == {
        name: digest for name, digest in visible(work / "dataset").items() if name in list_objects(URL)
    }


def test_exports_of_a_tokenizer_are_finished_when_their_manifest_is_there(
    work: Path, monkeypatch: pytest.MonkeyPatch, store: Any
) -> None:
    def export(form: str) -> None:
        call("tokenizer", "export", work / "tokenizer", "--format", form, "-o", "memory://bucket/words")

    export("fairseq")
    real = type(store).put_file

    def put_file(self: Any, path: str, target: str, **options: Any) -> None:
        if path.endswith("spm.vocab"):
            raise PermissionError("revoked")
        real(self, path, target, **options)

    with monkeypatch.context() as broken:
        broken.setattr(type(store), "put_file", put_file)
        with pytest.raises(Exception, match="revoked"):
            export("sentencepiece")
    with pytest.raises(ConfigError, match="no finished output"):
        read_remote_output("memory://bucket/words")
    export("fairseq")
    export("sentencepiece")
    found = read_remote_output("memory://bucket/words")
    assert (found.kind.name, set(found.files)) == ("tokenizer export", {"dict.txt", "spm.model", "spm.vocab"})
    assert set(list_objects("memory://bucket/words")) == {"export.json", *found.files}
    with pytest.raises(ConfigError, match="another output at this URL: a tokenizer export"):
        check_destination("memory://bucket/words", CORPUS)


def test_other_objects_and_other_outputs_are_refused_before_any_work(work: Path) -> None:
    upload_output(work / "dataset", URL, DATASET, replace=False)
    with pytest.raises(ConfigError, match="there is another output at this URL: a dataset"):
        check_destination(URL, CORPUS)
    write_bytes(b"mine", "memory://bucket/mine/notes\n.txt")
    with pytest.raises(ConfigError, match=r"objects that jprep has not written: notes\\n\.txt"):
        check_destination("memory://bucket/mine", CORPUS)


def test_another_output_of_the_same_kind_is_replaced_on_request_only(tmp_path: Path) -> None:
    folders = []
    for number, name in enumerate(("a", "b")):
        recipe = tmp_path / name
        text_files(recipe)
        if number:
            (recipe / "0.txt").unlink()
        call(
            "corpus",
            "build",
            "--text",
            f"{recipe}/*.txt",
            "--segmenter",
            "none",
            "--workers",
            1,
            "-o",
            tmp_path / f"{name}-out",
        )
        folders.append(tmp_path / f"{name}-out")
    upload_output(folders[0], URL, CORPUS, replace=False)
    with pytest.raises(MismatchError, match="another corpus at this URL"):
        upload_output(folders[1], URL, CORPUS, replace=False)
    upload_output(folders[1], URL, CORPUS, replace=True)
    assert set(list_objects(URL)) == set(visible(folders[1]))
    assert len(list(Corpus(download_output(URL)))) == 2
