"""The documentation: generated pages are current, names resolve, links lead somewhere, and the plugin guides work."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from jprep import Corpus
from jprep.corpus.build import stage_names
from jprep.corpus.config import CorpusConfig, DedupConfig, FrequentConfig, NearConfig
from jprep.train.job.config import Task
from jprep.train.models.presets import PRESETS
from tests.conftest import ROOT, Distribution, Run
from tests.unit.test_conformance import failures

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md"), ROOT / "data_recipes" / "README.md"])
GUIDES = [("filter", "varied"), ("signal", "exclamations"), ("reader", "pairs"), ("segmenter", "scripts")]


def generator(name: str) -> ModuleType:
    """Return the module of a script in `docs/`."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_the_recipe_reference_is_current() -> None:
    page = generator("make_recipes").render()
    assert (DOCS / "recipes.md").read_text(encoding="utf-8") == page, "run `python docs/make_recipes.py`"


def test_the_licence_of_each_requirement_is_stated() -> None:
    listed = (
        (DOCS / "quickstart.md").read_text(encoding="utf-8").partition("### What is installed")[2].partition("###")[0]
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"[<>=]", requirement)[0] for requirement in project["dependencies"]]
    assert sorted([*names, project["name"]]) == sorted(set(re.findall(r"`([\w-]+)`(?=[,:| ])", listed)) - {"pointwise"})


def test_the_page_of_the_notebook_is_current() -> None:
    notebook = json.loads((DOCS / "notebooks" / "tour.ipynb").read_text(encoding="utf-8"))
    page = generator("make_notebook").render(notebook)
    assert (DOCS / "guides" / "notebook.md").read_text(encoding="utf-8") == page, "run `make notebook`"


def test_every_key_of_the_recipe_reference_has_a_description() -> None:
    page = (DOCS / "recipes.md").read_text(encoding="utf-8")
    undescribed = re.findall(r"^\| `(\w+)` \|.*\|  \|$", page, re.MULTILINE)
    assert undescribed == [], "describe it under `Attributes:` in its class"


