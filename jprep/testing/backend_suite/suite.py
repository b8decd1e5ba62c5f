"""The tests that every backend must pass. A backend's own tests subclass `BackendSuite`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from jprep.errors import ConfigError, JprepError
from jprep.io.safetensors_file import TensorFiles, read_header
from jprep.testing.backend_suite.cases import CASES, NO_DROPOUT, SAVED, STEPS, WITH_DROPOUT, case_of, golden_curve
from jprep.testing.backend_suite.curves import (
    assert_agrees,
    assert_ended_well,
    assert_falls,
    golden_losses,
    mean_of_five,
    norm_of_first_gradient,
)
from jprep.testing.backend_suite.runner import FinishedRun, SuiteRunner, cases_to_start, partial_folders, stop_after
from jprep.train.backend_loading import load_backend
from jprep.train.evaluation.evaluate import evaluate
from jprep.train.launcher.environments import worker_python
from jprep.train.models import parameters
from jprep.train.models.weights import HEAD_PARAMETERS, HEAD_PREFIX
from jprep.train.run.directory import read_job

PARITY = 1e-4
"""Relative tolerance between a backend's loss curve and the golden one, over all steps."""

SAME = 1e-5
"""Relative tolerance between two divisions of the same batches on one backend, in the first `EARLY` steps."""

EARLY = 20
DIVIDED = "roberta-mlm"
"""The case for dividing batches: its rows differ in their number of labels."""

LABELLED = "bert-classify"
"""A case whose last validation batch is so short that one of two processes has no row of it."""

SAMPLED = "electra-rtd"
"""A case with tokens sampled from a model."""

DOCUMENTS = "roberta-documents"
"""A case with documents whose tokens do not see each other."""

UNSUPPORTED = (SAMPLED, DOCUMENTS, "gpt2-stages", "gpt2-muon", "bert-weighted")
"""Cases that a backend may refuse."""

PAIRS = "bert-nsp"
"""A case with sentence pairs."""

HOOK_NAMES = ("token_loss", "weighted_loss", "raises", "MeanPoolingHead", "margin")
"""What a file of hooks has: the loss of `mlm`; that of `classify` with weights of its three classes, and their sum as
the count; a loss that calls a method which does not exist; a head with several parameters; a metric."""

_ONE_STEP: dict[str, Any] = {"steps": 1, "schedule": {}, "validation": {}}
_DECAYED = {"lr": 1e-4, "weight_decay": 1000.0, "decay": "all", "clip": 0.0}

_ENDLESS = 1_000_000  # steps
_BAD_OPTION, _BAD_INPUT = 2, 4


