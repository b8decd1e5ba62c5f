"""Pages show text from outside as text, load nothing, and have the same bytes each time."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.html.page import environment, percent, thousands
from jprep.html.plots import Marker, bars, histogram, intervals, lines
from jprep.html.text import html, shortened

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e'\"&\ud800 $x^2$ {{ 7 * 7 }} 日本"
PAGE = '{% extends "base.html" %}{% block title %}{{ text }}{% endblock %}{% block content %}{{ text }}{% endblock %}'


def test_hostile_text_is_shown_as_text() -> None:
    page = environment("jprep.html").from_string(PAGE).render(text=HOSTILE)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert r"\x1b[31m\u202e" in page
    assert "{{ 7 * 7 }}" in page
    page.encode()


@given(st.text())
def test_html_has_no_markup_and_no_control_characters(text: str) -> None:
    shown = html(text)
    assert not re.search("[<>\"'\x00-\x08\x1b\u202a-\u202e\ud800-\udfff]", shown)


def test_a_page_loads_nothing() -> None:
    page = environment("jprep.html").from_string(PAGE).render(text="x")
    assert not re.search(r'(src|href)="(?!#|data:,)', page)
    assert "url(" not in page
    assert "@import" not in page


def test_an_undefined_name_is_an_error() -> None:
    with pytest.raises(Exception, match="'text' is undefined"):
        environment("jprep.html").from_string(PAGE).render()


def plots() -> list[str]:
    """Return one plot of each kind, with hostile names."""
    return [
        histogram([1, 10, 100], [3, 4], title=HOSTILE, x_label=HOSTILE, thresholds=[Marker(5, HOSTILE)], log_x=True),
        bars([HOSTILE, "b"], [1, 0], title="bars", x_label="characters"),
        lines({HOSTILE: ([1, 2], [3, 4]), "b": ([1], [2])}, title="lines", x_label="x", y_label="y", log_y=True),
        intervals(["a", "b"], [1, 2], [(0, 2), (1, 3)], title="intervals", x_label="bits"),
    ]


def test_plots_are_svg_in_the_colours_of_the_page() -> None:
    for plot in plots():
        root = ET.fromstring(plot)
        assert root.get("role") == "img"
        assert root.get("aria-label")
        assert "var(--series-1)" in plot
        assert not re.search("#0[ab]0[ab]", plot), "a colour that no variable replaced"
        assert "http://www.w3.org/" in plot
        assert not re.search(r'(href|src)="(?!#)', plot)


def test_ids_of_different_plots_differ() -> None:
    ids = [set(re.findall(r' id="([^"]*)"', plot)) for plot in plots()]
    assert sum(map(len, ids)) == len(set().union(*ids))


def test_the_same_data_gives_the_same_bytes() -> None:
    assert plots() == plots()


def test_numbers_are_short() -> None:
    assert [thousands(1234567), thousands(0.123456), thousands(0)] == ["1,234,567", "0.123", "0"]
    assert [percent(0.1234), percent(0.00001234), percent(0)] == ["12.3 %", "0.0012 %", "0.0 %"]


def test_shortened_text_names_what_is_left_out() -> None:
    assert shortened("あ" * 2005, 5) == "あああああ… (2,000 more characters)"


def test_a_legend_distinguishes_names_that_differ_at_their_ends() -> None:
    names = ["jawiki-large-batch-1, training", "jawiki-large-batch-1, validation", "jawiki-large-batch-2, training"]
    svg = lines(dict.fromkeys([*names, "_trial"], ([1, 2], [3, 4])), title="x", x_label="a", y_label="b")
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", svg)[-4:]
    assert len(set(shown)) == 4 and shown[1].endswith(", validation") and shown[3].endswith("_trial")


def test_documents_are_counted_in_whole_numbers() -> None:
    svg = histogram([0, 1, 2], [3, 1], title="x", x_label="a")
    assert not re.search(r">[0-9]\.5<", svg[svg.index("a</text>") :])


def test_a_logarithmic_axis_of_less_than_a_decade_has_labels() -> None:
    svg = histogram([120, 300, 900], [3, 1], title="x", x_label="a", log_x=True)
    assert re.findall(r">([0-9,]+)</text>", svg[: svg.index("a</text>")]) == ["200", "500"]


def height_of(svg: str) -> tuple[float, float]:
    """Return the heights of a plot and of its axes, in points."""
    upright = re.findall(r'd="M ([0-9.]+) ([0-9.]+) \nL \1 ([0-9.]+) ', svg)
    whole = ET.fromstring(svg).get("viewBox", "").split()[3]
    return float(whole), max(abs(float(start) - float(end)) for _, start, end in upright)


def test_a_legend_of_many_curves_makes_the_plot_higher_and_not_its_axes_lower() -> None:
    about = {"title": "x", "x_label": "a", "y_label": "b"}
    alone, *others = (
        height_of(lines({f"{name} {number}": ([1, 2], [3, 4]) for number in range(count)}, **about))
        for count, name in ((1, "run"), (3, "run"), (14, "run"), (14, "日本語のモデルの学習"))
    )
    assert all(axes >= 0.95 * alone[1] for _, axes in others)
    assert [whole for whole, _ in others] == sorted({whole for whole, _ in others})


def test_a_second_curve_is_dashed_in_the_colour_of_the_first() -> None:
    first = {f"run {number}": ([1, 2, 3], [number, 1, 2]) for number in range(9)}
    svg = lines(first, dashed=first, kinds=("training", "validation"), title="x", x_label="a", y_label="b")
    for number in range(1, 9):
        drawn = [path for path in svg.split("<path")[1:] if f"var(--series-{number})" in path]
        assert any("stroke-dasharray" in path for path in drawn)
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert shown[-11:] == [*first, "training", "validation"]