def resolve(name: str) -> object:
    """Import the longest module of a dotted name, and look up the rest."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_of_modules_and_classes_resolve(page: Path) -> None:
    text = page.read_text(encoding="utf-8") if page.name != "CHANGELOG.md" else ""
    for name in re.findall(r"(?:`|::: |-m |from |import )(jprep(?:\.[A-Za-z_]\w*)+)", text):
        resolve(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)", prose):
        if "://" not in target and page.parent.name != "templates":
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_tests_and_benchmarks_of_published_systems_exist() -> None:
    text = (DOCS / "published.md").read_text(encoding="utf-8")
    files = [path for place in ("tests", "backends", "jprep/testing") for path in (ROOT / place).rglob("*.py")]
    tests = {name for path in files for name in re.findall(r"^ *def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)}
    known = tests | {path.stem for path in files} | {path.name for path in files}
    named = set(re.findall(r"`((?:test|bench)_\w+(?:\.py)?)`", text))
    assert named and named <= known, named - known
    places = set(re.findall(r"`(tests/[\w/.]+)`", text))
    assert places and all((ROOT / place).exists() for place in places), places
    rows = (ROOT / "tests/unit/pipeline/published_values.py").read_text(encoding="utf-8")
    values = re.findall(r"`test_published_values\.py`: “([^”]+)”", text)
    assert values and all(f'Published("{what}"' in rows for what in values)


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = set(re.findall(r"[\w/.-]+\.md", nav))
    assert listed == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.parent.name != "templates"}


def test_the_index_of_the_reference_links_every_page_of_the_reference() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\n  - Reference:\n")[2]
    section = re.split(r"^  - ", nav, maxsplit=1, flags=re.MULTILINE)[0]
    pages = set(re.findall(r"[\w/.-]+\.md", section)) - {"reference.md"}
    linked = set(re.findall(r"\]\(([^)#\s]+)", (DOCS / "reference.md").read_text(encoding="utf-8")))
    assert {"cli.md", "backend-suite.md"} <= pages  # the first and the last group were found
    assert pages <= linked, pages - linked


def test_the_stages_of_a_build_are_described_in_order() -> None:
    page = (DOCS / "corpus.md").read_text(encoding="utf-8")
    section = page.partition("\n## Build stages\n")[2].partition("\n## ")[0]
    described = [
        name
        for stages in re.findall(r"^\d+\. ([^:]+):", section, re.MULTILINE)
        for name in re.findall(r"`([\w-]+)`", stages)
    ]
    everything = DedupConfig(lines=True, sentences=FrequentConfig(), near=NearConfig())
    assert described == stage_names(CorpusConfig(dedup=everything))


def test_the_site_loads_nothing_from_other_servers() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in settings and "polyfills: [iframe-worker.js]" in settings
    assert not re.search(r"(?:url\(|@import|src=|fetch\()\s*[\"']?https?:", "".join(
        (DOCS / name).read_text(encoding="utf-8") for name in ("site.css", "iframe-worker.js", "pipeline.svg")
    ))  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), GUIDES)
def test_the_plugin_of_a_guide_passes_its_suite(kind: str, name: str) -> None:
    plugin, suite = python_blocks(DOCS / "guides" / f"write-a-{kind}.md")
    found = {"__name__": f"jprep_{name}"}
    exec(plugin + re.sub(rf"^from jprep_{name} import .*$", "", suite, flags=re.MULTILINE), found)
    tests = type("Suite", (found[f"Test{name.capitalize()}"],), {"step": found[name.capitalize()]})  # type: ignore[arg-type]
    assert failures(tests) == {}


def test_the_filter_of_the_guide_works_in_a_build(distribution: Distribution, jprep: Run, sample: Path) -> None:
    distribution.add("jprep_varied", python_blocks(DOCS / "guides" / "write-a-filter.md")[0])
    assert "filter varied" in jprep("plugins", env=distribution.env).stdout
    setting = 'corpus.filters=[{use="varied", min_distinct=150}]'
    folder = distribution.folder / "trial"
    built = jprep("corpus", "build", "recipe.toml", "--set", setting, "-o", folder, cwd=sample, env=distribution.env)
    assert re.search(r"filter\.varied/few_distinct +3\n", built.stdout)


def test_the_signal_of_the_guide_is_kept_and_compared(distribution: Distribution, jprep: Run, sample: Path) -> None:
    distribution.add("jprep_exclamations", python_blocks(DOCS / "guides" / "write-a-signal.md")[0])
    settings = (
        'corpus.signals=[{use="exclamations", marks="！!‼"}]',
        'corpus.filters=[{signal="exclamation_share", max=0.003, reason="exclamations"}]',
    )
    folder = distribution.folder / "trial"
    options = [option for setting in settings for option in ("--set", setting)]
    built = jprep("corpus", "build", "recipe.toml", *options, "-o", folder, cwd=sample, env=distribution.env)
    assert re.search(r"filter\.threshold/exclamations +1\n", built.stdout)
    assert Corpus(folder).manifest.signals == ["exclamation_share", "exclamation_sentence_share"]


def test_the_messages_of_the_troubleshooting_page_exist() -> None:
    sources = [*ROOT.glob("jprep/**/*.py"), *ROOT.glob("backends/*/jprep_*/**/*.py")]
    code = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    headings = re.findall(r"^### (.*`.*)$", page, re.MULTILINE)
    messages = [message for heading in headings for message in re.findall(r"`([^`]+ [^`]+)`", heading)]
    parts = [part.strip() for message in messages for part in message.split("…")]
    assert [part for part in parts if part not in code] == []


def test_extras_are_installed_in_one_form_and_listed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert "'.[" not in text, f"{page}: pip install 'jprep[…]' works for a checkout as well"
        named = {name for group in re.findall(r"\bjprep\[([a-z0-9,]+)\]", text) for name in group.split(",")}
        assert named <= set(extras), page
    listed = re.findall(r"`jprep\[([a-z0-9]+)\]`", (DOCS / "quickstart.md").read_text(encoding="utf-8"))
    assert set(listed) == set(extras) - {"test"}


def test_the_training_guide_names_every_task_and_family() -> None:
    names = {"gpt2": "GPT-2", "llama": "Llama", "qwen3": "Qwen3", "qwen3_moe": "with and without experts",
             "bert": "BERT", "roberta": "RoBERTa", "modernbert": "ModernBERT", "deberta-v2": "DeBERTa-v2",
             "electra": "ELECTRA"}  # fmt: skip
    guide = (DOCS / "guides" / "train-a-model.md").read_text(encoding="utf-8")
    table = guide[guide.index("## Tasks") : guide.index("Start from given weights")]
    for task in get_args(Task):
        assert re.search(rf"^\|.*`{task}`.*\|$", table, re.MULTILINE), task
    for family in {str(preset["model_type"]) for preset in PRESETS.values()}:
        assert re.search(rf"\b{re.escape(names[family])}\b", table), family
