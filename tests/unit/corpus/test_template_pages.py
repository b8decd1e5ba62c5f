"""Template pages are collected from dumps, and used by the reader `wikipedia`."""

from __future__ import annotations

import bz2
import json
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from jprep.corpus.document import Tally
from jprep.corpus.readers.mediawiki import template_pages
from jprep.corpus.readers.mediawiki.template_pages import collect_templates
from jprep.corpus.readers.wikipedia import WikipediaReader
from jprep.corpus.readers.wikitext import Extractor, ExtractorConfig
from jprep.corpus.readers.wikitext.transclusion import page_file
from jprep.corpus.readers.wikitext.transclusion.limits import MAX_SIZE
from jprep.corpus.readers.wikitext.transclusion.page_file import TemplatePages
from jprep.corpus.step import describe_step
from jprep.errors import ConfigError, InputError, JprepError, MachineError, TruncatedError
from tests.conftest import Run
from tests.unit.corpus.test_wikipedia_reader import dump, page, read, revision

NS = "<ns>10</ns>"
BODY = escape("{{{1}}}の川<noinclude>説明</noinclude>")


def collect(output: Path, *dumps: Path) -> Tally:
    return collect_templates(dumps, output, force=False, report=lambda _: None)


def write(path: Path, *pages: str, version: str = "0.11") -> Path:
    data = dump(*pages, version=version)
    path.write_bytes(bz2.compress(data) if path.suffix == ".bz2" else data)
    return path


def template(name: str, text: str, stamp: str = "2024-01-01T00:00:00Z", ns: str = NS, extra: str = "") -> str:
    return page(f"Template:{name}", revision(text, stamp=stamp), ns=ns, extra=extra)


def test_pages_of_the_template_namespace_are_collected(tmp_path: Path) -> None:
    source = write(
        tmp_path / "a.xml.bz2",
        page("鴨川", revision(escape("{{川|京都}}。{{流れ|大阪}}。"))),
        template("川", BODY),
        template("流れ", "#REDIRECT [[Template:川]]", extra='<redirect title="Template:川" />'),
        template("川/styles.css", "a", extra="<model>sanitized-css</model>").replace(
            "<contributor>", "<model>sanitized-css</model><contributor>"
        ),
        page("Template:記事", revision("これは記事")),
    )
    counts = collect(tmp_path / "t.sqlite", source)
    assert counts == {"pages": 1, "redirects": 1}
    pages = TemplatePages(str(tmp_path / "t.sqlite"))
    assert pages.text("川") == "{{{1}}}の川"
    assert (pages.target("流れ"), pages.target("川"), pages.target("記事")) == ("川", "", None)
    options = {"wikitext": {"template_pages": str(tmp_path / "t.sqlite")}}
    texts = [
        item.text
        for item in read(tmp_path / "b.xml", bz2.decompress(source.read_bytes()), **options)
        if hasattr(item, "text")
    ]
    assert texts[0] == "京都の川。大阪の川。"


@pytest.mark.parametrize("version", ["0.3", "0.4"])
def test_old_exports_have_the_namespace_in_the_title(tmp_path: Path, version: str) -> None:
    pages = [
        template("川", "川", ns=""),
        template("池", "#転送 [[テンプレート:川]]", ns=""),
        page("鴨川", revision("a"), ns=""),
    ]
    counts = collect(tmp_path / "t.sqlite", write(tmp_path / "a.xml.bz2", *pages, version=version))
    assert counts == {"pages": 1, "redirects": 1}
    assert TemplatePages(str(tmp_path / "t.sqlite")).target("池") == "川"


def test_the_newer_page_of_several_dumps_is_kept(tmp_path: Path) -> None:
    new = write(tmp_path / "new.xml.bz2", template("川", "新", "2024-02-01T00:00:00Z"))
    old = write(tmp_path / "old.xml.bz2", template("川", "旧"), template("池", "池"))
    for name, dumps in (("a", (new, old)), ("b", (old, new))):
        collect(tmp_path / name, *dumps)
        pages = TemplatePages(str(tmp_path / name))
        assert (pages.text("川"), pages.text("池")) == ("新", "池")


def test_equal_inputs_give_equal_files(tmp_path: Path) -> None:
    source = write(tmp_path / "a.xml.bz2", *(template(f"川{n}", f"川{n}" * n) for n in range(200)))
    for name in "ab":
        collect(tmp_path / name, source)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_enormous_page_is_left_out(tmp_path: Path) -> None:
    source = write(tmp_path / "a.xml", template("川", "川"), template("海", "海" * (MAX_SIZE + 1)))
    assert collect(tmp_path / "t.sqlite", source) == {"pages": 1, "too_large": 1}


