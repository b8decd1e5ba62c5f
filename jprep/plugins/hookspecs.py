"""Every hook that jprep calls. A plugin is a module or object named by an entry point of the group `jprep`.

Each hook answers with names and references: a class, or the string `module:Class`, imported only when a recipe uses it.

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
    """Readers, `jprep.corpus.step.Reader`: an input's bytes become documents."""


@hookspec
def jprep_normalizers() -> Named:  # type: ignore[empty-body]
    """Normalisers, `jprep.corpus.step.Normalizer`: text becomes text."""


@hookspec
def jprep_splitters() -> Named:  # type: ignore[empty-body]
    """Sentence splitters, `jprep.corpus.step.Splitter`."""


@hookspec
def jprep_filters() -> Named:  # type: ignore[empty-body]
    """Filters, `jprep.corpus.step.Filter`: documents and lines that stay or go."""


@hookspec
def jprep_segmenters() -> Named:  # type: ignore[empty-body]
    """Segmenters, `jprep.corpus.step.Segmenter`: sentences become words."""


@hookspec
def jprep_executors() -> Named:  # type: ignore[empty-body]
    """Executors, `jprep.engine.runner.Executor`: where tasks run. Constructed with the number of workers and a
    function that returns whether the user asked to stop."""


@hookspec
def jprep_backends() -> Named:  # type: ignore[empty-body]
    """Backends, `jprep.train.backend.Backend`: how a job is trained. Constructed without arguments, and without the
    framework."""
