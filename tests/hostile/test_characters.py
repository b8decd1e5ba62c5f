"""Characters that jprep, XML, JSON or a terminal give a meaning of their own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from jprep.corpus.document import SENTENCE, WORD
from tests.benchmarks.measure import JPREP
from tests.hostile.conftest import Build, Put, article, dump

TAIL = "という文は、どこまでもまっとうな文である。"
MARKS = f"印{SENTENCE}が{WORD}ある"


def lawful(documents: list[dict[str, str]]) -> bool:
    return all(d["words"].replace(SENTENCE, "").replace(WORD, "") == d["text"] for d in documents)


def verified(folder: Path) -> bool:
    return subprocess.run([JPREP, "corpus", "verify", str(folder)], capture_output=True).returncode == 0


@pytest.mark.parametrize("segmenter", ["none", "pointwise", "jumandic"])
@pytest.mark.parametrize("option", ["--cc100", "--text", "--jsonl"])
def test_marks_in_the_input_are_deleted_and_counted(option: str, segmenter: str, build: Build, put: Put) -> None:
    text = f"{MARKS}{TAIL * 3}"
    data = json.dumps({"text": text}) if option == "--jsonl" else text
    done = build(option, put("marks", data.encode()), more=["--segmenter", segmenter])
    (document,) = done.documents()
    assert document["text"].startswith("印がある" + TAIL)
    assert lawful([document])
    assert done.manifest.counts[f"reader.{option[2:]}.control.deleted"] == 2
    assert verified(done.folder)


ENTITIES = [f"&#{code};" for code in ("30", "31", "x1E", "x1f", "0", "xD800", "xDFFF", "x110000", "xFFFF", "8", "x85")]


@pytest.mark.parametrize("segmenter", ["none", "pointwise", "jumandic"])
def test_marks_that_wikitext_writes_as_entities(segmenter: str, build: Build, put: Put) -> None:
    written = f"<nowiki>{''.join(ENTITIES)}は書いたまま</nowiki>である。"
    text = f"実体{'と'.join(ENTITIES)}の後に続く文がある。{TAIL}\n\n{written}"
    done = build("--wikipedia", put("entities.xml", dump([text])), more=["--segmenter", segmenter])
    (document,) = done.documents()
    assert "の後に続く文がある。" in document["text"]
    assert not {SENTENCE, WORD, "\0"} & set(document["text"])
    assert lawful([document])
    assert verified(done.folder)


@pytest.mark.parametrize("option", ["--cc100", "--text"])
def test_nul_crlf_bom_and_other_ends_of_lines(option: str, build: Build, put: Put) -> None:
    text = f"\ufeff一つ目{TAIL}\r\n二つ\0目{TAIL}\r\n三つ\u2028目{TAIL}\x0b\x0c\x85四つ\u2029目{TAIL}\r\n"
    done = build(option, put("ends.txt", text.encode()))
    (document,) = done.documents()
    lines = document["text"].split("\n")
    assert len(lines) == 4  # the vertical tab ends a line
    assert lines[:2] == [f"一つ目{TAIL}", f"二つ目{TAIL}"]
    assert not set("\r\0\ufeff\x0b\x0c") & set(document["text"])
    assert lawful([document])
    name = f"reader.{option[2:]}"
    assert done.manifest.counts[f"{name}.bom.deleted"] == 1
    assert done.manifest.counts[f"{name}.crlf.to_lf"] == 3
    assert done.manifest.counts[f"{name}.page_breaks.to_lf"] == 1


@pytest.mark.parametrize("escape", [r"\ud800", r"\udc00", r"\ud800\ud800", r"\udbffx"])
def test_lone_surrogates_in_json(escape: str, build: Build, put: Put) -> None:
    data = f'{{"text": "{TAIL}{escape}{TAIL}"}}\n'
    build("--jsonl", put("lone.jsonl", data.encode()), code=4, says=["lone.jsonl", "byte 0", "surrogate", "max_bad"])


def test_paired_surrogates_in_json_are_a_character(build: Build, put: Put) -> None:
    data = f'{{"text": "\\ud842\\udfb7野家は{TAIL}{TAIL}"}}\n'
    assert build("--jsonl", put("pair.jsonl", data.encode())).texts()[0].startswith("𠮷野家")


@pytest.mark.parametrize("title", ["../../etc/passwd", "a\tb", "“｜＜＞”", "𠮷" * 300, "-", "null", "‮右から左"])
def test_any_title(title: str, build: Build, put: Put) -> None:
    data = dump([article(1)]).replace("項目1".encode(), title.encode(), 1)
    done = build("--wikipedia", put("titles.xml", data))
    (document,) = done.documents()
    assert document["title"] == title
    why = subprocess.run([JPREP, "corpus", "why", str(done.folder), "--", title], capture_output=True, text=True)
    assert why.returncode == 0
    assert "is in the corpus" in why.stdout
