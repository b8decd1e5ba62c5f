"""The commands that look at a finished corpus, and the ones around it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from jprep import Corpus, samples
from jprep.corpus.document import SENTENCE, UNMARK
from tests.conftest import Run, digests


def test_export_writes_what_the_library_writes(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    docs = list(Corpus(corpus))
    for form in ("text", "words", "jsonl"):
        out = jprep("corpus", "export", corpus, "--format", form).stdout
        output = jprep("corpus", "export", corpus, "--format", form, "-o", tmp_path / form)
        assert (tmp_path / form).read_text() == out and output.stdout == ""
        assert output.stderr == f"wrote {len(docs)} documents to {tmp_path / form}\n"
    text, words = ((tmp_path / form).read_text() for form in ("text", "words"))
    assert text.count("\n\n") == len(docs) and text.endswith("\n\n")
    assert [line.replace(" ", "") for line in words.split("\n")] == [
        "".join(line.split()) for line in text.split("\n")
    ]  # fmt: skip
    assert text.split("\n")[0] == docs[0].words.replace(SENTENCE, "\n").translate(UNMARK).split("\n")[0]
    assert [json.loads(line)["words"] for line in (tmp_path / "jsonl").open()] == [doc.words for doc in docs]


def test_export_stops_at_its_limit(corpus: Path, jprep: Run) -> None:
    assert jprep("corpus", "export", corpus, "--format", "jsonl", "--limit", 2).stdout.count("\n") == 2


def test_stats(corpus: Path, jprep: Run) -> None:
    shown = jprep("corpus", "stats", corpus).stdout
    assert "reader.wikipedia/redirect" in shown and Corpus(corpus).manifest.signature in shown
    figures = json.loads(jprep("corpus", "stats", corpus, "--json").stdout)
    assert (figures["name"], figures["warnings"]) == ("quickstart", [])
    assert sum(figures["documents_by_source"].values()) == figures["totals"]["documents"]
    assert list(figures["documents_by_source"]) == ["sample", "web"] and "documents by source" in shown


def test_a_source_without_documents_is_named(tmp_path: Path, jprep: Run) -> None:
    (tmp_path / "a.txt").write_text("山道を歩く。\n")
    (tmp_path / "b.txt").write_text("")
    shown = jprep("corpus", "build", "--text", "a.txt", "--text", "b.txt", "-o", "one", cwd=tmp_path).stdout
    assert "warning" not in shown
    (tmp_path / "r.toml").write_text(
        'name = "r"\n'
        '[[corpus.sources]]\nname = "full"\nreader = "text"\npaths = ["a.txt"]\n'
        '[[corpus.sources]]\nname = "bare"\nreader = "text"\npaths = ["b.txt"]\n'
        '[corpus]\nsegmenter = "none"\n'
    )
    shown = jprep("corpus", "build", "r.toml", "-o", "two", cwd=tmp_path).stdout
    assert "warning: source bare has no documents" in shown


def test_verify_finds_the_flipped_byte(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    whole = jprep("corpus", "verify", corpus).stdout
    assert "no damage" in whole
    copy = Path(shutil.copytree(corpus, tmp_path / "copy"))
    part = next((copy / "documents").iterdir())
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    assert jprep("corpus", "verify", copy, code=1).stdout == f"documents/{part.name}: was changed or damaged\n"
    part.unlink()
    [damage] = json.loads(jprep("corpus", "verify", copy, "--json", code=1).stdout)
    assert damage == {"path": f"documents/{part.name}", "what": "is missing"}
    (copy / "documents" / "stranger.parquet").write_bytes(b"")
    assert "stranger.parquet: is not a file of this corpus" in jprep("corpus", "verify", copy, code=1).stdout


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("redirect", "was rejected by reader.wikipedia: redirect"),
        ("duplicate", "was rejected by dedup.documents: duplicate"),
    ],
)
def test_why_a_document_is_not_there(reason: str, said: str, corpus: Path, jprep: Run) -> None:
    rejected = next(each for each in Corpus(corpus).rejects() if each.reason == reason)
    assert said in jprep("corpus", "why", corpus, rejected.id).stdout
    if rejected.title:
        assert said in jprep("corpus", "why", corpus, rejected.title).stdout


def test_why_a_document_is_there(corpus: Path, jprep: Run) -> None:
    doc = next(iter(Corpus(corpus)))
    for query in (doc.id, doc.title, doc.id.partition(":")[2]):
        assert f"{doc.id}  {doc.title}  is in the corpus" in jprep("corpus", "why", corpus, query).stdout
    assert json.loads(jprep("corpus", "why", corpus, doc.id, "--json").stdout)[0]["id"] == doc.id
    failed = jprep("corpus", "why", corpus, "この名の頁は無い", code=2).stderr
    assert "jprep: no document has the id" in failed and "fix: " in failed and f"corpus export {corpus}" in failed


@pytest.mark.parametrize("command", ["stats", "export", "verify"])
def test_a_folder_without_a_corpus(command: str, tmp_path: Path, jprep: Run) -> None:
    output = jprep("corpus", command, tmp_path, code=2).stderr
    assert "there is no finished corpus here" in output and str(tmp_path) in output


def test_fetch_takes_files_too(sample: Path, tmp_path: Path, jprep: Run) -> None:
    url = (sample / samples.DUMP).as_uri()
    setting = f'corpus.sources.0.files=[{{url = "{url}"}}]'
    output = jprep("corpus", "fetch", sample / "recipe.toml", "--set", setting, "--folder", tmp_path / "d").stdout
    assert digests(tmp_path / "d")[samples.DUMP] == digests(sample)[samples.DUMP]
    assert digests(sample)[samples.DUMP] in output
    assert "names no files" in jprep("corpus", "fetch", sample / "recipe.toml", code=2).stderr


def test_a_recipe_to_filter_by_says_where_tasks_run_unless_an_option_does(
    corpus: Path, sample: Path, tmp_path: Path, jprep: Run
) -> None:
    recipe, out = tmp_path / "r.toml", tmp_path / "out"
    table = 'executor = { use = "queue", wait = false, poll = 1 }\n'
    recipe.write_text(table + (sample / "recipe.toml").read_text(encoding="utf-8"), encoding="utf-8")
    command = ("corpus", "filter", corpus, "--recipe", recipe, "-o", out)
    assert "in the queue" in jprep(*command, cwd=sample).stderr
    other = ("--set", "corpus.filters=[{ signal = 'characters', max = 0 }]")
    by_condition = ("corpus", "filter", corpus, "--filter", "characters>=0", "-o", out)
    assert "without a recipe, only executor" in jprep(*by_condition, *other, cwd=sample, code=2).stderr
    assert "nonsense" in jprep(*command, "--set", "executor.nonsense=1", cwd=sample, code=2).stderr
    command = (*command, "--executor", "local", "--workers", 1)
    jprep(*command, cwd=sample)
    assert (out / "corpus.json").exists()
    assert "different work" in jprep(*command, *other, cwd=sample, code=2).stderr  # the recipe's filters are replaced
