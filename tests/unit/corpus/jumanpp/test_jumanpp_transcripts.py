"""Recorded exchanges with a real Juman++: the fake program and the segmenter must reproduce them."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

from jprep.corpus.document import WORD
from tests.sampling import every

SHARED = Path(os.environ.get("JPREP_SHARED") or Path(__file__).parents[4].parent / "shared")
TRANSCRIPTS = SHARED / "juman" / "transcripts.json.gz"
OWN = Path(__file__).parents[3] / "golden" / "jumanpp" / "exchanges.json"


def load() -> list[dict]:
    """Return the written exchanges, and the recorded ones if available."""
    cases = json.loads(OWN.read_text(encoding="utf-8"))
    if TRANSCRIPTS.exists():
        with gzip.open(TRANSCRIPTS) as file:
            cases += json.load(file)["cases"]
    return cases


CASES = [pytest.param(case, id=f"{case['case']}-{case['mode']}") for case in load()]


def sent(case: dict) -> bytes:
    """Return the input of an exchange."""
    if not case["long_input"]:
        return base64.b64decode(case["stdin_b64"])
    unit, size = base64.b64decode(case["long_input"]["unit_b64"]), case["long_input"]["total_bytes"]
    line = (unit * (size // len(unit) + 1))[:size]
    return "前の文です\n".encode() + line + "\n次の文です\n".encode()


def test_recorded_exchanges_exist():
    if not TRANSCRIPTS.exists():
        pytest.skip(f"{TRANSCRIPTS} is not here: only our own exchanges were replayed; set JPREP_SHARED")
    assert len(CASES) > 180


@pytest.mark.parametrize("case", every(3, CASES))
def test_the_fake_answers_as_many_lines_of_the_same_text(case, program):
    model = program.parents[1] / "libexec" / "jumanpp" / "jumandic.jppmdl"
    command = [str(program), f"--model={model}", *case["args"]]
    ran = subprocess.run(command, input=sent(case), capture_output=True, check=False)
    recorded = base64.b64decode(case["stdout_b64"])
    assert ran.returncode == case["rc"]
    assert bool(ran.stderr) == bool(case["stderr_first"])
    if case["mode"] == "juman":
        assert ran.stdout.count(b"EOS\n") == recorded.count(b"EOS\n")
    else:
        mark = b"\x1f" if case["mode"] == "segment_us" else b" "
        assert ran.stdout.replace(mark, b"") == recorded.replace(mark, b"")


@pytest.mark.parametrize("case", [case for case in CASES if "segment_us" in str(case.id)])
def test_segmenter_returns_the_recorded_words(case, make, tmp_path):
    texts = sent(case).decode(errors="surrogateescape").split("\n")[:-1]
    recorded = base64.b64decode(case["stdout_b64"]).decode(errors="surrogateescape").split("\n")[:-1]
    answers = {line.replace(WORD, ""): line for line in recorded}
    replay = tmp_path / "words.json"
    replay.write_text(json.dumps(answers), encoding="utf-8")
    jumanpp = make(f"--fake-words={replay}")
    marked = jumanpp.segment(texts)
    assert len(marked) == len(texts)
    for text, words in zip(texts, marked, strict=True):
        assert words.replace(WORD, "") == text or WORD in text
        if len(text) < 100 and text in answers and encodable(text):
            assert words == answers[text]
    refused = sum(WORD in text or not encodable(text) for text in texts)
    assert sum(jumanpp.tally.values()) == refused


def encodable(text: str) -> bool:
    """Whether it is valid UTF-8, as far as Python goes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
