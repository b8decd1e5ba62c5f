"""The hooks that jprep calls. A plugin is a module or object that an entry point of the group `jprep` names.

Each hook returns a mapping of names to classes, or to strings `module:Class`, which are imported when a recipe uses
them.

    from jprep.plugins import hookimpl

    @hookimpl
    def jprep_normalizers():
        return {"shout": "jprep_shout.steps:Shout"}
"""

from __future__ import annotations

from collections.abc import Mapping

import pluggy

PROJECT = "jprep"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Named = Mapping[str, str | type]


@hookspec
def jprep_readers() -> Named:  # type: ignore[empty-body]
    """Return readers, `jprep.corpus.step.Reader`, which turn an input's bytes into documents."""


@hookspec
def jprep_normalizers() -> Named:  # type: ignore[empty-body]
    """Return normalizers, `jprep.corpus.step.Normalizer`, which turn text into text."""


@hookspec
def jprep_splitters() -> Named:  # type: ignore[empty-body]
    """Return sentence splitters, `jprep.corpus.step.Splitter`."""


@hookspec
def jprep_filters() -> Named:  # type: ignore[empty-body]
    """Return filters, `jprep.corpus.step.Filter`, which keep or drop documents and lines."""


@hookspec
def jprep_signals() -> Named:  # type: ignore[empty-body]
    """Return signals, `jprep.corpus.step.Signal`, which measure documents in numbers."""


@hookspec
def jprep_segmenters() -> Named:  # type: ignore[empty-body]
    """Return segmenters, `jprep.corpus.step.Segmenter`, which split sentences into words."""


@hookspec
def jprep_executors() -> Named:  # type: ignore[empty-body]
    """Return executors, `jprep.engine.runner.Executor`, which run tasks.

    An executor is constructed with the number of workers and a function that returns whether the user asked to stop;
    if its class has a `Config`, a `jprep.config.ConfigSection`, also with the options of the recipe's `[executor]`.
    """


@hookspec
def jprep_backends() -> Named:  # type: ignore[empty-body]
    """Return backends, `jprep.train.backend.Backend`, which plan how a job is trained.

    A backend is constructed without arguments, and without importing its framework.
    """


@hookspec
def jprep_models() -> Named:  # type: ignore[empty-body]
    """Return model families, `jprep.train.models.plugin_family.Family`, by their `model_type`.

    A family is constructed without arguments, and without importing a framework.
    """
