"""The section about runs: curves through restarts, checkpoints, differences, samples of text, long runs."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from jprep.engine.checksummed_json import encode_checksummed
from jprep.engine.manifest import write_manifest
from jprep.report.build import build_report
from jprep.report.runs import text_samples
from jprep.report.runs.differences import job_differences
from jprep.report.runs.history import POINTS, read_history
from jprep.report.runs.text_samples import sampled_texts
from jprep.report.section import ReportOptions
from jprep.train.evaluation.records import Evaluation, add_evaluation
from jprep.train.job.config import SeenSource
from jprep.train.launcher.cross_validation import FOLDS, summarize_folds
from jprep.train.run.directory import JOB, checkpoints_of, read_job
from jprep.train.run.events import EVENTS, Event, read_events, record_event
from jprep.train.run.text_samples import SampledText, add_samples, read_samples
from tests.fakes.trained_run import trained_run
from tests.unit.report.pages import HOSTILE, SHOWN, page_of

HOUR = 3600.0


def write_events(run: Path, events: list[Event]) -> None:
    (run / EVENTS).write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))


def interrupted(run: Path) -> list[Event]:
    """Return the events of a run that was killed after step 8, lost steps 6 to 8, and went on an hour later."""
    first = [Event(100 + step, step, "log", {"loss": 10.0 - step, "tokens_per_second": 50.0}) for step in range(1, 9)]
    again = [Event(HOUR + step, step, "log", {"loss": 5.0 - step / 10, "memory": 2e9}) for step in range(6, 11)]
    return [
        Event(100.0, 0, "start"),
        *first[:5], Event(105.5, 5, "checkpoint", {"seconds": 0.5}), *first[5:],
        Event(HOUR, 5, "restart", {}, f"the worker died: {HOSTILE}"),
        Event(HOUR, 5, "start"),
        *again,
        Event(HOUR + 11, 10, "validation", {"loss": 4.5}),
        Event(HOUR + 12, 10, "checkpoint", {"seconds": 0.5}),
        Event(HOUR + 13, 10, "end", {"code": 0.0}),
    ]  # fmt: skip


def test_curves_skip_what_a_restart_discarded(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    write_events(run, interrupted(run))
    found = read_history(run)
    loss = found.training["loss"]
    assert list(loss.steps) == list(range(1, 11))
    assert list(loss.values) == [9.0, 8.0, 7.0, 6.0, 5.0, 4.4, 4.3, 4.2, 4.1, 4.0]
    assert (found.starts, found.interruptions, found.saved, found.finished) == (2, 1, [5, 10], True)
    assert [moment.kind for moment in found.moments] == ["start", "restart", "start"]
    assert found.hours == pytest.approx((HOUR + 13 - 100) / HOUR)


def test_the_time_of_a_pause_is_not_time_with_a_worker(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    events = [Event(0.5, 0, "start"), Event(10.5, 5, "signal"), Event(7200, 5, "start"), Event(7210, 10, "end")]
    write_events(run, events)
    assert read_history(run).working_hours == pytest.approx(20 / HOUR)


def test_time_until_damage_is_found_is_not_time_with_a_worker(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    finished = [Event(100.0, 0, "start"), Event(112.0, 10, "end", {"code": 0.0})]
    again = [Event(170.0, 10, "damaged"), Event(171.0, 5, "start"), Event(172.5, 10, "end", {"code": 0.0})]
    write_events(run, finished + again)
    found = read_history(run)
    assert found.working_hours == pytest.approx(13.5 / HOUR) and found.interruptions == 1


@pytest.mark.parametrize("between", [[], [Event(900.0, 5, "damaged")], [Event(900.0, 5, "rewind")]])
def test_a_kill_without_an_event_is_an_interruption(tmp_path: Path, between: list[Event]) -> None:
    run = trained_run(tmp_path)
    killed = [Event(100.0, 0, "start"), Event(110.0, 6, "log", {"loss": 2.0})]
    write_events(run, [*killed, *between, Event(1000.0, 5, "start"), Event(1010.0, 10, "end", {"code": 0.0})])
    found = read_history(run)
    assert (found.starts, found.interruptions) == (2, 1 + len(between))
    assert found.working_hours == pytest.approx(20 / HOUR)
    assert found.moments[1][:2] == ("killed", 6) and found.moments[1].hours == pytest.approx(10 / HOUR)
    assert "ended without a record: killed, or its hosts were lost" in page_of([run])


def test_the_best_checkpoint_has_the_lowest_loss(tmp_path: Path) -> None:
    found = read_history(trained_run(tmp_path)).checkpoints
    assert [(each.step, each.loss, each.best) for each in found] == [(5, 3.5, True), (10, 3.75, False)]


def test_a_page_about_an_interrupted_run(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    write_events(run, interrupted(run))
    add_samples(run, [SampledText(5, HOSTILE, "東京"), SampledText(10, HOSTILE, f"日本{HOSTILE}")])
    page = page_of([run])
    assert SHOWN in page and "worker restarted" in page and "Dashed lines are restarts" in page
    assert "main memory, GB" in page and "Step 5" in page and "東京" in page


def test_evaluations_of_several_runs_are_one_table(tmp_path: Path) -> None:
    runs = [trained_run(tmp_path / "one"), trained_run(tmp_path / "two", seed=7)]
    for number, run in enumerate(runs):
        figures = {"loss": 3.25 + number, "accuracy": None}
        seal = checkpoints_of(run, read_job(run)).committed()[-1].commit.seal
        measured = Evaluation(
            job=read_job(run).fingerprint, step=10, checkpoint=seal, backend="torch", precision="fp32",
            name=HOSTILE, data=["d"], split="test",
            made_from=["1"], rows=1204, figures=figures,
        )  # fmt: skip
        add_evaluation(run, measured)
    page = page_of(runs)
    assert SHOWN in page and page.index("loss 3.2500; accuracy –") < page.index("loss 4.2500")
    [section] = build_report(runs).sections
    assert [run["evaluations"][0]["figures"]["loss"] for run in section.figures["runs"]] == [3.25, 4.25]


def test_runs_are_laid_over_each_other(tmp_path: Path) -> None:
    one, two = trained_run(tmp_path / "one"), trained_run(tmp_path / "two", seed=7)
    page = page_of([one, two])
    assert "Differences" in page and "train.seed" in page and page.count("Loss over steps") >= 2
    [section] = build_report([one, two]).sections
    assert section.title.startswith("Runs ") and len(section.figures["runs"]) == 2


def test_what_a_run_sees_of_its_mixture_is_listed(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    job = read_job(run)
    sources = [SeenSource("top", 30, 1234, 3.0), SeenSource("rest", 10, 567, 0.5)]
    write_manifest(run / JOB, msgspec.structs.replace(job, sources=sources))
    page = page_of([run])
    assert "What all steps of small see of the mixture" in page and "75.00%" in page and "1,234" in page
    [figures] = build_report([run]).sections[0].figures["runs"]
    assert [each["name"] for each in figures["sources"]] == ["top", "rest"]


def test_equal_jobs_have_no_differences(tmp_path: Path) -> None:
    job = read_history(trained_run(tmp_path)).job
    assert job_differences([job, job]) == []
    other = msgspec.structs.replace(job, options={"threads": 2})
    assert job_differences([job, other]) == [("options", ["{}", "–"]), ("options.threads", ["–", "2"])]


def test_a_long_run_is_averaged_in_groups(tmp_path: Path) -> None:
    run, steps = trained_run(tmp_path), 20_000
    write_events(run, [Event(step, step, "log", {"loss": float(step % 2)}) for step in range(1, steps + 1)])
    found = read_history(run).training["loss"]
    assert len(found.values) == POINTS and found.grouped == steps // POINTS
    assert set(found.values) == {0.5}
    assert f"mean of up to {found.grouped} logged values" in page_of([run])


def test_damaged_lines_and_values_that_are_not_finite_are_skipped(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    lines = [
        {"time": 1.0, "step": 1, "kind": "log", "figures": {"loss": None}},
        {"time": 2.0, "step": 2, "kind": "log", "figures": {"loss": 3.0}},
    ]
    (run / EVENTS).write_bytes(b"\xff\n" + b"".join(json.dumps(line).encode() + b"\n" for line in lines) + b'{"time"')
    assert list(read_history(run).training["loss"].values) == [3.0]


def test_a_run_that_has_not_begun(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    (run / EVENTS).unlink()
    page = page_of([run])
    assert "not started" in page and "Nothing was logged yet." in page


def test_kept_checkpoints_answer_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(run: Path, job: object, step: int, prompts: list[str]) -> list[SampledText]:
        return [SampledText(step, prompt, f"{prompt} at {step}") for prompt in prompts]

    monkeypatch.setattr(text_samples, "sample_checkpoint", answer)
    run = trained_run(tmp_path)
    add_samples(run, [SampledText(3, "日本", "recorded")])
    found = sampled_texts(read_history(run), ["東京"])
    assert [(each.step, each.text) for each in found] == [(3, "recorded"), (5, "東京 at 5"), (10, "東京 at 10")]
    page = build_report([run], ReportOptions(prompts=["東京"])).html()
    assert "東京 at 5" in page and "recorded" in page


def test_samples_survive_a_truncated_line(tmp_path: Path) -> None:
    add_samples(tmp_path, [SampledText(1, "a", "old"), SampledText(1, "b", error="no")])
    path = tmp_path / "samples.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step":2,"pro')
    add_samples(tmp_path, [SampledText(1, "a", "new"), SampledText(0, "a", "first")])
    assert [(each.step, each.prompt, each.text) for each in read_samples(tmp_path)] == [
        (0, "a", "first"), (1, "a", "new"), (1, "b", ""),
    ]  # fmt: skip


def test_events_are_iterated_as_they_are_read(tmp_path: Path) -> None:
    from jprep.train.run.events import iter_events

    for step in range(3):
        record_event(tmp_path, "log", step, {"loss": 1.0})
    assert list(iter_events(tmp_path)) == read_events(tmp_path)
    assert list(iter_events(tmp_path / "none")) == []


def test_filled_masks_stand_beside_their_prompt(tmp_path: Path) -> None:
    for name, task, kind, between in (("mlm", "mlm", "roberta", " → "), ("clm", "clm", "gpt2", "")):
        run = trained_run(tmp_path / name, task, kind)
        add_samples(run, [SampledText(5, "日本", "東京")])
        assert f"<b>日本</b>{between}東京</dd>" in page_of([run])


def test_samples_of_text_are_left_out_for_tasks_that_write_none(tmp_path: Path) -> None:
    labelled, lm = trained_run(tmp_path / "a", "classify", "bert"), trained_run(tmp_path / "b", "clm", "gpt2")
    assert "Samples of text" not in page_of([labelled])
    page = page_of([labelled, lm])
    assert "These runs have recorded no samples" in page and "<code>train.samples</code> in docs/runs.md" in page
    add_samples(labelled, [SampledText(5, "良い", "好評")])
    assert "Samples of text" in page_of([labelled])


def test_the_folds_of_a_cross_validation_are_runs(tmp_path: Path) -> None:
    folds = tmp_path / "folds"
    folds.mkdir()
    for number in range(2):
        trained_run(tmp_path / f"made-{number}").rename(folds / f"fold-{number}")
    (folds / "folds.json").write_text("{}")
    [section] = build_report([folds]).sections
    assert section.title == "Runs small (fold-0), small (fold-1)"
    summary = summarize_folds("small", sorted(folds.glob("fold-*")))
    (folds / FOLDS).write_bytes(encode_checksummed(summary))
    page = page_of([folds])
    assert "Figures of small over all folds" in page and "Step of the validation" in page
    assert f"<td>{summary.figures['loss'].mean:.4f}</td>" in page


def test_a_loss_that_is_not_finite_is_shown(tmp_path: Path) -> None:
    run = trained_run(tmp_path)
    logged = [Event(1.0 + step, step, "log", {"loss": 5.0 - step if step < 3 else None}) for step in range(1, 6)]
    write_events(run, [Event(1.0, 0, "start"), *logged])
    assert read_history(run).undefined == [3, 4, 5]
    page = page_of([run])
    assert "<td>not finite</td>" in page and "3, the first at step 3" in page
    write_events(run, [Event(1.0, 0, "start"), *logged, Event(9.0, 2, "start"), Event(10.0, 3, "log", {"loss": 1.0})])
    assert read_history(run).undefined == [] and "<td>none</td>" in page_of([run])
