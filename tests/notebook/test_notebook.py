"""The notebook of the documentation runs, and displays what its page shows; `make test-notebook`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, environment
from tests.fakes.html_fragment import Fragment

pytestmark = pytest.mark.backends

OWN = '<div style="line-height:1.5">'
"""How jprep's own displays begin."""


def outputs(cell: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return kind and types of a cell's outputs."""
    return [(output["output_type"], sorted(output.get("data", {}))) for output in cell.get("outputs", [])]


def displays(notebook: dict[str, Any]) -> list[str]:
    """Return jprep's displays."""
    found = (
        output.get("data", {}).get("text/html", "") for cell in notebook["cells"] for output in cell.get("outputs", [])
    )
    return [markup for each in found if (markup := "".join(each)).startswith(OWN)]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The notebook with new outputs; a cell that fails is an error."""
    pytest.importorskip("nbclient")
    path = tmp_path_factory.mktemp("notebook") / "tour.ipynb"
    subprocess.run([sys.executable, ROOT / "docs" / "make_notebook.py", path], env=environment(), check=True)
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def test_each_cell_has_outputs_as_on_the_page(executed: dict[str, Any]) -> None:
    stored = json.loads((ROOT / "docs/notebooks/tour.ipynb").read_text(encoding="utf-8"))
    assert [cell["source"] for cell in executed["cells"]] == [cell["source"] for cell in stored["cells"]]
    assert [outputs(cell) for cell in executed["cells"]] == [outputs(cell) for cell in stored["cells"]]
    assert all(kind == "execute_result" for cell in executed["cells"] for kind, _ in outputs(cell))


def test_corpus_result_tokenizer_text_and_run_are_displayed(executed: dict[str, Any]) -> None:
    found = [Fragment(markup) for markup in displays(executed)]
    assert [fragment.text.split()[0].rstrip("0123456789") for fragment in found[:3]] == [
        "Corpus",
        "Recipe",
        "Tokenizer",
    ]
    assert found[4].text.startswith("Run quickstart") and found[4].tags.count("polyline") == 2
    assert len(found) == 5 and "霧見岳" in found[3].text.replace("<", "")


def test_nothing_of_this_machine_is_in_the_outputs(executed: dict[str, Any]) -> None:
    text = json.dumps(executed, ensure_ascii=False)
    assert str(ROOT) not in text and sys.prefix not in text and str(Path.home()) not in text
