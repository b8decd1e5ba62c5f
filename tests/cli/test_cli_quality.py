"""`jprep quality`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jprep import Corpus
from jprep.corpus.store import read_manifest
from tests.conftest import Run
from tests.fakes.chat_server import chat_server, completion


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    good = (f"第{number}章では歴史と文化について述べる。{number}世紀の研究である。" for number in range(300))
    (folder / "good.txt").write_text("\n".join(good), encoding="utf-8")
    bad = [f"激安{number}円！！今すぐクリック\u202e送料無料！" for number in range(300)]
    (folder / "bad.txt").write_text("\n".join(bad), encoding="utf-8")
    (folder / "bad.jsonl").write_text("\n".join(json.dumps({"body": text}) for text in bad), encoding="utf-8")
    both = (f"{number}番目の研究と文化。" if number % 2 else f"激安！クリック{number}！" for number in range(40))
    (folder / "mixed.txt").write_text("\n".join(both), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def model(texts: Path, jprep: Run) -> Path:
    options = ("--good", "good.txt", "--bad", "bad.txt", "-o", "model", "--bits", 12)
    done = jprep("quality", "train", *options, cwd=texts)
    assert "calibration_error" in done.stdout and "jprep quality score" in done.stdout
    again = jprep("quality", "train", *options, "--json", cwd=texts)
    assert json.loads(again.stdout)["figures"]["auc"] == 1
    return texts / "model"


def test_lines_that_are_no_documents_are_counted(texts: Path, model: Path, jprep: Run, tmp_path: Path) -> None:
    broken = (texts / "bad.jsonl").read_text("utf-8") + '\n{"other": 1}\n{"body": null}\n'
    (tmp_path / "bad.jsonl").write_text(broken, encoding="utf-8")
    counted = {"reader.jsonl/no_text": 2}
    words = ("bad.jsonl", "--field", "body", "--model")
    assert json.loads(jprep("quality", "score", *words, model, "--json", cwd=tmp_path).stdout)["rejects"] == counted
    shown = jprep("quality", "score", *words, model, cwd=tmp_path).stdout
    assert "reader.jsonl/no_text" in shown
    (tmp_path / "good.jsonl").write_text(
        (texts / "bad.jsonl").read_text("utf-8").replace('"body": "', '"body": "研究'), "utf-8"
    )
    options = ("--good", "good.jsonl", "--bad", "bad.jsonl", "--field", "body", "-o", "m", "--bits", 8, "--json")
    assert json.loads(jprep("quality", "train", *options, cwd=tmp_path).stdout)["rejects"] == {
        "bad": counted,
        "good": {},
    }
    (tmp_path / "prompt.txt").write_text("{text}", encoding="utf-8")
    with chat_server(lambda prompt, attempt: completion("4")) as server:
        words = (*words, "m", "--prompt", "prompt.txt", "--endpoint", server.url, "--sample", 400, "-o", "l", "--json")
        found = json.loads(jprep("quality", "judge", *words, "--concurrency", 16, cwd=tmp_path).stdout)
    assert (found["labels"], found["rejects"]) == (300, counted)
    assert json.loads((tmp_path / "l" / "labels.json").read_text("utf-8"))["rejects"] == counted


def test_scores_are_shown_escaped(texts: Path, model: Path, jprep: Run) -> None:
    done = jprep("quality", "score", "bad.jsonl", "--field", "body", "--model", model, cwd=texts)
    assert "300 documents" in done.stdout and "\\u202e" in done.stdout and "\u202e" not in done.stdout
    found = json.loads(jprep("quality", "score", "mixed.txt", "--model", model, "--json", cwd=texts).stdout)
    assert sum(found["histogram"]) == found["documents"] == 40
    assert found["lowest"][0]["score"] < 0.5 < found["highest"][0]["score"]
    assert "激安" in found["lowest"][0]["excerpt"] and "研究" in found["highest"][0]["excerpt"]


def test_a_corpus_keeps_scores_and_drops_by_them(texts: Path, model: Path, jprep: Run, tmp_path: Path) -> None:
    recipe = f"""
name = "scored"
[[corpus.sources]]
name = "own"
paths = ["{texts}/mixed.txt"]
reader = {{ use = "text", documents = "line" }}
[corpus]
segmenter = "none"
signals = [{{ use = "quality", model = "{model}" }}]
filters = [{{ signal = "quality_score", min = 0.5 }}]
"""
    (tmp_path / "recipe.toml").write_text(recipe, encoding="utf-8")
    jprep("corpus", "build", "recipe.toml", "-o", "corpus", "--workers", 1, cwd=tmp_path)
    manifest = read_manifest(tmp_path / "corpus")
    assert manifest.totals["documents"] == 20 and manifest.signals == ["quality_score"]
    assert manifest.rejects == {"filter.threshold/quality_score": 20}
    assert str(model) not in (tmp_path / "corpus" / "corpus.json").read_text()


def test_buckets_of_a_score_are_sources(texts: Path, model: Path, jprep: Run, tmp_path: Path) -> None:
    sources = "".join(
        f"""
