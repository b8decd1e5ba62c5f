"""S3 and Google Cloud Storage: objects, inputs of a corpus, and errors, while 5 % of the requests fail."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jprep import samples
from jprep.corpus.build import build
from jprep.engine.executors.local import Local
from jprep.engine.runner import SilentProgress
from jprep.engine.stage import Receipt
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
from jprep.pipeline.recipe import load_recipe
from tests.conftest import Run, digests, environment
from tests.fakes import compressed
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
    with pytest.raises(DamagedError, match="was changed or damaged"):
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


def test_a_corpus_of_dumps_in_a_store_has_the_same_bytes(
    s3_store: Store, tmp_path: Path, jprep: Run, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From bzip2, Parquet, gzip and xz in S3, and written to S3."""
    s3_store.use(monkeypatch)
    here, there = tmp_path / "here", join_url(s3_store.url, "dumps")
    write_inputs(here, sample)
    for path in here.iterdir():
        upload_file(path, join_url(there, path.name))
    failed = s3_store.faults.failed
    for place, out in ((here, ["local"]), (there, [join_url(s3_store.url, "built"), "--work", "work"])):
        (tmp_path / "recipe.toml").write_text(RECIPE.replace("PLACE", str(place)), encoding="utf-8")
        jprep("corpus", "build", "recipe.toml", "--workers", 2, "-o", *out, env=s3_store.env, cwd=tmp_path)
    (tmp_path / "local" / ".state" / "LOCK").unlink()
    built = {name: read_bytes(join_url(s3_store.url, "built", name)) or b"" for name in list_objects(str(out[0]))}
    assert {name: hashlib.sha256(built[name]).hexdigest() for name in built} == digests(tmp_path / "local")
    assert s3_store.faults.failed >= failed + 4  # each kind of failure


class Recorded(SilentProgress):
    """Records the tasks of each stage."""

    def __init__(self) -> None:
        self.tasks: dict[str, list[str]] = {}

    def begin(self, stage: str, total: int) -> None:
        self._tasks = self.tasks.setdefault(stage, [])

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        self._tasks.append(receipt.task)


def test_parts_of_an_xz_file_in_s3_are_searched_by_several_tasks(
    s3_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_store.use(monkeypatch)
    monkeypatch.setattr("jprep.corpus.stages.inputs.PART", 100_000)
    monkeypatch.setattr("jprep.corpus.readers.lines._SCANNED_SHARD", 0)
    (here := tmp_path / "here").mkdir()
    lines = [f"これは{number}番目の文書です。{os.urandom(200).hex()}\n".encode() for number in range(5_000)]
    pieces = [b"".join(lines[start : start + 250]) for start in range(0, len(lines), 250)]
    (here / "a.txt.xz").write_bytes(compressed.xz(pieces))
    upload_file(here / "a.txt.xz", there := join_url(s3_store.url, "parts", "a.txt.xz"))
    failed = s3_store.faults.failed
    for path, out in ((here / "a.txt.xz", "local"), (there, "remote")):
        (tmp_path / "recipe.toml").write_text(LINES.format(path), encoding="utf-8")
        with contextlib.closing(Local(2)) as executor:
            build(load_recipe(tmp_path / "recipe.toml"), tmp_path / out, executor, progress := Recorded())
        assert len(progress.tasks["cutting the inputs"]) > 5
    assert digests(tmp_path / "local") == digests(tmp_path / "remote")
    assert s3_store.faults.failed > failed


LINES = """
name = "lines"
[corpus]
segmenter = "none"
filters = []
dedup = {{ documents = false }}
[[corpus.sources]]
name = "lines"
reader = {{ use = "text", documents = "line", shard_mb = 1 }}
paths = ["{}"]
"""
PAGE = """<page><title>題{number}</title><ns>0</ns><id>{number}</id><revision><id>{number}</id>
<timestamp>2020-01-01T00:00:00Z</timestamp><model>wikitext</model><format>text/x-wiki</format>
<text xml:space="preserve">これは{number}番目の記事である。{text}</text></revision></page>
"""

RECIPE = """
name = "dumps"
[corpus]
segmenter = "none"
filters = []
dedup = { documents = false }
[[corpus.sources]]
name = "wiki"
reader = { use = "wikipedia", shard_mb = 1 }
paths = ["PLACE/*.xml.bz2"]
[[corpus.sources]]
name = "rows"
reader = { use = "parquet", shard_mb = 0.1 }
paths = ["PLACE/*.parquet"]
[[corpus.sources]]
name = "lines"
reader = { use = "text", documents = "line", shard_mb = 1 }
paths = ["PLACE/*.txt*"]
"""


def write_inputs(folder: Path, sample: Path) -> None:
    """Write a dump of several bzip2 blocks, a table of several row groups, and text in several compressions."""
    folder.mkdir()
    texts = [f"これは{number}番目の文書です。{zlib.crc32(b'%d' % number):x}" for number in range(40_000)]
    table = pa.table({"text": texts[:9000]})
    pq.write_table(table, folder / "a.parquet", row_group_size=3000)
    text = "\n".join(texts).encode()
    pieces = [text[start : start + 200_000] for start in range(0, len(text), 200_000)]
    (folder / "a.txt").write_bytes(text)
    (folder / "b.txt.gz").write_bytes(gzip.compress(text, 1, mtime=0))
    (folder / "c.txt.xz").write_bytes(compressed.xz(pieces))
    with bz2.open(sample / samples.DUMP) as file:
        pages = file.read()
    pieces = [PAGE.format(number=number, text=os.urandom(500).hex()) for number in range(1200)]
    dump = pages[: pages.index(b"<page>")] + "".join(pieces).encode() + b"</mediawiki>"
    (folder / "d.xml.bz2").write_bytes(bz2.compress(dump, 1))
