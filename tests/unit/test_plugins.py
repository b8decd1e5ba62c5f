"""Plugins: an error of one does not affect the others, and unknown names are explained."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import ModuleType, SimpleNamespace

import pytest

from jprep.config import suggest_name
from jprep.corpus import builtin
from jprep.corpus.readers.lines import TextReader
from jprep.errors import ConfigError
from jprep.plugins import PluginRegistry, hookimpl, hookspecs
from jprep.plugins.manager import PLUGIN_KINDS, load_class

BUILTIN = EntryPoint("builtin", "jprep.corpus.builtin", "jprep")


class Stranger:
    """A plugin in a module of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, name: str, **hooks: object) -> EntryPoint:
        module = ModuleType(f"stranger_{name}")
        for hook, answer in hooks.items():
            setattr(module, hook, hookimpl(self._hook(hook, answer)))
        self._monkeypatch.setitem(sys.modules, module.__name__, module)
        return EntryPoint(name, module.__name__, "jprep")

    def _hook(self, name: str, answer: object) -> object:
        def hook() -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer

        hook.__name__ = name
        return hook


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Stranger:
    return Stranger(monkeypatch)


def test_every_hook_has_a_kind_and_the_built_in_plugin_answers_all_but_the_backends() -> None:
    hooks = {name for name, value in vars(hookspecs).items() if name.startswith("jprep_") and callable(value)}
    assert hooks == {f"jprep_{kind}s" for kind in PLUGIN_KINDS}
    assert hooks - vars(builtin).keys() == {"jprep_backends"}


@pytest.mark.parametrize("kind", PLUGIN_KINDS)
def test_a_plugin_s_step_of_each_kind_is_found(kind: str, stranger: Stranger) -> None:
    class Thing:
        pass

    found = PluginRegistry([BUILTIN, stranger("mine", **{f"jprep_{kind}s": {"thing": Thing}})])
    assert found.get(kind, "thing") is Thing
    assert "thing" in found.names(kind)
    assert found.found[1].steps == (f"{kind} thing",)


def test_every_built_in_step_can_be_imported() -> None:
    found = PluginRegistry([BUILTIN])
    for kind in PLUGIN_KINDS:
        for name in found.names(kind):
            step = found.get(kind, name)
            assert kind in ("executor", "model") or step.name == name


FAULTS = {
    "a hook that raises": ({"jprep_readers": RuntimeError("boom")}, "RuntimeError: boom"),
    "a misspelt hook": ({"jprep_reader": {"x": "y:Z"}}, "jprep_reader"),
    "a name that is taken": ({"jprep_readers": {"text": "y:Z"}}, "'text' is registered by another plugin"),
    "an answer that is no table": ({"jprep_readers": ["x"]}, "AttributeError"),
    "no such module": ("no_such_module", "ModuleNotFoundError"),
    "no such object": ("jprep.errors:Nothing", "AttributeError"),
}


@pytest.mark.parametrize(("fault", "said"), FAULTS.values(), ids=FAULTS)
def test_a_broken_plugin_is_listed_and_the_others_work(
    fault: str | dict[str, object], said: str, stranger: Stranger
) -> None:
    bad = EntryPoint("bad", fault, "jprep") if isinstance(fault, str) else stranger("bad", **fault)
    good = stranger("good", jprep_filters={"fine": "fine:Fine"}, jprep_readers={"zero": TextReader})
    found = PluginRegistry([bad, good, BUILTIN])
    assert [plugin.name for plugin in found.found] == ["builtin", "bad", "good"]
    assert said in found.found[1].error and found.found[1].steps == ()
    assert found.found[2].steps == ("reader zero", "filter fine") and not found.found[2].error
    assert found.get("reader", "text") is TextReader and found.get("reader", "zero") is TextReader
    with pytest.raises(ConfigError, match="plugin 'bad' failed to load"):
        found.get("segmenter", "bad")


def test_an_unknown_name_brings_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        PluginRegistry([BUILTIN]).get("segmenter", "jumandik")
    assert caught.value.fix == "did you mean 'jumandic'?"
    assert suggest_name("zzz", ["b", "a"]) == "available: a, b"
    assert suggest_name("zzz", []) == "available: none"


@pytest.mark.parametrize("reference", ["no_such_module:X", "jprep.errors:X", "jprep.errors"])
def test_a_reference_that_leads_nowhere(reference: str) -> None:
    with pytest.raises(ConfigError, match="cannot load"):
        load_class(reference)


def test_an_entry_point_may_name_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hooks:
        @hookimpl
        def jprep_splitters(self) -> dict[str, str]:
            return {"mine": "x:Y"}

    module = SimpleNamespace(hooks=Hooks())
    monkeypatch.setitem(sys.modules, "stranger_object", module)
    found = PluginRegistry([EntryPoint("object", "stranger_object:hooks", "jprep")])
    assert found.names("splitter") == ["mine"]