class BackendSuite:
    """Tests of a backend. Subclass it with `backend`, and set what else the backend supports.

        class TestMine(BackendSuite):
            backend = "mine"

    Attributes:
        backend: the backend's name.
        options: the backend's options for all runs, such as those for deterministic results.
        cases: the supported jobs, from `jprep.testing.backend_suite.cases.CASES`.
        micro_batch_of_two: options for a micro-batch of two rows; empty if not supported.
        two_processes: options for two processes that divide the batch; empty if not supported.
        two_devices: options for two devices of one process that divide the batch, for backends without `two_processes`.
        equivalent_options: name → options that must give the same steps, such as sharding and gradient checkpointing.
        precisions: the precisions besides fp32 that are supported on this machine.
        resumes_from: the backends whose runs are resumed, if they are installed.
        hooks: a file with hooks for the framework, named as in `HOOK_NAMES`; None if the backend supports none.
    """

    backend: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}
    cases: ClassVar[tuple[str, ...]] = tuple(CASES)
    micro_batch_of_two: ClassVar[Mapping[str, Any]] = {}
    two_processes: ClassVar[Mapping[str, Any]] = {}
    two_devices: ClassVar[Mapping[str, Any]] = {}
    equivalent_options: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    precisions: ClassVar[tuple[str, ...]] = ()
    resumes_from: ClassVar[tuple[str, ...]] = ()
    hooks: ClassVar[Path | None] = None

    _bench: ClassVar[SuiteRunner]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize tests over cases, equivalent options, precisions and other backends."""
        named = {
            "case": self.cases,
            "variant": self.equivalent_options,
            "precision": self.precisions,
            "source_backend": self.resumes_from,
        }
        for name, values in named.items():
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, list(values))

    @pytest.fixture
    def bench(self, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SuiteRunner:
        """Return the runner of this class, which trains each case once, and starts this test's and the next one's."""
        cls = type(self)
        if "_bench" not in vars(cls):
            cls._bench = SuiteRunner(tmp_path_factory.mktemp(self.backend), self.backend, self.options)
        for case in cases_to_start(request):
            cls._bench.start(case)
        return cls._bench

    def test_names_its_backend_and_known_cases(self) -> None:
        """A suite needs a backend and at least one known case."""
        assert getattr(self, "backend", ""), f'{type(self).__name__} names no backend; add e.g. `backend = "torch"`'
        known = ", ".join(CASES)
        assert self.cases, f"{type(self).__name__} has no `cases`; name some of {known}, or leave it out for all"
        assert set(self.cases) <= set(CASES), f"unknown cases {sorted(set(self.cases) - set(CASES))}; known: {known}"

    def test_the_loss_falls(self, bench: SuiteRunner, case: str) -> None:
        """Every step's loss is logged, and the last losses are lower than the first."""
        losses = bench.trained(case).losses()
        assert list(losses) == list(range(1, STEPS + 1)), "log_every = 1: a loss for every step, from step 1"
        assert_falls(losses, 0.85)

    def test_the_curve_is_the_golden_one(self, bench: SuiteRunner, case: str) -> None:
        """The same weights and batches give the losses of the reference implementation (`docs/training.md`)."""
        assert_agrees(bench.trained(case).losses(), golden_losses(case), PARITY)

    def test_the_validation_loss_is_the_golden_one(self, bench: SuiteRunner, case: str) -> None:
        """The validation loss is that of the whole split, each row once, without dropout."""
        assert_agrees(bench.trained(case).losses("validation"), golden_curve(case).validation, PARITY)

    def test_every_weight_is_exported(self, bench: SuiteRunner, case: str) -> None:
        """Weights are exported under transformers' names, in fp32, tied ones once, complete and without additions."""
        trained = bench.trained(case)
        job = read_job(trained.run)
        found = read_header(bench.exported(trained))
        wanted = {name: tensor.shape for name, tensor in parameters(job.model, job.train.objective).items()}
        assert {name: entry.shape for name, entry in found.items()} == wanted
        assert {entry.dtype for entry in found.values()} == {"F32"}

    def test_an_exported_model_has_the_measured_loss(self, bench: SuiteRunner) -> None:
        """Exported weights that are the `model.init` of another run give the same validation loss, measured without
        dropout."""
        self._requires_case(WITH_DROPOUT)
        trained = bench.trained(WITH_DROPOUT)
        model = case_of(WITH_DROPOUT).section["model"] | {"init": str(bench.exported(trained))}
        still = {"lr": 1e-30, "weight_decay": 0.0}
        again = bench.trained(
            WITH_DROPOUT, model=model, optimizer=still, steps=1, schedule={}, validation={"every_steps": 1}
        )
        measured, found = trained.losses("validation")[STEPS], again.losses("validation")[1]
        assert found == pytest.approx(measured, rel=1e-6), f"{measured} when it was trained, {found} after the export"
        if load_backend(self.backend).evaluates:
            initial = evaluate(again.run, split="validation", which="initial").figures["loss"]
            assert initial == pytest.approx(found, rel=SAME), "the loss of the initial weights"

    @pytest.mark.parametrize("name", [WITH_DROPOUT, LABELLED, SAMPLED])
    def test_an_evaluation_gives_the_figures_of_the_validation(self, bench: SuiteRunner, name: str) -> None:
        """`jprep evaluate` measures the last checkpoint as training did, in one process and in two."""
        self._requires_case(name)
        if not load_backend(self.backend).evaluates:
            pytest.skip(f"{self.backend} evaluates no run")
        trained, split = bench.trained(name), "" if name == LABELLED else "validation"
        for options in ({}, self.two_processes):
            settings = {f"train.backend.{self.backend}.{option}": value for option, value in options.items()}
            found = evaluate(trained.run, split=split, settings=settings).figures
            for figure, value in trained.last_validation().items():
                assert found[figure] == pytest.approx(value, rel=SAME, abs=1e-7), figure

    @pytest.mark.parametrize("name", [WITH_DROPOUT, LABELLED])
    def test_a_killed_run_ends_like_an_uninterrupted_one(self, bench: SuiteRunner, name: str) -> None:
        """A worker that is killed before its second checkpoint resumes from the first one: the same losses and
        exported bytes, dropout included."""
        self._requires_case(name)
        whole = bench.trained(name)
        killed = bench.train(bench.prepare(name), JPREP_FAILPOINT="run.committed@2")
        assert_ended_well(killed)
        assert [event.step for event in killed.events() if event.kind == "start"] == [0, SAVED], (
            "it must be killed once and resume from its checkpoint"
        )
        for kind in ("log", "validation"):
            assert_agrees(killed.losses(kind), whole.losses(kind), 0.0)
        assert bench.exported(killed).read_bytes() == bench.exported(whole).read_bytes(), "the weights differ"

    def test_a_stopped_run_saves_and_resumes(self, bench: SuiteRunner) -> None:
        """On SIGTERM the worker saves the last step, and the next start resumes from it."""
        prepared = bench.prepare(self.cases[0], steps=_ENDLESS, validation={}, checkpoint={"every_steps": 0})
        first = stop_after(bench, prepared, after=3)
        reached = max(first.losses())
        assert first.checkpoint().name == f"step-{reached:08d}"
        second = stop_after(bench, prepared, after=reached + 3)
        assert [event.step for event in second.events() if event.kind == "start"] == [0, reached]
        assert list(second.losses()) == list(range(1, max(second.losses()) + 1)), "a step is missing"

    def test_a_non_finite_loss_ends_the_run(self, bench: SuiteRunner) -> None:
        """The run ends with exit code 4, without a restart, and keeps the last valid checkpoint."""
        optimizer = {"lr": 1e30, "weight_decay": 0.0}
        prepared = bench.prepare(self.cases[0], optimizer=optimizer, checkpoint={"every_steps": 1}, schedule={})
        ended = bench.train(prepared)
        assert ended.code == _BAD_INPUT, f"it ended with {ended.code}: {ended.messages}"
        events = ended.events()
        assert [event.step for event in events if event.kind == "start"] == [0], "a restart is pointless"
        assert [event.figures.get("code") for event in events if event.kind == "end"] == [_BAD_INPUT]
        good = max(event.step for event in events if event.kind == "log" and event.figures.get("loss") is not None)
        assert ended.checkpoint().name == f"step-{good:08d}", "the last valid checkpoint must be kept"
        assert partial_folders(ended.run) == []

    def test_weight_decay_of_all_tensors_includes_norms(self, bench: SuiteRunner) -> None:
        """With `optimizer.decay = "all"`, one step shrinks the weights of norms by the rate times the decay."""
        trained = bench.trained(self.cases[0], optimizer=_DECAYED, **_ONE_STEP)
        job, weights = read_job(trained.run), TensorFiles([bench.exported(trained)])
        norms = [name for name, tensor in parameters(job.model, job.train.objective).items() if tensor.kind == "ones"]
        assert norms
        for name in norms:  # 1 - 1e-4 * (1000 + at most 1)
            np.testing.assert_allclose(weights[name], 0.9, atol=2e-4)

    def test_a_gradient_is_clipped_to_the_norm_of_the_job(self, bench: SuiteRunner) -> None:
        """After one step, AdamW's first average is (1 - β₁) · the clipped gradient; a limit of 0 is none."""
        whole = bench.trained(self.cases[0], optimizer=_DECAYED, **_ONE_STEP)
        norm = whole.figures("norm", "log")[1]
        assert norm_of_first_gradient(whole) == pytest.approx(norm, rel=1e-5)
        clipped = bench.trained(self.cases[0], optimizer=_DECAYED | {"clip": 0.75 * norm}, **_ONE_STEP)
        assert norm_of_first_gradient(clipped) == pytest.approx(0.75 * norm, rel=1e-5)

    def test_an_unknown_option_is_refused(self, bench: SuiteRunner) -> None:
        """The error names the closest option."""
        known = load_backend(self.backend).Options.__struct_fields__[0]
        with pytest.raises(ConfigError) as error:
            bench.prepare(self.cases[0], {f"{known}x": 1})
        assert error.value.exit_code == _BAD_OPTION
        assert f"{known!r}" in str(error.value)

    def test_an_indivisible_batch_is_refused(self, bench: SuiteRunner) -> None:
        """The error comes from the planner, before the run starts."""
        self._requires_options(self.two_processes, "several processes")
        with pytest.raises(ConfigError, match="divided"):
            bench.prepare(self.cases[0], self.two_processes, batch=7)

    @pytest.mark.parametrize("name", UNSUPPORTED)
    def test_what_is_not_supported_is_refused(self, bench: SuiteRunner, name: str) -> None:
        """A backend trains a job of this kind as the golden curve says, or refuses it when the run is planned."""
        if name in self.cases:
            return
        with pytest.raises(ConfigError):
            bench.prepare(name)

    def test_a_micro_batch_of_two_makes_the_same_steps(self, bench: SuiteRunner) -> None:
        """Accumulated gradients equal those of the whole batch, although micro-batches differ in number of labels."""
        self._requires_options(self.micro_batch_of_two, "gradient accumulation")
        self._requires_case(DIVIDED)
        prepared = bench.prepare(DIVIDED, self.micro_batch_of_two)
        assert (prepared.plan.micro_batch, prepared.plan.accumulate) == (2, 4), (
            "expected four micro-batches of two rows"
        )
        _takes_the_same_steps(bench, DIVIDED, bench.train(prepared))

    @pytest.mark.parametrize("name", [DIVIDED, LABELLED, DOCUMENTS])
    def test_two_processes_make_the_same_steps(self, bench: SuiteRunner, name: str) -> None:
        """Two processes give the steps of one process, also when one of them is killed."""
        self._requires_options(self.two_processes, "several processes")
        self._requires_case(name)
        prepared = bench.prepare(name, self.two_processes)
        assert prepared.plan.processes == 2
        kill = {} if name == LABELLED else {"JPREP_FAILPOINT": "run.committed@2"}
        trained = bench.train(prepared, **kill)
        starts = [event.step for event in trained.events() if event.kind == "start"]
        assert starts == ([0, SAVED] if kill else [0]), trained.messages
        _takes_the_same_steps(bench, name, trained)

    def test_replaced_tokens_do_not_depend_on_the_division(self, bench: SuiteRunner) -> None:
        """Two processes with smaller micro-batches sample the same tokens as one, also when one of them is killed."""
        self._requires_options(self.two_processes, "several processes")
        self._requires_case(SAMPLED)
        prepared = bench.prepare(SAMPLED, {**self.two_processes, **self.micro_batch_of_two})
        trained = bench.train(prepared, JPREP_FAILPOINT="run.committed@2")
        assert [event.step for event in trained.events() if event.kind == "start"] == [0, SAVED], trained.messages
        _takes_the_same_steps(bench, SAMPLED, trained)

    def test_sentence_pairs_do_not_depend_on_the_division(self, bench: SuiteRunner) -> None:
        """Two processes with smaller micro-batches give the losses and the accuracy of one with whole batches."""
        self._requires_options(self.two_processes, "several processes")
        self._requires_case(PAIRS)
        trained = bench.train(bench.prepare(PAIRS, {**self.two_processes, **self.micro_batch_of_two}))
        _takes_the_same_steps(bench, PAIRS, trained)
        found = trained.metric("next_sentence_accuracy")
        assert list(found) == [STEPS // 2, STEPS], "next_sentence_accuracy must be logged with each validation"
        assert found == pytest.approx(bench.trained(PAIRS).metric("next_sentence_accuracy"), abs=0.1)

    def test_a_padded_vocabulary_makes_the_same_steps(self, bench: SuiteRunner) -> None:
        """With `model.pad_vocab`, padding takes no part in the softmax, and no weight has it."""
        self._requires_case(DIVIDED)
        model = case_of(DIVIDED).section["model"] | {"pad_vocab": 1000}
        trained = bench.train(bench.prepare(DIVIDED, model=model))
        _takes_the_same_steps(bench, DIVIDED, trained)
        ids = read_job(trained.run).model["vocab_size"]
        assert ids % 1000 and max(entry.shape[0] for entry in read_header(bench.exported(trained)).values()) == ids

    def test_equivalent_options_make_the_same_steps(self, bench: SuiteRunner, variant: str) -> None:
        """Options that save memory or time do not change the steps."""
        self._requires_case(DIVIDED)
        _takes_the_same_steps(bench, DIVIDED, bench.train(bench.prepare(DIVIDED, self.equivalent_options[variant])))

    def test_mixed_precision_learns_as_well(self, bench: SuiteRunner, precision: str) -> None:
        """The loss falls as in fp32, within a few percent."""
        losses = bench.trained(self.cases[0], precision=precision).losses()
        assert_falls(losses, 0.85)
        whole = bench.trained(self.cases[0]).losses()
        assert mean_of_five(losses, last=True) == pytest.approx(mean_of_five(whole, last=True), rel=0.05)

    def test_a_run_of_another_backend_resumes(self, bench: SuiteRunner, source_backend: str) -> None:
        """A checkpoint of another backend is resumed, with no difference but rounding."""
        self._requires_case(DIVIDED)
        try:
            backend = load_backend(source_backend)
            worker_python(backend)
        except JprepError as error:
            pytest.skip(str(error))
        trained = bench.resumed_from(DIVIDED, source_backend, SAVED)
        assert_ended_well(trained)
        assert [event.step for event in trained.events() if event.kind == "start"] == [0, SAVED]
        assert_agrees(trained.losses(), golden_losses(DIVIDED), PARITY)

    def test_a_loss_hook_equal_to_the_task_s_loss_makes_the_same_steps(self, bench: SuiteRunner) -> None:
        """The hook `token_loss`, a copy of the task's loss, gives its curve: also in micro-batches, which differ in
        their number of labels."""
        self._requires_case(DIVIDED)
        hooks = self._hooks(loss="token_loss")
        _takes_the_same_steps(bench, DIVIDED, bench.train(bench.prepare(DIVIDED, self.micro_batch_of_two, hooks=hooks)))

    def test_hooks_do_not_depend_on_processes_and_interruptions(self, bench: SuiteRunner) -> None:
        """A head, a loss with a count of its own and a metric: two processes, one of them killed, give the same steps.

        A backend without several processes has two devices; without these, a single process is killed.
        """
        self._requires_case(LABELLED)
        hooks = self._hooks(loss="weighted_loss", head="MeanPoolingHead", metrics=["margin"])
        whole = bench.trained(LABELLED, hooks=hooks)
        assert_falls(whole.losses(), 0.95)
        prepared = bench.prepare(LABELLED, self.two_processes or self.two_devices, hooks=hooks)
        divided = bench.train(prepared, JPREP_FAILPOINT="run.committed@2")
        assert_ended_well(divided)
        assert [event.step for event in divided.events() if event.kind == "start"] == [0, SAVED]
        for figure in ("loss", "metrics/margin"):
            assert_agrees(divided.figures(figure), whole.figures(figure), PARITY)
        early = {step: loss for step, loss in whole.losses().items() if step <= EARLY}
        assert_agrees({step: divided.losses()[step] for step in early}, early, SAME)
        names = {name for name in read_header(bench.exported(divided)) if name.startswith(HEAD_PREFIX)}
        job = read_job(divided.run)
        assert names == {HEAD_PREFIX + name for name in job.model[HEAD_PARAMETERS]} and len(names) > 1

    def test_a_loss_hook_that_fails_is_refused_before_training(self, bench: SuiteRunner) -> None:
        """A hook that raises an exception is named."""
        with pytest.raises(ConfigError, match="raises raised AttributeError"):
            bench.prepare(LABELLED, hooks=self._hooks(loss="raises"))

    def test_unsupported_hooks_are_refused(self, bench: SuiteRunner) -> None:
        """The error of a backend that calls no hooks has the reason."""
        if self.hooks:
            pytest.skip(f"{self.backend} supports hooks")
        with pytest.raises(ConfigError, match=f"{self.backend} does not support hooks: "):
            bench.prepare(self.cases[0], hooks={"loss": "losses:loss"})

    def _hooks(self, **names: Any) -> dict[str, Any]:
        """Return the section with hooks of the suite's file."""
        if not self.hooks:
            pytest.skip(f"{self.backend} supports no hooks")
        path = f"{self.hooks}:"
        return {key: [path + one for one in name] if key == "metrics" else path + name for key, name in names.items()}

    def _requires_options(self, options: Mapping[str, Any], what: str) -> None:
        if not options:
            pytest.skip(f"{self.backend} has no {what}")

    def _requires_case(self, name: str) -> None:
        if (NO_DROPOUT if name == WITH_DROPOUT else name) not in self.cases:
            pytest.skip(f"{self.backend} has no {name}")


def _takes_the_same_steps(bench: SuiteRunner, name: str, trained: FinishedRun) -> None:
    """Assert that a run took the steps of one process with whole batches."""
    assert_ended_well(trained)
    losses = trained.losses()
    assert_agrees(losses, golden_losses(name), PARITY)
    early = {step: loss for step, loss in bench.trained(name).losses().items() if step <= EARLY}
    assert_agrees({step: losses[step] for step in early}, early, SAME)
    assert_agrees(trained.losses("validation"), golden_curve(name).validation, PARITY)
