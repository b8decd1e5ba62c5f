"""Fixes name the options or keys that the user gave, and work as printed."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jprep import Corpus, samples
from tests.conftest import COMMAND, Run, environment
from tests.hostile.conftest import article, dump

ROWS = '{"text": "これは試しの文であり、十分に長い。"}\n' * 3
INPUTS = {
    "max_bad": ("jsonl", (ROWS + '{"text": \n').encode()),
    "encoding": ("text", "これは日本語で書かれた文章であり、片仮名のテキストもある。\n".encode("cp932") * 20),
    "on_truncated": ("wikipedia", gzip.compress(dump(map(article, range(200))))[:-3000]),
}


def build(folder: Path, line: str, code: int = 0) -> str:
    """Run a printed command; return its errors."""
    done = subprocess.run(shlex.split(line), cwd=folder, env=environment(), capture_output=True)
    assert done.returncode == code, done.stderr.decode()
    return done.stderr.decode()


@pytest.mark.parametrize("option", INPUTS)
def test_a_reader_s_option_on_the_command_line(option: str, tmp_path: Path) -> None:
    reader, data = INPUTS[option]
    (tmp_path / "in put").write_bytes(data)
    said = build(tmp_path, f"{COMMAND} corpus build --{reader} 'in put' --segmenter none -o c --workers 1", code=4)
    [line] = re.findall(r"^ +(jprep corpus build .*)$", said, re.MULTILINE)
    assert "corpus.sources.0.reader=" in line and option in line and line.endswith(" --restart")
    build(tmp_path, line)


@pytest.mark.parametrize("encoding", ["cp932", "euc_jp", "utf-16"])
def test_one_file_of_many_in_another_encoding(encoding: str, tmp_path: Path) -> None:
    for number in range(3):
        text = f"これは{number}番目の文章であり、片仮名のテキストもある。\n"
        (tmp_path / f"{number}.txt").write_bytes(text.encode(encoding if number == 1 else "utf-8"))
    said = build(tmp_path, f"{COMMAND} corpus build --text '*.txt' --segmenter none -o c", code=4)
    [line] = re.findall(r"^ +(jprep corpus build .*)$", said, re.MULTILINE)
    assert '`encoding = "detect"`, which finds the encoding of each file' in said and 'encoding = "detect"' in line
    build(tmp_path, line)
    assert [doc.text[:6] for doc in Corpus(tmp_path / "c")] == ["これは0番目", "これは1番目", "これは2番目"]


def test_a_truncated_input_is_copied_or_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/a.txt.gz").write_bytes(gzip.compress("これは試しの文章であり、十分に長い。\n".encode() * 99))
    source = '[[corpus.sources]]\nname = "a"\nreader = "text"\npaths = ["downloads/a.txt.gz"]\n'
    files = f'files = [{{ url = "file://{tmp_path}/there/a.txt.gz" }}]\n'
    (tmp_path / "r.toml").write_text(f'name = "r"\n[corpus]\nsegmenter = "none"\n{source}{files}', encoding="utf-8")
    build(tmp_path, f"{COMMAND} corpus fetch r.toml")
    copy = tmp_path / "downloads/a.txt.gz"
    copy.write_bytes(copy.read_bytes()[:-20])
    said = build(tmp_path, f"{COMMAND} corpus build r.toml -o c", code=4)
    assert "fix:   copy or download it again; if a recipe downloads it, delete it and run `" in said
    [command] = re.findall(r"delete it and run `(jprep corpus fetch )RECIPE`", said)
    copy.unlink()
    build(tmp_path, f"{command} r.toml")
    build(tmp_path, f"{COMMAND} corpus build r.toml -o c --restart")


def test_a_second_fix_of_a_reader_replaces_the_first(tmp_path: Path) -> None:
    (tmp_path / "in").write_text(ROWS + '{"text": \n' + ROWS * 20, encoding="utf-8")
    given = (
        "--set 'corpus.sources.0.reader={ use = \"jsonl\", max_bad = 0.001 }' --set=corpus.sources.0.reader.shard_mb=2"
    )
    said = build(tmp_path, f"{COMMAND} corpus build --jsonl in --segmenter none -o c {given} --restart", code=4)
    [line] = re.findall(r"^ +(jprep corpus build .*)$", said, re.MULTILINE)
    assert line.count("--set") == line.count("--restart") == 1
    assert '{ use = "jsonl", max_bad = 0.016, shard_mb = 2 }' in line
    build(tmp_path, line)


def test_a_reader_s_option_in_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(ROWS + '{"text": \n', encoding="utf-8")
    recipe = tmp_path / "r.toml"
    source = '[[corpus.sources]]\nname = "rows"\npaths = ["rows.jsonl"]\n'
    recipe.write_text(
        f'name = "r"\n{source}reader = {{ use = "jsonl", shard_mb = 2.0 }}\n[corpus]\nsegmenter = "none"\n'
    )
    said = build(tmp_path, f"{COMMAND} corpus build r.toml -o c", code=4)
    [table] = re.findall(r"in r.toml, source rows:  (reader = .*)$", said, re.MULTILINE)
    assert table == 'reader = { use = "jsonl", shard_mb = 2.0, max_bad = 0.25 }' and "--set" not in said
    recipe.write_text(f'name = "r"\n{source}{table}\n[corpus]\nsegmenter = "none"\n')
    build(tmp_path, f"{COMMAND} corpus build r.toml -o c --restart")


def test_a_reader_s_option_for_a_whole_recipe(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(ROWS + '{"text": \n', encoding="utf-8")
    source = '[[corpus.sources]]\nname = "rows"\npaths = ["rows.jsonl"]\n'
    recipe = tmp_path / "r.toml"
    recipe.write_text(f'name = "r"\n{source}reader = "jsonl"\n[corpus]\nsegmenter = "none"\n')
    said = build(tmp_path, f"{COMMAND} run r.toml --until corpus", code=4)
    [table] = re.findall(r"in r.toml, source rows:  (reader = .*)$", said, re.MULTILINE)
    assert "--restart" not in said  # `jprep run` has no such option
    recipe.write_text(f'name = "r"\n{source}{table}\n[corpus]\nsegmenter = "none"\n')
    build(tmp_path, f"{COMMAND} run r.toml --until corpus")


@pytest.mark.parametrize("reader", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("options", ["", " --dry-run"])
def test_the_column_of_the_text_on_the_command_line(reader: str, options: str, tmp_path: Path) -> None:
    table = pa.table(
        {"見出し": ["題"], "本文": ["これは試しの文であり、十分に長い。"], "日付": ["2024-01-01"], "n": [1 << 40]}
    )
    path, separator = tmp_path / f"rows.{reader}", {"csv": ",", "tsv": "\t"}.get(reader)
    if separator:
        rows = [table.column_names, *([*map(str, row.values())] for row in table.to_pylist())]
        path.write_text("".join(f"{separator.join(row)}\n" for row in rows), encoding="utf-8")
    elif reader == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()), encoding="utf-8")
    else:
        pq.write_table(table, path)
    command = f"{COMMAND} corpus build --{reader} {path.name} --segmenter none -o c{options}"
    said = build(tmp_path, command, code=2)
    assert "`text = ...`: available: n, 日付, 本文, 見出し" in said and not (tmp_path / "c").exists()
    [line] = re.findall(r"^ +(jprep corpus build .*)$", said, re.MULTILINE)
    assert f'{{ use = "{reader}", text = "本文" }}' in line and "--restart" not in line  # nothing was written
    build(tmp_path, line)


@pytest.mark.parametrize("command", ["corpus build -o c", "corpus build --dry-run", "run --dry-run"])
def test_a_misspelt_column_in_a_recipe(command: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,title,url\na,b,c\n", encoding="utf-8")
    recipe = 'name = "r"\n[corpus]\nsegmenter = "none"\n[[corpus.sources]]\nname = "a"\npaths = ["rows.csv"]\n'
    fixes = {'url = "ur"': 'url = "url"', 'meta = ["url", "tilte"]': 'meta = ["url", "title"]'}
    words, _, options = command.partition(" -")
    for wrong, right in fixes.items():
        (tmp_path / "r.toml").write_text(f'{recipe}reader = {{ use = "csv", {wrong} }}\n')
        said = build(tmp_path, f"{COMMAND} {words} r.toml -{options}", code=2)
        assert f'in r.toml, source a:  reader = {{ use = "csv", {right} }}' in said and "--restart" not in said


@pytest.mark.parametrize("separator", [";", "\t"])
def test_another_separator_on_the_command_line(separator: str, tmp_path: Path) -> None:
    rows = f"id{separator}text\n1{separator}これは試しの文であり、十分に長い。\n"
    (tmp_path / "rows.csv").write_text(rows, encoding="utf-8")
    said = build(tmp_path, f"{COMMAND} corpus build --csv rows.csv --segmenter none -o c", code=2)
    assert f"its separator is {separator!r}, not ','" in said
    [line] = re.findall(r"^ +(jprep corpus build .*)$", said, re.MULTILINE)
    build(tmp_path, line)


def test_a_fix_that_names_no_value_is_printed_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"body": "文"}\n', encoding="utf-8")
    (tmp_path / "r.toml").write_text(
        'name = "r"\n[[corpus.sources]]\nname = "a"\nreader = "jsonl"\npaths = ["rows.jsonl"]\n'
    )
    said = build(tmp_path, f"{COMMAND} corpus build r.toml -o c", code=2)
    assert "no object has the field 'text'" in said and "available: body" in said


@pytest.mark.parametrize("command", ["run --until corpus", "run --until corpus --dry-run", "corpus build --dry-run"])
def test_a_wrong_column_is_found_before_anything_is_written(command: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"id,本文\n1,{'これは試しの文である。' * 3}\n", encoding="utf-8")
    source = '[[corpus.sources]]\nname = "a"\nreader = {{ use = "csv", text = "{}" }}\npaths = ["rows.csv"]\n'
    recipe = tmp_path / "r.toml"
    recipe.write_text('name = "r"\n[corpus]\nsegmenter = "none"\n' + source.format("honbun"))
    words, _, options = command.partition(" -")
    line = f"{COMMAND} {words} r.toml -{options}"
    assert "column 'honbun' not found\n  where: rows.csv" in build(tmp_path, line, code=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.toml", "rows.csv"]
    recipe.write_text('name = "r"\n[corpus]\nsegmenter = "none"\n' + source.format("本文"))
    build(tmp_path, line)


@pytest.mark.parametrize("command", ["run --until corpus", "plan --until corpus", "corpus build -o c"])
def test_a_missing_input_that_is_beside_the_recipe_is_named(command: str, tmp_path: Path) -> None:
    (tmp_path / "r" / "data").mkdir(parents=True)
    (tmp_path / "r" / "data" / "a.jsonl").write_text(ROWS, encoding="utf-8")
    recipe = 'name = "r"\n[corpus]\nsegmenter = "none"\n[[corpus.sources]]\nname = "rows"\nreader = "jsonl"\n'
    (tmp_path / "r" / "r.toml").write_text(f'{recipe}paths = ["data/*.jsonl"]\n')
    words, _, options = command.partition(" -")
    line = f"{COMMAND} {words} r/r.toml -{options}"
    said = build(tmp_path, line, code=2)
    assert "where: data/*.jsonl" in said and "relative paths start at the current directory" in said
    [path] = re.findall(r"in r/r.toml:  (\".*\")$", said, re.MULTILINE)
    (tmp_path / "r" / "r.toml").write_text(f"{recipe}paths = [{path}]\n")
    build(tmp_path, line)


def test_other_work_is_replaced_by_the_printed_command(tmp_path: Path, jprep: Run) -> None:
    samples.write_sample(tmp_path)
    first = ("corpus", "build", "--cc100", "cc100.txt", "--segmenter", "none", "-o", "c")
    jprep(*first, cwd=tmp_path)
    with (tmp_path / "cc100.txt").open("ab") as file:
        file.write("また一つの文書である。\n\n".encode())
    said = jprep(*first, cwd=tmp_path, code=2).stderr
    assert "the input file cc100.txt of the source cc100 has changed: it had" in said and "sha256" not in said
    [line] = re.findall(r"to replace it:  (.*)$", said, re.MULTILINE)
    build(tmp_path, line)


def test_an_impossible_vocabulary_size_names_the_option_that_works(tmp_path: Path, jprep: Run) -> None:
    samples.write_sample(tmp_path)
    words = ("tokenizer", "train", "cc100.txt", "--boundaries", "none", "-o", "t")
    said = jprep(*words, cwd=tmp_path, code=2).stderr
    [ids] = re.findall(r"--vocab-size (\d+), or in a recipe vocab_size = \1", said)
    jprep(*words, "--vocab-size", ids, cwd=tmp_path)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["train", "."], ["expected a recipe file, got a directory", "recipe.toml"]),
        (["corpus", "build", "cc100.txt"], ["expected a recipe", "corpus build --text cc100.txt\n"]),
        (["corpus", "build", "nowhere.toml"], ["there is no such recipe", "jprep recipes"]),
        (["corpus", "fetch", "recipe.toml"], ["names no files", "fix: "]),
    ],
)
def test_an_invalid_recipe_path_is_refused(words: list[str], says: list[str], tmp_path: Path, jprep: Run) -> None:
    samples.write_sample(tmp_path)
    said = jprep(*words, cwd=tmp_path, code=2).stderr
    assert "Errno" not in said
    for part in says:
        assert part in said


def test_a_damaged_input_is_not_fixed_by_a_restart_of_its_reader(tmp_path: Path, jprep: Run) -> None:
    samples.write_sample(tmp_path)
    jprep("corpus", "build", "--cc100", "cc100.txt", "--segmenter", "none", "-o", "c", cwd=tmp_path)
    shard = next((tmp_path / "c/documents").iterdir())
    shard.write_bytes(shard.read_bytes()[:-9] + bytes(9))
    train = ("tokenizer", "train", "c", "--boundaries", "none", "--vocab-size", 1500, "-o", "t")
    said = jprep(*train, cwd=tmp_path, code=2).stderr
    assert "build the corpus again with --restart" in said and "to replace it" not in said
    [command] = re.findall(r"`jprep (corpus verify .*)` lists", said)
    assert shard.name in jprep(*command.split(), cwd=tmp_path, code=1).stdout


def test_a_corpus_without_text_names_the_empty_input(tmp_path: Path, jprep: Run) -> None:
    (tmp_path / "empty.txt").touch()
    jprep("corpus", "build", "--text", "empty.txt", "-o", "c", cwd=tmp_path)
    said = jprep("tokenizer", "train", "c", "-o", "t", cwd=tmp_path, code=2).stderr
    assert "the corpus has 0 documents, 1 rejected; empty inputs: empty.txt" in said
