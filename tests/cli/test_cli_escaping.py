"""Hostile names and titles are escaped by every command that prints them."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.engine.checksummed_json import encode_checksummed
from jprep.io.escaping import escaped, escaped_json, one_line
from tests.command_server import CommandServer
from tests.conftest import COMMAND, ROOT, Distribution, Run, environment
from tests.fakes.numpy_backend import offer

BAD = "\x1b]0;taken\x07\x9b31m\u202e\u2066\u200f\u2028"
KEPT = BAD.replace("\x1b", "").replace("\x07", "")
"""What readers keep of it: they delete C0 controls."""
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
SENTENCE = "これは試しの文章であり、端末を乗っ取ろうとする題名を持つ。"


@given(st.text())
def test_escaped_text_is_safe_and_plain_text_is_untouched(text: str) -> None:
    assert not UNSAFE.search(escaped(text))
    assert not UNSAFE.search(one_line(text)) and "\n" not in one_line(text)
    if not UNSAFE.search(text):
        assert escaped(text) == text


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8))
def test_escaped_json_means_the_same(value: object) -> None:
    text = escaped_json(json.dumps(value, ensure_ascii=False))
    assert not UNSAFE.search(text)
    assert json.loads(text) == value


def test_undecodable_bytes_are_shown_as_bytes() -> None:
    assert escaped(os.fsdecode(b"a\xff\x1b")) == r"a\xff\x1b"


def test_commands_print_through_one_module_only() -> None:
    """Whatever prints by itself prints unescaped."""
    found = []
    for path in (ROOT / "jprep" / "cli").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if name in ("print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"):
                found.append((path.name, name))
    assert {name for name, _ in found} == {"output.py"}, found


class Hostile:
    """A folder in which every name and title is hostile, and the outputs of each command in it."""

    def __init__(self, folder: Path, distribution: Distribution, server: CommandServer) -> None:
        self.folder, self._server = folder / f"work{BAD}", server
        self.folder.mkdir()
        self.env = offer(distribution)
        distribution.add("hostile_plugin", f"raise ValueError({BAD!r})")
        rows = [
            {"text": f"{SENTENCE}{n}番目の行は、どれも互いに異なる。" * 3, "title": f"題{n}{BAD}\n偽の行"}
            for n in range(80)
        ]
        rows.append({"text": "短い", "title": f"短{BAD}", "id": f"i{BAD}"})
        self.input = self.folder / f"入力{BAD}.jsonl"
        self.input.write_text("".join(json.dumps(row) + "\n" for row in rows))
        quoted = json.dumps(f"名{BAD}")
        self.recipe = self.folder / f"r{BAD}.toml"
        self.recipe.write_text(
            f"""name = "名"
