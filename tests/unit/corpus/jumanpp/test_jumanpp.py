"""The Juman++ segmenter, with a fake program that fails like Juman++, and with the real one if it is installed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.document import WORD
from jprep.corpus.segmenters import analyzer_client, analyzer_process
from jprep.corpus.segmenters.jumanpp import JumanppSegmenter, configured_model, parse_words
from jprep.errors import ConfigError, MachineError
from jprep.testing.conformance.segmenter import HARD, LONG, SENTENCES, SegmenterSuite, check
from tests.conftest import PATIENCE


class TestContract(SegmenterSuite):
    @pytest.fixture
    def segmenter(self, either):
        either.tally.clear()
        return either

    @given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters=WORD))))
    @settings(deadline=None, max_examples=50)
    def test_joined_words_are_the_texts(self, either, texts):
        check(either, texts)

    @given(texts=st.lists(st.text(st.sampled_from("# \n\0\x03\t\u3000あアー亜a1(^)。\\␣"), max_size=200)))
    @settings(deadline=None, max_examples=50)
    def test_hostile_texts(self, either, texts):
        check(either, texts)

    def test_a_hash_before_a_space_is_a_word(self, segmenter):
        assert segmenter.segment(["# 注釈"])[0].split(WORD)[:2] == ["#", " "]

    def test_kaomoji_is_one_word(self, segmenter):
        assert segmenter.segment(["こんにちは(^ ^)"]) == [WORD.join(["こんにちは", "(^ ^)"])]

    def test_large_batch_does_not_deadlock(self, segmenter):
        check(segmenter, ["東京タワーは高い塔である。" * 20] * 3_000)

    def test_its_version_and_model_are_in_the_provenance(self, segmenter):
        found = segmenter.provenance()
        assert found["jumanpp"].startswith("Juman++ Version: ")
        assert found["jumanpp --model"].startswith("sha256:")

    def test_process_is_reused_between_batches(self, segmenter):
        segmenter.segment(SENTENCES)
        first = segmenter._segmenting._child.pid
        segmenter.segment(SENTENCES)
        assert segmenter._segmenting._child.pid == first


def test_only_supported_lines_are_sent(make, tmp_path):
    log = tmp_path / "sent"
    make(f"--fake-log={log}").segment([*HARD, *LONG, *SENTENCES])
    sent = log.read_bytes().split(b"\n")
    assert max(map(len, sent)) <= 1000
    assert not [line for line in sent if line.startswith(b"# ") or b"\x1f" in line]
    text = log.read_text(encoding="utf-8", errors="strict")
    assert not re.search(r"[ぁ-ヿ]{129}|[一-鿿]{129}|[A-Za-z]{129}|[А-я]{129}", text)


LINES = [f"これは{number}番目の文です" for number in range(40)]
TRAPPED = [*LINES[:17], "ここに罠がある", *LINES[17:]]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("hang", "timeout"),
        ("die", "died"),
        ("drop", "lines"),
        ("double", "lines"),
        ("flood", "lines"),
        ("change", "changed"),
        ("garbage", "changed"),
        pytest.param("memory", "died", marks=pytest.mark.skipif(sys.platform != "linux", reason="no limit on memory")),
    ],
)
def test_failure_affects_its_own_line_only(make, fault, reason):
    jumanpp = make(f"--fake-fault={fault}", timeout=6.0 if fault == "hang" else 60.0)
    jumanpp.segment(["温めておく"])
    marked = jumanpp.segment(TRAPPED)
    assert marked[17] == TRAPPED[17]
    assert marked[:17] + marked[18:] == make().segment(LINES)
    assert jumanpp.tally == {f"unsegmented.{reason}": 1}


def test_sentence_with_a_failed_part_is_unsegmented(make):
    text = "無事な文。" * 100 + "罠の文。" + "無事な文。" * 100
    jumanpp = make("--fake-fault=die")
    assert jumanpp.segment([text, "無事"]) == [text, "無事"]
    assert jumanpp.tally == {"unsegmented.died": 1}


def test_standard_error_is_drained(make):
    jumanpp = make("--fake-fault=stderr")
    check(jumanpp, TRAPPED)


def test_occasional_crashes_lose_no_line(make):
    jumanpp = make("--fake-life=15")
    assert jumanpp.segment(LINES) == make().segment(LINES)
    assert not jumanpp.tally


def test_program_that_always_dies_is_an_error(make, monkeypatch):
    monkeypatch.setattr(analyzer_client, "_MAX_FAILURES", 5)
    with pytest.raises(MachineError, match="failed 5 times in 0 lines, last with died"):
        make("--fake-life=1").segment(LINES)


def test_program_that_dies_often_is_an_error(make, monkeypatch):
    monkeypatch.setattr(analyzer_client, "_MAX_FAILURES", 8)
    with pytest.raises(MachineError, match=r"failed \d+ times in \d+ lines, last with died") as caught:
        make("--fake-life=4").segment(LINES * 10)
    assert "--segment" in caught.value.where and "memory_mb" in caught.value.fix


def test_interrupt_discards_partial_answers(make, monkeypatch):
    jumanpp = make()
    jumanpp.segment(LINES)
    pid = jumanpp._segmenting._child.pid
    with monkeypatch.context() as patch:
        patch.setattr(
            analyzer_process.AnalyzerProcess, "_chunk", lambda *_: signal.raise_signal(signal.SIGINT) or time.sleep(60)
        )
        with pytest.raises(KeyboardInterrupt):
            jumanpp.segment(LINES)
    assert gone(pid)
    assert jumanpp.segment(SENTENCES) == make().segment(SENTENCES)


def gone(pid: int) -> bool:
    """Wait until the process has exited."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_close_ends_the_process_and_the_next_batch_starts_one(make):
    jumanpp = make()
    before = jumanpp.segment(SENTENCES)
    pid = jumanpp._segmenting._child.pid
    jumanpp.close()
    assert gone(pid)
    assert jumanpp.segment(SENTENCES) == before


