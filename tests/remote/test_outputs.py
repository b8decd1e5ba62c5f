"""A corpus and a tokenizer go through a store that fails now and then, and a killed upload resumes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from jprep.io.remote import join_url, list_objects, read_bytes
from tests.conftest import COMMAND, PATIENCE, Run, environment
from tests.fakes.small_run import await_true
from tests.remote.conftest import Store

pytestmark = pytest.mark.backends

FILES = 24


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    (tmp_path / "texts").mkdir()
    for number in range(FILES):
        text = "".join(f"これは{number}番目の文書の{line}行目です。\n" for line in range(9))
        (tmp_path / "texts" / f"{number:02d}.txt").write_text(text, encoding="utf-8")
    return tmp_path


def test_outputs_go_through_a_store(store: Store, texts: Path, jprep: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    store.use(monkeypatch)
    env = store.env | {"JPREP_CACHE": str(texts / "cache")}
    corpus, tokenizer = join_url(store.url, "out", "corpus"), join_url(store.url, "out", "tokenizer")
    options = ("--workers", 1, "-o")
    source = ("--text", "texts/*.txt", "--segmenter", "none")
    said = jprep("corpus", "build", *source, *options, corpus, cwd=texts, env=env).stderr
    assert f"uploaded to {corpus}" in said
    learn = ("--vocab-size", 300, "--boundaries", "none")
    jprep("tokenizer", "train", corpus, *learn, *options, tokenizer, cwd=texts, env=env)
    assert {"corpus.json"} < set(list_objects(corpus)) and {"card.json"} < set(list_objects(tokenizer))
    stats = jprep("corpus", "stats", corpus, "--json", cwd=texts, env=env).stdout
    assert json.loads(stats)["totals"]["documents"] == FILES
    wrong = f"{store.url}-wrong/corpus"
    said = jprep("corpus", "build", *source, "--work", "other", *options, wrong, cwd=texts, env=env, code=2).stderr
    assert f"there is no bucket {store.url}-wrong" in said and not (texts / "other").exists()


def test_a_killed_upload_leaves_nothing_finished_and_resumes(
    s3_store: Store, texts: Path, jprep: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_store.use(monkeypatch)
    jprep("corpus", "build", "--text", "texts/*.txt", "--segmenter", "none", "--workers", 1, "-o", "c", cwd=texts)
    url = join_url(s3_store.url, "lines")
    command = ["corpus", "export", "c", "--lines-per-file", "1", "--workers", "1", "-o", url]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(
        [COMMAND, *command], cwd=texts, env=environment(**s3_store.env), process_group=0, **pipes
    )
    await_true(lambda: len(list_objects(url)) > 40 or process.poll() is not None, PATIENCE)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    arrived = list_objects(url)
    assert "export.json" not in arrived and ".jprep-upload.json" in arrived
    jprep(*command, cwd=texts, env=s3_store.env)
    files = json.loads(read_bytes(join_url(url, "export.json")) or b"")["files"]
    assert set(list_objects(url)) == {"export.json", *(file["path"] for file in files)}
