"""S3 and Google Cloud Storage: objects, inputs of a corpus, and errors, while 5 % of the requests fail."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jprep.errors import ConfigError, DamagedError, MachineError
from jprep.io.remote import (
    check_writable,
    delete_object,
    download_file,
    join_url,
    list_objects,
    read_bytes,
    upload_file,
    upload_folder,
    write_bytes,
)
from tests.conftest import Run, digests, environment
from tests.remote.conftest import Store

pytestmark = pytest.mark.backends


def test_objects_are_written_listed_read_and_deleted(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.use(monkeypatch)
    url, data = join_url(store.url, "objects"), os.urandom(6 << 20)  # more than one part of an upload
    sha256 = hashlib.sha256(data).hexdigest()
    (tmp_path / "large").write_bytes(data)
    check_writable(url)
    upload_file(tmp_path / "large", join_url(url, "a", "large"), sha256)
    write_bytes("日本".encode(), join_url(url, "b"))
    assert list_objects(url) == {"a/large": len(data), "b": 6}
    download_file(join_url(url, "a", "large"), tmp_path / "back", sha256)
    assert (tmp_path / "back").read_bytes() == data
    with pytest.raises(DamagedError, match="not what was written"):
        download_file(join_url(url, "b"), tmp_path / "b", sha256)
    delete_object(join_url(url, "b"))
    assert read_bytes(join_url(url, "b")) is None and list_objects(join_url(store.url, "none")) == {}


def test_many_requests_succeed_although_some_fail(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.use(monkeypatch)
    for number in range(30):
        (tmp_path / f"{number}").write_bytes(b"x" * number)
    failed = store.faults.failed
    upload_folder(tmp_path, join_url(store.url, "many"), digests(tmp_path))
    assert list_objects(join_url(store.url, "many")) == {f"{number}": number for number in range(30)}
    assert store.faults.failed > failed


def test_what_another_process_has_written_is_seen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """File systems remember listings."""
    store.use(monkeypatch)
    url = join_url(store.url, "others")
    write_bytes(b"1", join_url(url, "a"))
    assert list_objects(url) == {"a": 1} and read_bytes(join_url(url, "b")) is None
    code = f"from jprep.io.remote import write_bytes; write_bytes(b'22', {join_url(url, 'b')!r})"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment(**store.env))
    assert read_bytes(join_url(url, "b")) == b"22" and list_objects(url) == {"a": 1, "b": 2}


def test_a_missing_bucket_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.use(monkeypatch)
    wrong = store.url + "-wrong"
    with pytest.raises(ConfigError, match=f"there is no bucket {wrong}"):
        check_writable(join_url(wrong, "x"))


def test_missing_credentials_are_an_error_with_a_fix(
    s3_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_store.use(monkeypatch)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    import fsspec

    fsspec.filesystem("s3").clear_instance_cache()
    with pytest.raises(MachineError, match="there are no valid credentials for s3://") as raised:
        check_writable(join_url(s3_store.url, "x"))
    assert "AWS_ACCESS_KEY_ID" in raised.value.fix
    fsspec.filesystem("s3").clear_instance_cache()


def test_a_corpus_is_built_from_inputs_in_a_store(
    store: Store, tmp_path: Path, jprep: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.use(monkeypatch)
    texts = [f"これは{number}番目の文書です。とても短い文章ですが、読めます。" for number in range(200)]
    (tmp_path / "here").mkdir()
    for name, part in (("a.txt", texts[:100]), ("b.txt.gz", texts[100:])):
        data = "\n\n".join(part).encode()
        (tmp_path / "here" / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith("gz") else data)
        upload_file(tmp_path / "here" / name, join_url(store.url, "inputs", name))
    for out, pattern in (("local", tmp_path / "here" / "*"), ("remote", join_url(store.url, "inputs", "*"))):
        options = ("--segmenter", "none", "--workers", 1, "-o", tmp_path / out)
        jprep("corpus", "build", "--text", pattern, *options, env=store.env)
    assert digests(tmp_path / "local") == digests(tmp_path / "remote")
