"""`jprep work` without a scheduler: shares of a queue, numbered by an option or by the variable of an array."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Run, digests

BUILD = ["corpus", "build", "--text", "*.txt", "--segmenter", "none", "-o"]
QUEUE = ["--executor", "queue", "--set", "executor.wait=false"]


def test_shares_of_every_stage(tmp_path: Path, jprep: Run) -> None:
    for number in range(3):
        text = "".join(f"これは{number}の{each}番目の文書です。\n\n" for each in range(20))
        (tmp_path / f"{number}.txt").write_text(text, encoding="utf-8")
    jprep(*BUILD, "local", "--workers", 1, cwd=tmp_path)
    waits = jprep(*BUILD, "corpus", *QUEUE, cwd=tmp_path).stderr
    assert "documents: " in waits and "jprep work corpus" in waits
    assert "--index, the number of this share" in jprep("work", "corpus", "--of", 2, cwd=tmp_path, code=2).stderr
    stages = list[str]()
    while not (tmp_path / "corpus/corpus.json").exists():
        assert len(stages) < 10
        shares = [jprep("work", "corpus", "--index", 0, "--of", 2, "--workers", 1, cwd=tmp_path).stderr]
        env = {"JOB_COMPLETION_INDEX": "1"}
        shares.append(
            jprep("work", tmp_path / "corpus", "--of", 2, "--workers", 1, cwd=tmp_path / "local", env=env).stderr
        )
        stages += [share.partition(":")[0] for share in shares]
        assert all("0 failed, 0 left" in share for share in shares)
        jprep(*BUILD, "corpus", *QUEUE, cwd=tmp_path)
    assert stages[:2] == ["documents", "documents"]
    assert digests(tmp_path / "corpus") == digests(tmp_path / "local")
    assert "no tasks wait" in jprep("work", "corpus", cwd=tmp_path).stderr
    assert "no such directory\n  where: corpsu" in jprep("work", "corpsu", cwd=tmp_path, code=2).stderr


def test_dry_run_shows_the_scripts(tmp_path: Path, jprep: Run) -> None:
    (tmp_path / "a.txt").write_text("これは文書です。\n", encoding="utf-8")
    options = ["--dry-run", "--set", "executor.wait=false", "--set", "executor.time='4:00:00'", "--executor"]
    for executor, words in {
        "slurm": ["#SBATCH --array=0-LAST", "--dependency=afterany:JOB", "sbatch --parsable"],
        "pbs": ["#PBS -J 0-LAST", "depend=afterany:JOB", "walltime=04:00:00"],
        "grid-engine": ["#$ -t 1-LAST", "-hold_jid JOB", "h_rt=04:00:00"],
    }.items():
        shown = jprep(*BUILD, "corpus", *options, executor, cwd=tmp_path).stdout
        assert all(word in shown for word in words)
        assert "the tasks of documents" in shown and "the tasks of dedup" in shown and "--dry-run" not in shown
    assert not (tmp_path / "corpus").exists()
