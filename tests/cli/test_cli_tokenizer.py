"""`jprep tokenizer`, as a user runs it on the sample's corpus."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, Run, digests
from tests.fakes.hugging_face import write_wordpiece

SMALL = ("--vocab-size", 1500, "--alphabet", 700)
MODELS = {
    "bpe": SMALL,
    "unigram": SMALL,
    "byte-bpe": ("--vocab-size", 1500),
    "wordpiece": SMALL,
}
LINES = ["東京は日本の首都である。", "  Python 3 で\tprint('a')\n    return 1", "👩‍👩‍👧 と ｶﾞｷﾞ", "2020年〜2021年"]


@pytest.fixture(scope="session")
def trained(corpus: Path, tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> dict[str, Path]:
    """A small tokenizer of each kind; tests do not write there."""
    folder = tmp_path_factory.mktemp("tokenizers")
    for model, options in MODELS.items():
        jprep("tokenizer", "train", corpus, "-o", folder / model, "--model", model, *options, "--workers", 1)
    return {model: folder / model for model in MODELS}


@pytest.mark.parametrize("model", MODELS)
def test_the_card_and_readme_describe_the_tokenizer(model: str, trained: dict[str, Path]) -> None:
    card = json.loads((trained[model] / "card.json").read_bytes())
    assert card["config"]["model"] == model and card["config"]["vocab_size"] == 1500
    assert card["normalizers"][0]["name"] == "neologdn" and card["fingerprint"][:12] in card["signature"]
    assert card["counts"]["units.total"] > card["counts"]["units.distinct"] > 0
    assert "paragraphs_with_other_ids_when_exported" not in card["figures"]
    readme = (trained[model] / "README.md").read_text(encoding="utf-8")
    assert readme.startswith("---\nlanguage: ja\n") and card["signature"] in readme and "Apache-2.0" in readme


@pytest.mark.parametrize("model", MODELS)
def test_two_workers_make_the_same_bytes(
    model: str, trained: dict[str, Path], corpus: Path, tmp_path: Path, jprep: Run
) -> None:
    options = ("--model", model, *MODELS[model], "--workers", 2)
    jprep("tokenizer", "train", corpus, "-o", tmp_path / "again", *options)
    assert digests(tmp_path / "again") == digests(trained[model])


def test_a_recipe_of_sources_extends_a_tokenizer(
    corpus: Path, trained: dict[str, Path], tmp_path: Path, jprep: Run
) -> None:
    recipe, code = tmp_path / "more.toml", tmp_path / "code.py"
    code.write_text("def f(x):\n    return  x\n" * 20)
    recipe.write_text(
        f"name = 'more'\n[tokenizer]\nextends = '{trained['byte-bpe']}'\nvocab_size = 1520\n"
        f"[[tokenizer.sources]]\nname = 'ja'\nweight = 3\ncorpus = '{corpus}'\n"
        f"[[tokenizer.sources]]\nname = 'code'\npaths = ['{code}']\nas_is = true\n"
    )
    shown = jprep("tokenizer", "train", recipe, "-o", tmp_path / "out", "--dry-run").stdout
    assert "source   ja, weight 3" in shown and f"extend   {trained['byte-bpe']} to 1,520 ids" in shown
    result = jprep("tokenizer", "train", recipe, "-o", tmp_path / "out", "--workers", 1, "--json")
    figures = json.loads(result.stdout)["figures"]
    assert figures["characters_per_token.code"] > figures["characters_per_token_before.code"]
    old, new = (json.loads((path / "tokenizer.json").read_bytes()) for path in (trained["byte-bpe"], tmp_path / "out"))
    assert old["model"]["vocab"].items() <= new["model"]["vocab"].items()


def test_a_dry_run_shows_what_is_counted_and_the_jobs_of_its_stages(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    out, text = tmp_path / "out", tmp_path / "a.txt"
    command = ("tokenizer", "train", "-o", out, "--dry-run", "--executor", "slurm")
    options = ("--model", "wordpiece", "--vocab-size", 1500, "--set", "executor.partition=p")
    shown = jprep(*command, corpus, *options).stdout
    assert f"{out} with the executor slurm\n" in shown
    assert "documents" in shown and "wordpiece, 1,500 ids" in shown and "[MASK]" in shown
    names = [line for line in shown.splitlines() if line.startswith("# ")]
    assert names == [f"# {out}: the tasks of {stage}" for stage in ("counting", "summing", "merging")]
    assert shown.count("#SBATCH --partition=p") == 3
    text.write_text("これは文である。\n")
    shown = jprep(*command, text, "--set", "executor.wait=false").stdout
    assert f"# {out}/.state/corpus: the tasks of documents" in shown and "1 file, 25 bytes, by text" in shown
    assert "tokenizer train" in shown.partition("# what follows merging")[0]
    (counts := tmp_path / "counts").write_text("文\t3\n")
    assert "jobs" not in jprep(*command, "--counts", counts).stdout
    assert "with 1 worker\n" in jprep(*command[:-1], "local", "--counts", counts, "--workers", 1).stdout
    os.mkfifo(pipe := tmp_path / "pipe")
    assert "1 file, size unknown, by text" in jprep(*command, pipe).stdout
    assert "no such file" in jprep(*command, "--counts", tmp_path / "absent", code=2).stderr
    assert "No such" not in jprep(*command, corpus, "--set", "executor.nonsense=1", code=2).stderr
    assert not out.exists()


def test_a_finished_one_is_seen_to_be_whole(trained: dict[str, Path], corpus: Path, jprep: Run) -> None:
    before = digests(trained["bpe"])
    again = jprep("tokenizer", "train", corpus, "-o", trained["bpe"], *SMALL, "--json")
    assert json.loads(again.stdout)["signature"] in (trained["bpe"] / "card.json").read_text()
    assert digests(trained["bpe"]) == before


LOADED = """
import json, sys
from transformers import AutoTokenizer
found = {}
for folder in sys.argv[2:]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    lines = json.load(open(sys.argv[1], encoding="utf-8"))
    ids = [tokenizer(line, add_special_tokens=False)["input_ids"] for line in lines]
    found[folder] = {"ids": ids, "texts": [tokenizer.decode(each) for each in ids], "size": len(tokenizer)}