def test_process_exits_with_its_parent(program):
    script = f"""
        import os, signal
        from jprep.corpus.segmenters.jumanpp import JumanppSegmenter
        jumanpp = JumanppSegmenter(JumanppSegmenter.Config(program={str(program)!r}))
        jumanpp.segment(["東京タワー"])
        print(jumanpp._segmenting._child.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    assert gone(int(ran.stdout))


def test_a_script_that_runs_the_program_is_killed_with_it(program, tmp_path):
    wrapper = tmp_path / "jumanpp"
    wrapper.write_text(f'#!/bin/sh\n{shlex.quote(str(program))} "$@"\nexit 0\n')
    wrapper.chmod(0o755)
    model = str(configured_model(str(program)))
    config = JumanppSegmenter.Config(program=str(wrapper), model=model, args=("--fake-fault=hang",), timeout=6.0)
    jumanpp = JumanppSegmenter(config)
    assert jumanpp.segment(["罠の文"]) == ["罠の文"]
    assert jumanpp.tally == {"unsegmented.timeout": 1}


def test_missing_program_error_suggests_the_default():
    with pytest.raises(MachineError, match="program 'no-such-jumanpp' not found") as caught:
        JumanppSegmenter(JumanppSegmenter.Config(program="no-such-jumanpp")).segment(SENTENCES)
    assert "pointwise" in caught.value.fix


def test_a_missing_model_is_named(make, tmp_path):
    with pytest.raises(MachineError, match="not found"):
        make(model=str(tmp_path / "none.jppmdl")).segment(SENTENCES)


def test_model_of_another_version_shows_the_program_s_error(make, tmp_path):
    model = tmp_path / "old.jppmdl"
    model.write_bytes(b"something else")
    with pytest.raises(MachineError, match="corrupted header"):
        make(model=str(model)).segment(SENTENCES)


def test_unknown_default_model_is_an_error(program, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    lonely = shutil.copy(program, tmp_path / "bin")
    with pytest.raises(MachineError, match="cannot find the default model") as caught:
        JumanppSegmenter(JumanppSegmenter.Config(program=str(lonely))).provenance()
    assert "model" in caught.value.fix


def test_program_that_does_not_start_is_an_error(make):
    command = [*make()._segmenting._command, "no-such-file"]
    lost = analyzer_client.AnalyzerClient(
        command, b"\x03\n", parse_words, growth=2, batch=10, timeout=3.0, memory_mb=512
    )
    with pytest.raises(MachineError, match=r"does not work \(timeout\): .*failed to read an example failed"):
        lost.ask(LINES)


@pytest.mark.parametrize("arg", ["input.txt", "-s", "--beam", "5", "--model=other.jppmdl", "--format=juman"])
def test_invalid_arguments_are_an_error(arg):
    with pytest.raises(ConfigError, match=re.escape(arg.partition("=")[0])):
        JumanppSegmenter(JumanppSegmenter.Config(args=(arg,)))


@pytest.mark.parametrize("bad", [{"max_line_bytes": 5000}, {"max_run": 400}, {"batch": 0}, {"timeout": 0}, {"wat": 1}])
def test_options_out_of_range_are_an_error(bad):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(bad, JumanppSegmenter.Config)


def test_files_that_options_name_are_hashed(make, tmp_path):
    extra = tmp_path / "rnn.model"
    extra.write_bytes(b"weights")
    assert make(f"--rnn-model={extra}").provenance()["jumanpp --rnn-model"].startswith("sha256:")
