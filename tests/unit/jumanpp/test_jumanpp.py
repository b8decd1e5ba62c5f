"""The Juman++ driver, against a fake that behaves and misbehaves as Juman++ does, and the real one where it is."""

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
from jprep.corpus.segmenters import driver, process
from jprep.corpus.segmenters.jumanpp import JumanppSegmenter, configured_model, read_words
from jprep.errors import ConfigError, MachineError
from jprep.testing.conformance.segmenter import HARD, LONG, SENTENCES, SegmenterSuite, check


class TestContract(SegmenterSuite):
    @pytest.fixture
    def segmenter(self, either):
        either.tally.clear()
        return either

    @given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters=WORD))))
    @settings(deadline=None, max_examples=50)
    def test_any_texts_are_given_back_whole(self, either, texts):
        check(either, texts)

    @given(texts=st.lists(st.text(st.sampled_from("# \n\0\x03\t\u3000あアー亜a1(^)。\\␣"), max_size=200)))
    @settings(deadline=None, max_examples=50)
    def test_hostile_texts_are_given_back_whole(self, either, texts):
        check(either, texts)

    def test_a_hash_before_a_space_is_a_word(self, segmenter):
        assert segmenter.segment(["# 注釈"])[0].split(WORD)[:2] == ["#", " "]

    def test_a_face_is_one_word(self, segmenter):
        assert segmenter.segment(["こんにちは(^ ^)"]) == [WORD.join(["こんにちは", "(^ ^)"])]

    def test_more_than_any_pipe_holds_does_not_deadlock(self, segmenter):
        check(segmenter, ["東京タワーは高い塔である。" * 20] * 3_000)

    def test_its_version_and_model_are_in_the_provenance(self, segmenter):
        found = segmenter.provenance()
        assert found["jumanpp"].startswith("Juman++ Version: ")
        assert found["jumanpp --model"].startswith("sha256:")

    def test_it_stays_alive_between_batches(self, segmenter):
        segmenter.segment(SENTENCES)
        first = segmenter._segmenting._child.pid
        segmenter.segment(SENTENCES)
        assert segmenter._segmenting._child.pid == first


def test_only_what_comes_back_is_sent(make, tmp_path):
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
def test_a_fault_harms_its_own_line_only(make, fault, reason):
    jumanpp = make(f"--fake-fault={fault}", timeout=6.0 if fault == "hang" else 60.0)
    jumanpp.segment(["温めておく"])
    marked = jumanpp.segment(TRAPPED)
    assert marked[17] == TRAPPED[17]
    assert marked[:17] + marked[18:] == make().segment(LINES)
    assert jumanpp.tally == {f"unsegmented.{reason}": 1}


def test_a_part_of_a_sentence_that_fails_leaves_it_whole(make):
    text = "無事な文。" * 100 + "罠の文。" + "無事な文。" * 100
    jumanpp = make("--fake-fault=die")
    assert jumanpp.segment([text, "無事"]) == [text, "無事"]
    assert jumanpp.tally == {"unsegmented.died": 1}


def test_a_flood_on_standard_error_is_drained(make):
    jumanpp = make("--fake-fault=stderr")
    check(jumanpp, TRAPPED)


def test_a_program_that_dies_now_and_then_loses_no_line(make):
    jumanpp = make("--fake-life=15")
    assert jumanpp.segment(LINES) == make().segment(LINES)
    assert not jumanpp.tally


def test_a_program_that_always_dies_is_given_up(make, monkeypatch):
    monkeypatch.setattr(driver, "_FAILURES", 5)
    with pytest.raises(MachineError, match="failed 5 times in 0 lines, at last with died"):
        make("--fake-life=1").segment(LINES)


def test_a_program_that_dies_every_few_lines_is_given_up(make, monkeypatch):
    monkeypatch.setattr(driver, "_FAILURES", 8)
    with pytest.raises(MachineError, match=r"failed \d+ times in \d+ lines, at last with died") as caught:
        make("--fake-life=4").segment(LINES * 10)
    assert "--segment" in caught.value.where and "memory_mb" in caught.value.fix


def test_an_interrupt_leaves_no_half_read_answer(make, monkeypatch):
    jumanpp = make()
    jumanpp.segment(LINES)
    pid = jumanpp._segmenting._child.pid
    with monkeypatch.context() as patch:
        patch.setattr(process.Child, "_chunk", lambda *_: signal.raise_signal(signal.SIGINT) or time.sleep(60))
        with pytest.raises(KeyboardInterrupt):
            jumanpp.segment(LINES)
    assert gone(pid)
    assert jumanpp.segment(SENTENCES) == make().segment(SENTENCES)


def gone(pid: int) -> bool:
    """Wait until there is no such process."""
    for _ in range(200):
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


def test_it_dies_with_its_parent(program):
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


def test_a_missing_program_says_what_else_to_take():
    with pytest.raises(MachineError, match="no program 'no-such-jumanpp'") as caught:
        JumanppSegmenter(JumanppSegmenter.Config(program="no-such-jumanpp")).segment(SENTENCES)
    assert "jumandic" in caught.value.fix


def test_a_missing_model_is_named(make, tmp_path):
    with pytest.raises(MachineError, match="no model"):
        make(model=str(tmp_path / "none.jppmdl")).segment(SENTENCES)


def test_a_model_of_another_version_is_the_programs_own_complaint(make, tmp_path):
    model = tmp_path / "old.jppmdl"
    model.write_bytes(b"something else")
    with pytest.raises(MachineError, match="corrupted header"):
        make(model=str(model)).segment(SENTENCES)


def test_a_model_that_nobody_names_is_asked_for(program, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    lonely = shutil.copy(program, tmp_path / "bin")
    with pytest.raises(MachineError, match="not known which model") as caught:
        JumanppSegmenter(JumanppSegmenter.Config(program=str(lonely))).provenance()
    assert "model" in caught.value.fix


def test_a_program_that_never_gets_to_its_input_is_given_up(make):
    command = [*make()._segmenting._command, "no-such-file"]
    lost = driver.Driver(command, b"\x03\n", read_words, growth=2, batch=10, timeout=3.0, memory_mb=512)
    with pytest.raises(MachineError, match=r"does not work \(timeout\): .*failed to read an example failed"):
        lost.ask(LINES)


@pytest.mark.parametrize("arg", ["input.txt", "-s", "--beam", "5", "--model=other.jppmdl", "--format=juman"])
def test_an_argument_that_juman_would_misread_is_refused(arg):
    with pytest.raises(ConfigError, match=re.escape(arg.partition("=")[0])):
        JumanppSegmenter(JumanppSegmenter.Config(args=(arg,)))


@pytest.mark.parametrize("bad", [{"max_line_bytes": 5000}, {"max_run": 400}, {"batch": 0}, {"timeout": 0}, {"wat": 1}])
def test_options_out_of_bounds_are_refused(bad):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(bad, JumanppSegmenter.Config)


def test_files_that_options_name_are_hashed(make, tmp_path):
    extra = tmp_path / "rnn.model"
    extra.write_bytes(b"weights")
    assert make(f"--rnn-model={extra}").provenance()["jumanpp --rnn-model"].startswith("sha256:")