[[corpus.sources]]
name = "{name}"
paths = ["{texts}/mixed.txt"]
reader = {{ use = "text", documents = "line" }}
filters = [{{ signal = "quality_score", {limits}, of = {{ use = "quality", model = "{model}" }} }}]
"""
        for name, limits in (("high", "min = 0.5"), ("low", "below = 0.5"))
    )
    recipe = f'name = "buckets"\n{sources}\n[corpus]\nsegmenter = "none"\ndedup = {{ documents = false }}\n'
    (tmp_path / "recipe.toml").write_text(recipe, encoding="utf-8")
    jprep("corpus", "build", "recipe.toml", "-o", "corpus", "--workers", 1, cwd=tmp_path)
    found = {doc.text: doc.source for doc in Corpus(tmp_path / "corpus")}
    lines = (texts / "mixed.txt").read_text("utf-8").replace("！", "!").splitlines()
    assert found == {line: "low" if "激安" in line else "high" for line in lines}


def test_labels_train_a_classifier_and_are_a_column(texts: Path, jprep: Run, tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("{text}\n点数は？", encoding="utf-8")
    with chat_server(lambda prompt, attempt: completion("点数：1" if "激安" in prompt else "点数：4")) as server:
        words = (texts / "mixed.txt", texts / "good.txt", texts / "bad.txt", "--endpoint", server.url, "--model", "m")
        words = (*words, "--prompt", "prompt.txt", "-o", "labels", "--concurrency", 16)
        done = json.loads(jprep("quality", "judge", *words, "--json", cwd=tmp_path).stdout)
    assert (done["labels"], done["missing"], done["asked_now"]) == (640, 0, 640)
    options = ("--labels", "labels", "--threshold", 3, "--bits", 12, "-o", "model", "--json")
    assert json.loads(jprep("quality", "train", *options, cwd=tmp_path).stdout)["figures"]["auc"] == 1
    recipe = f"""
name = "judged"
[[corpus.sources]]
name = "own"
paths = ["{texts}/mixed.txt"]
reader = {{ use = "text", documents = "line" }}
[corpus]
normalizers = []
segmenter = "none"
signals = [{{ use = "judge", labels = "labels" }}]
"""
    (tmp_path / "recipe.toml").write_text(recipe, encoding="utf-8")
    jprep("corpus", "build", "recipe.toml", "-o", "corpus", "--workers", 1, cwd=tmp_path)
    scores = {doc.text: doc.signals["judge_score"] for doc in Corpus(tmp_path / "corpus")}
    assert scores == {text: 1.0 if "激安" in text else 4.0 for text in scores} and len(scores) == 40


def test_a_judge_that_cannot_run_says_why(texts: Path, jprep: Run, tmp_path: Path) -> None:
    words = ("quality", "judge", texts / "mixed.txt", "--model", "m", "-o", "labels", "--endpoint")
    url = "http://127.0.0.1:9/v1"
    assert "cannot be read" in jprep(*words, url, "--prompt", "none.txt", cwd=tmp_path, code=2).stderr
    (tmp_path / "prompt.txt").write_text("{text}", encoding="utf-8")
    fine = ("--prompt", "prompt.txt", "--retry-for", 0.1)
    assert "http or https" in jprep(*words, "localhost:8000", *fine, cwd=tmp_path, code=2).stderr
    failed = jprep(*words, url, *fine, cwd=tmp_path, code=3)
    assert "no usable answer" in failed.stderr and "run the same command again" in failed.stderr
    assert not (tmp_path / "labels").exists()


def test_white_space_around_the_key_does_not_count_and_a_wrong_key_is_not_shown(
    texts: Path, jprep: Run, tmp_path: Path
) -> None:
    (tmp_path / "prompt.txt").write_text("{text}", encoding="utf-8")
    words = (
        "quality",
        "judge",
        texts / "mixed.txt",
        "--model",
        "m",
        "--prompt",
        "prompt.txt",
        "--sample",
        2,
        "-o",
        "l",
    )
    with chat_server(lambda prompt, attempt: completion("4")) as server:
        wrong = {"JPREP_JUDGE_KEY": "sk-SECRET\nnext"}
        failed = jprep(*words, "--endpoint", server.url, cwd=tmp_path, env=wrong, code=2)
        assert "JPREP_JUDGE_KEY" in failed.stderr and "SECRET" not in failed.stdout + failed.stderr
        jprep(*words, "--endpoint", server.url, cwd=tmp_path, env={"JPREP_JUDGE_KEY": " sk-SECRET\n"})
        assert set(server.keys) == {"Bearer sk-SECRET"}


def test_wrong_options_are_refused(texts: Path, jprep: Run, tmp_path: Path) -> None:
    inputs = ("--good", "good.txt", "--bad", "mixed.txt", "-o", tmp_path / "m")
    assert "--ngrams" in jprep("quality", "train", *inputs, "--ngrams", "4-2", cwd=texts, code=2).stderr
    assert "passes" in jprep("quality", "train", *inputs, "--passes", 0, cwd=texts, code=2).stderr
    jprep("quality", "train", "--good", "good.txt", "-o", tmp_path / "m", cwd=texts, code=2)
    assert not (tmp_path / "m").exists()