print(json.dumps(found))
"""


@pytest.mark.parametrize("version", ["4", "5"])
def test_transformers_gives_the_library_s_ids(version: str, trained: dict[str, Path], tmp_path: Path) -> None:
    import jprep

    python = os.environ.get(f"JPREP_TRANSFORMERS{version}")
    if not python:
        pytest.skip(f"no transformers {version}: JPREP_TRANSFORMERS{version} names no Python that has it")
    lines = tmp_path / "lines.json"
    lines.write_text(json.dumps(LINES), encoding="utf-8")
    folders = [str(folder) for folder in trained.values()]
    command = [python, "-c", LOADED, str(lines), *folders]
    done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE)
    for folder, found in json.loads(done.stdout).items():
        tokenizer = jprep.load_tokenizer(folder)
        assert found["size"] == tokenizer.vocab_size
        assert found["ids"] == [tokenizer.encode(line) for line in LINES]
        assert found["texts"] == [tokenizer.decode(tokenizer.encode(line)) for line in LINES]


@pytest.mark.parametrize("model", ["bpe", "unigram", "byte-bpe"])
def test_decoding_gives_back_the_normalized_text(model: str, trained: dict[str, Path]) -> None:
    import jprep

    tokenizer = jprep.load_tokenizer(trained[model])
    for line in LINES:
        assert tokenizer.decode(tokenizer.encode(line)) == jprep.normalize(line)


def test_text_from_files_and_from_a_pipe_makes_the_same_tokenizer(tmp_path: Path, jprep: Run) -> None:
    text = "".join(f"{n}番目の文はここに書かれている。吾輩は猫である。\n" for n in range(300))
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    settings = ("--vocab-size", 400, "--workers", 1)
    jprep("tokenizer", "train", tmp_path / "a.txt", "-o", tmp_path / "file", *settings)
    jprep("tokenizer", "train", "-", "-o", tmp_path / "pipe", *settings, stdin=text.encode())
    assert digests(tmp_path / "file")["tokenizer.json"] == digests(tmp_path / "pipe")["tokenizer.json"]
    again = jprep("tokenizer", "train", "-", "-o", tmp_path / "pipe", *settings, stdin=text.encode(), code=2)
    assert "with a pipe" in again.stderr


def test_a_recipe_says_where_its_corpus_is_missing(sample: Path, tmp_path: Path, jprep: Run) -> None:
    missing = jprep("tokenizer", "train", sample / "recipe.toml", "--work", tmp_path, code=2)
    assert "the recipe's corpus does not exist yet" in missing.stderr and "jprep corpus build" in missing.stderr


def test_a_recipe_s_section_is_used(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text('name = "r"\n[tokenizer]\nvocab_size = 1200\nalphabet = 600\ndigits = "split"\n')
    jprep("tokenizer", "train", recipe, "--corpus", corpus, "--work", tmp_path, "--set", "tokenizer.spaces=alone")
    config = json.loads((tmp_path / "r/tokenizer/card.json").read_bytes())["config"]
    assert (config["vocab_size"], config["digits"], config["spaces"]) == (1200, "split", "alone")


WRONG = {
    "vocabulary too large": (("--vocab-size", 500_000), "can be learnt", "vocab_size"),
    "vocabulary too small": (("--vocab-size", 100), "", "vocab"),
    "alphabet too small": (("--alphabet", 5), "alphabet", ""),
    "clash": (("--special", "<s>"), "duplicate", ""),
    "two sets": (("--special", "bert", "--special", "gpt"), "two sets", ""),
    "unknown set": (("--special", "x"), "cannot be a special token", ""),
    "unknown key": (("--set", "tokenizer.vocab=3"), "vocab", "did you mean"),
    "bytes have no alphabet": (("--model", "byte-bpe", "--alphabet", 500), "256 bytes", ""),
}


@pytest.mark.parametrize(("options", "what", "fix"), WRONG.values(), ids=WRONG)
def test_invalid_options_are_refused_with_a_fix(
    options: tuple[object, ...], what: str, fix: str, corpus: Path, tmp_path: Path, jprep: Run
) -> None:
    refused = jprep("tokenizer", "train", corpus, "-o", tmp_path / "t", *options, code=2)
    assert what in refused.stderr and fix in refused.stderr and "fix:" in refused.stderr
    assert "Traceback" not in refused.stderr and not (tmp_path / "t/card.json").exists()


def test_the_fix_works_in_the_same_folder(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    command = ("tokenizer", "train", corpus, "-o", tmp_path / "t", *SMALL)
    jprep(*command, "--vocab-size", 500_000, code=2)
    jprep(*command)
    assert (tmp_path / "t/card.json").exists()


def test_a_corpus_without_words_or_texts(tmp_path: Path, jprep: Run) -> None:
    (tmp_path / "a.txt").write_text("吾輩は猫である。名前はまだ無い。\n" * 9, encoding="utf-8")
    (tmp_path / "b.txt").write_text("", encoding="utf-8")
    for name in "ab":
        command = ("corpus", "build", "--text", tmp_path / f"{name}.txt", "--segmenter", "none", "-o", tmp_path / name)
        jprep(*command)
    for boundaries in ("hard", "train"):
        refused = jprep(
            "tokenizer", "train", tmp_path / "a", "-o", tmp_path / "t", "--boundaries", boundaries, "--restart", code=2
        )
        assert "segmenter" in refused.stderr and "none" in refused.stderr
    empty = jprep("tokenizer", "train", tmp_path / "b", "-o", tmp_path / "u", "--boundaries", "none", code=2)
    assert "no text" in empty.stderr


def test_a_foreign_folder_is_not_changed(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    (tmp_path / "mine.txt").write_text("x")
    refused = jprep("tokenizer", "train", corpus, "-o", tmp_path, *SMALL, code=2)
    assert "has not written: mine.txt" in refused.stderr and [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_other_formats(trained: dict[str, Path], tmp_path: Path, jprep: Run) -> None:
    forms = {"bpe": "fairseq", "byte-bpe": "gpt2", "unigram": "sentencepiece"}
    names = {"fairseq": {"dict.txt"}, "gpt2": {"vocab.json", "merges.txt"}}
    names["sentencepiece"] = {"spm.model", "spm.vocab"}
    for model, form in forms.items():
        jprep("tokenizer", "export", trained[model], "--format", form, "-o", tmp_path / form)
        assert {path.name for path in (tmp_path / form).iterdir()} == names[form] | {".export-lock"}
    refused = jprep("tokenizer", "export", trained["bpe"], "--format", "gpt2", "-o", tmp_path / "x", code=2)
    assert "fairseq, sentencepiece" in refused.stderr
    refused = jprep("tokenizer", "export", trained["wordpiece"], "--format", "bert", "-o", tmp_path / "x", code=2)
    assert "pieces with a ## prefix" in refused.stderr and not (tmp_path / "x").exists()


def test_evaluate_compares(trained: dict[str, Path], corpus: Path, jprep: Run) -> None:
    both = jprep("tokenizer", "evaluate", trained["bpe"], "--against", trained["byte-bpe"], corpus)
    assert "bpe" in both.stdout and both.stdout.strip().splitlines()[-1].startswith("jprep:")
    figures = json.loads(
        jprep("tokenizer", "evaluate", trained["bpe"], "--against", trained["byte-bpe"], corpus, "--json").stdout
    )
    assert [each["model"] for each in figures] == ["bpe", "byte-bpe"]
    assert all(each["figures"]["lossless_rate"] == 1 and each["speed"] > 0 for each in figures)
    assert 0 < figures[0]["figures"]["boundary_recall"] <= 1


def test_a_file_of_counts(tmp_path: Path, jprep: Run) -> None:
    words = {"東京都": 2**33, "東京": 2**34, "京都府": 7, "a": 2**40, " a": 3, "大阪府": 2**32 + 1}
    (tmp_path / "words.tsv").write_text(
        "".join(f"{word}\t{count}\n" for word, count in words.items()), encoding="utf-8"
    )
    command = ("tokenizer", "train", tmp_path / "words.tsv", "--counts", "-o", tmp_path / "t")
    made = json.loads(jprep(*command, "--vocab-size", 273, "--json").stdout)
    assert made["counts"]["units.total"] == sum(words.values())


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("a.tsv", "b.tsv", "--counts"), "one file"),
        (("r.toml", "a.txt"), "one corpus directory"),
        ((".", "a.txt"), "one corpus directory"),
        (("a.tsv", "--counts", "--segmenter", "jumandic"), "--segmenter is for FILEs"),
        ((".", "--segmenter", "jumandic"), "--segmenter is for FILEs"),
        (("a.txt", "--corpus", "corpus"), "--corpus is for a RECIPE"),
    ],
)
def test_ignored_arguments_are_refused(arguments: tuple[str, ...], what: str, tmp_path: Path, jprep: Run) -> None:
    refused = jprep("tokenizer", "train", *arguments, "-o", "t", code=2, cwd=tmp_path)
    assert what in refused.stderr and not (tmp_path / "t").exists()


def test_a_pipe_that_was_killed_is_read_again(tmp_path: Path, jprep: Run) -> None:
    text = "吾輩は猫である。名前はまだ無い。\n" * 9
    command = ("tokenizer", "train", "-", "--vocab-size", 283, "--workers", 1, "-o")
    jprep(*command, tmp_path / "uninterrupted", stdin=text.encode())
    jprep(*command, tmp_path / "t", stdin=text.encode(), env={"JPREP_FAILPOINT": "tokenizer.counted=die"}, code=-9)
    other = jprep(*command, tmp_path / "t", stdin=text.replace("猫", "犬").encode(), code=2)
    assert "the input has changed" in other.stderr
    jprep(*command, tmp_path / "t", stdin=text.encode())
    assert digests(tmp_path / "t") == digests(tmp_path / "uninterrupted")


def test_tokens_to_add_are_the_lines_of_a_file(tmp_path: Path, jprep: Run) -> None:
    write_wordpiece(tmp_path / "bert")
    (tmp_path / "terms.txt").write_bytes("\ufeff令和\r\n\n猫\n 琵琶湖 \n".encode())
    done = jprep("tokenizer", "extend", "bert", "--tokens", "terms.txt", "-o", "more", cwd=tmp_path)
    assert "2 tokens added" in done.stdout and "1 were there already" in done.stdout
    added = json.loads((tmp_path / "more" / "tokenizer.json").read_bytes())["added_tokens"][-2:]
    assert [token["content"] for token in added] == ["令和", "琵琶湖"]


def test_a_corpus_s_tokenizer_lies_beside_it(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    name = json.loads((corpus / "corpus.json").read_bytes())["name"]
    jprep("tokenizer", "train", corpus, "--work", tmp_path, *SMALL, "--workers", 1)
    assert json.loads((tmp_path / name / "tokenizer/card.json").read_bytes())["name"] == name != corpus.name
