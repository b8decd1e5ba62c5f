"""`jprep quality` killed: the same bytes, and no answered request again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Run, digests
from tests.fakes.chat_server import chat_server, completion


@pytest.mark.parametrize(
    "at", ["judge.replied", "judge.replied@6", "output.written", "output.renamed", "output.renamed@3"]
)
def test_a_killed_run_resumes(at: str, tmp_path: Path, jprep: Run) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(f"文書{number}" for number in range(8)), encoding="utf-8")
    (tmp_path / "prompt.txt").write_text("採点：{text}", encoding="utf-8")
    with chat_server(lambda prompt, attempt: completion(f"Score: {len(prompt)}"[-1])) as server:
        words = ("texts.txt", "--endpoint", server.url, "--model", "m", "--prompt", "prompt.txt", "--concurrency", 1)
        jprep("quality", "judge", *words, "-o", "calm", cwd=tmp_path)
        server.prompts.clear()
        killed = {"JPREP_FAILPOINT": f"{at}=die", "JPREP_JUDGE_KEY": "k"}
        jprep("quality", "judge", *words, "-o", "rough", cwd=tmp_path, env=killed, code=-9)
        done = jprep("quality", "judge", *words, "-o", "rough", cwd=tmp_path)
        assert "without_score" in done.stdout
        assert set(server.prompts.values()) == {1} and len(server.prompts) == 8
    assert digests(tmp_path / "rough") == digests(tmp_path / "calm")


@pytest.mark.parametrize("at", ["output.opened@2", "output.written@2", "output.renamed@2", "output.renamed@3"])
def test_a_killed_training_starts_anew(at: str, tmp_path: Path, jprep: Run) -> None:
    for name, text in (("good", "歴史と文化の研究"), ("bad", "激安！クリック")):
        lines = "\n".join(f"{text}{chr(0x4E00 + number)}" for number in range(200))
        (tmp_path / f"{name}.txt").write_text(lines, encoding="utf-8")
    words = ("quality", "train", "--good", "good.txt", "--bad", "bad.txt", "--bits", 8, "-o")
    jprep(*words, "calm", cwd=tmp_path)
    jprep(*words, "rough", cwd=tmp_path, env={"JPREP_FAILPOINT": f"{at}=die"}, code=-9)
    jprep(*words, "rough", cwd=tmp_path)
    assert digests(tmp_path / "rough") == digests(tmp_path / "calm")