[[corpus.sources]]
name = "rows"
licence = {quoted}
homepage = {quoted}
paths = [{json.dumps(f"入力{BAD}.jsonl")}]
reader = {{ use = "jsonl", title = "title" }}
files = [{{ url = {json.dumps(f"file:///nowhere/{BAD}")}, name = "f.jsonl" }}]
[corpus]
segmenter = "none"
filters = [{{ use = "length", min_chars = 20 }}]
[tokenizer]
vocab_size = 400
boundaries = "none"
[train]
task = "clm"
model = {{ preset = "gpt2-tiny" }}
length = 16
batch = 2
steps = 2
""",
            encoding="utf-8",
        )

    def rename_corpus(self) -> None:
        """Give the corpus a hostile name, as one from elsewhere may have: recipes with such a name are refused."""
        path = self.folder / "work" / "名" / "corpus" / "corpus.json"
        manifest = json.loads(path.read_bytes())
        path.write_bytes(
            encode_checksummed(
                {key: value for key, value in manifest.items() if key != "checksum"} | {"name": f"名{BAD}"}
            )
        )

    def run(self, *words: object, terminal: bool = False) -> str:
        """Return what a command prints; `terminal` gives it one for standard error."""
        command, options = [COMMAND, *map(str, words)], {"cwd": self.folder, "env": environment(**self.env)}
        if not terminal:
            done = self._server.run(command, **options)
            assert b"fault in jprep" not in done.stderr, done.stderr.decode()
            return (done.stdout + done.stderr).decode()
        ours, theirs = pty.openpty()
        done = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, **options)
        os.close(theirs)
        said = b""
        while True:
            try:
                block = os.read(ours, 1 << 16)
            except OSError:
                break
            if not block:
                break
            said += block
        os.close(ours)
        done.wait()
        return said.decode()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, command_server: CommandServer) -> Hostile:
    folder = tmp_path_factory.mktemp("hostile")
    return Hostile(folder, Distribution(folder / "distributions"), command_server)


def commands(place: Hostile) -> list[list[object]]:
    recipe, work = place.recipe.name, Path("work/名")
    none = f"no{BAD}"
    return [
        ["corpus", "build", recipe, "--set", f"name=名{BAD}"],
        ["corpus", "build", recipe, "--dry-run"],
        ["corpus", "build", recipe, "--set", "corpus.dedup.lines=true"],
        ["corpus", "stats", work / "corpus"],
        ["corpus", "stats", work / "corpus", "--json"],
        ["corpus", "verify", work / "corpus"],
        ["corpus", "why", work / "corpus", f"短{KEPT}"],
        ["corpus", "why", work / "corpus", f"題3{KEPT}\n偽の行"],
        ["corpus", "why", work / "corpus", f"題3{KEPT}\n偽の行", "--json"],
        ["corpus", "why", work / "corpus", none],
        ["corpus", "fetch", recipe],
        ["tokenizer", "train", recipe],
        ["tokenizer", "evaluate", work / "tokenizer", work / "corpus"],
        ["tokenizer", "export", work / "tokenizer", "--format", "fairseq", "-o", f"out{BAD}"],
        ["dataset", "pack", recipe, "--dry-run"],
        ["dataset", "pack", recipe],
        ["dataset", "inspect", work / "dataset"],
        ["dataset", "inspect", work / "dataset", "--token", "5"],
        ["dataset", "inspect", work / "dataset", "--token", "5", "--json"],
        ["dataset", "export", work / "dataset", "--format", "tfrecord", "--length", "8", "-o", f"tf{BAD}"],
        ["train", recipe, "--backend", "numpy", "--dry-run"],
        ["train", recipe, "--backend", "numpy"],
        ["train", recipe, "--backend", none],
        ["train", recipe, "--set", f"train.{none}=1"],
        ["run", recipe, "--dry-run"],
        ["run", recipe, "--backend", "numpy", "--until", "train"],
        ["export", none],
        ["infer", none, BAD],
        ["plugins"],
        ["plugins", "--json"],
        ["backends", "list"],
        ["doctor", "--backend", none],
        ["text", "normalize", "--using", none],
        [none],
        ["corpus", f"--{none}"],
    ]


def test_no_command_prints_a_raw_control_character(hostile: Hostile) -> None:
    assert not UNSAFE.search(hostile.run("corpus", "build", hostile.recipe.name))
    hostile.rename_corpus()
    for words in commands(hostile):
        said = hostile.run(*words)
        assert not (found := UNSAFE.search(said)), (words, found, said)
    shown = hostile.run("corpus", "why", "work/名/corpus", f"題3{KEPT}\n偽の行")
    assert len(shown.splitlines()) == 1 and r"]0;taken\x9b31m\u202e" in shown


@pytest.mark.parametrize(
    "words",
    [
        ["corpus", "build", "--restart"],
        ["tokenizer", "train", "--restart"],
        ["train", "--backend", "numpy", "--name", f"again{BAD}"],
    ],
    ids=lambda words: words[0],
)
def test_progress_on_a_terminal_is_escaped_too(words: list[str], hostile: Hostile) -> None:
    for earlier in ("corpus build", "tokenizer train", "dataset pack"):
        hostile.run(*earlier.split(), hostile.recipe.name)
    said = hostile.run(*words, hostile.recipe.name, terminal=True)
    assert "\x1b]0;" not in said and not re.search("[\x80-\x9f\u202a-\u202e\u2066-\u2069\u200f]", said)


def test_a_product_is_raw_in_a_pipe_and_escaped_on_a_terminal(hostile: Hostile, tmp_path: Path, jprep: Run) -> None:
    text = tmp_path / "t.txt"
    text.write_text(f"{SENTENCE * 2}{BAD}\n", encoding="utf-8")
    jprep(
        "corpus", "build", "--text", text, "--segmenter", "none", "-o", tmp_path / "c", "--set", "corpus.normalizers=[]"
    )
    assert "\x9b31m\u202e" in jprep("corpus", "export", tmp_path / "c").stdout
    assert BAD in jprep("text", "split", stdin=text.read_bytes()).stdout
    said = hostile.run("corpus", "export", tmp_path / "c", terminal=True)
    assert r"\x9b31m\u202e" in said and not re.search("[\x1b\x80-\x9f\u202e]", said)
