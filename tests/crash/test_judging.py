"""`jprep quality judge` killed after any reply: the same labels, and no answered request again."""

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