def test_inputs_without_templates_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no page of the template namespace"):
        collect(tmp_path / "t.sqlite", write(tmp_path / "a.xml.bz2", page("鴨川", revision("a"))))
    whole = write(tmp_path / "b.xml.bz2", template("川", "川"))
    (tmp_path / "cut.xml.bz2").write_bytes(whole.read_bytes()[:-20])
    with pytest.raises(JprepError):
        collect(tmp_path / "t.sqlite", tmp_path / "cut.xml.bz2")
    assert not (tmp_path / "t.sqlite").exists()


@pytest.mark.parametrize("end", ["<page><title>鴨川</title>", "<page><title>鴨川</title><ns>0</ns><revision><text>川"])
def test_a_dump_that_ends_in_any_page_is_refused(tmp_path: Path, end: str) -> None:
    whole = write(tmp_path / "a.xml", template("川", "川")).read_bytes().removesuffix(b"</mediawiki>\n")
    (tmp_path / "a.xml").write_bytes(whole + end.encode())
    with pytest.raises(TruncatedError, match="in the middle of a page"):
        collect(tmp_path / "t.sqlite", tmp_path / "a.xml")


def test_a_page_that_is_too_large_has_a_fix_of_this_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_pages, "_MAX_PAGE", 1 << 20)
    with pytest.raises(InputError, match="larger than 1 MiB") as caught:
        collect(tmp_path / "t.sqlite", write(tmp_path / "a.xml", template("川", "a" * (3 << 20))))
    assert "max_page_mb" not in caught.value.fix


@pytest.mark.parametrize(
    ("target", "stored"),
    [
        ("川", ":川"),
        ("Template:川|x", "川"),
        (":Template:川#節", "川"),
        (" template : 川 ", "川"),
        ("利用者:川", ":利用者:川"),
    ],
)
def test_redirects_lead_to_templates_or_nowhere(tmp_path: Path, target: str, stored: str) -> None:
    source = write(tmp_path / "a.xml", template("池", f"#転送 [[{target}]]"), template("川", "かわ"))
    collect(tmp_path / "t.sqlite", source)
    assert TemplatePages(str(tmp_path / "t.sqlite")).target("池") == stored
    extractor = Extractor(ExtractorConfig(template_pages=str(tmp_path / "t.sqlite")))
    assert extractor.extract("{{池}}は長い。", "鴨川") == ("かわは長い。" if stored == "川" else "")


def test_a_full_disk_and_a_damaged_file_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "a.xml", *(template(f"川{n}", f"川{n}" * 200) for n in range(100)))
    collect(tmp_path / "t.sqlite", source)
    data = bytearray((tmp_path / "t.sqlite").read_bytes())
    data[12_288:] = b"\xff" * (len(data) - 12_288)
    (tmp_path / "t.sqlite").write_bytes(data)
    pages = TemplatePages(str(tmp_path / "t.sqlite"))
    for read_page in (pages.target, pages.text):
        with pytest.raises(ConfigError, match="cannot read the template pages"):
            [read_page(f"川{n}") for n in range(100)]
    monkeypatch.setattr(page_file, "_SCHEMA", f"PRAGMA max_page_count = 4; {page_file._SCHEMA}")
    with pytest.raises(MachineError, match="cannot write the template pages"):
        collect(tmp_path / "full.sqlite", source)
    assert not (tmp_path / "full.sqlite").exists()


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    source = write(tmp_path / "a.xml.bz2", template("川", "川"))
    (tmp_path / "t.sqlite").write_text("other")
    with pytest.raises(ConfigError, match="this file exists"):
        collect(tmp_path / "t.sqlite", source)
    assert (tmp_path / "t.sqlite").read_text() == "other"


def test_without_the_option_fingerprints_are_as_before() -> None:
    described = describe_step(WikipediaReader())
    assert "template_pages" not in described["config"]["wikitext"]
    assert not any("template_pages" in name for name in described["provenance"])


def test_the_command_prints_counts(tmp_path: Path, jprep: Run) -> None:
    source, output = write(tmp_path / "a.xml.bz2", template("川", BODY)), tmp_path / "t.sqlite"
    done = jprep("corpus", "templates", source, "-o", output)
    assert "templates" in done.stdout and str(output) in done.stdout
    found = json.loads(jprep("corpus", "templates", source, "-o", output, "--force", "--json").stdout)
    assert found == {"file": str(output), "bytes": output.stat().st_size, "pages": 1, "redirects": 0, "too_large": 0}
