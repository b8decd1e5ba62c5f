"""What Jupyter and a prompt display of a corpus."""

from __future__ import annotations

from pathlib import Path

from jprep import Corpus
from jprep.corpus.document import Document
from tests.fakes.html_fragment import Fragment
from tests.fakes.written_corpus import write_corpus

HOSTILE = "<script>alert('題')</script>\x1b[31m\u202e\x9b\"'&"


def shown(corpus: Corpus) -> str:
    return Fragment(corpus._repr_html_()).text


def test_the_sample_shows_totals_funnel_licences_and_documents(corpus: Path) -> None:
    text = shown(Corpus(corpus))
    for part in (
        "quickstart",
        "documents29",
        "read45",
        "− dedup.documents/duplicate1",
        "kept29",
        "Apache-2.0",
        "琴川市",
    ):
        assert part in text
    assert repr(Corpus(corpus)) == f"<Corpus 'quickstart' in {str(corpus)!r}: 29 documents, 13,216 characters>"


def test_hostile_text_is_shown_as_text(tmp_path: Path) -> None:
    doc = Document(HOSTILE, "own", HOSTILE, HOSTILE, HOSTILE + "あ" * 10_000_000)
    rejects = {f"filter.{HOSTILE}/{number}": number for number in range(20)}
    sources = [{"name": HOSTILE, "licence": HOSTILE, "homepage": HOSTILE}]
    folder = write_corpus(tmp_path / "<b>", [[doc]], name=HOSTILE, signature=HOSTILE, sources=sources, rejects=rejects)
    markup = Corpus(folder)._repr_html_()
    assert len(markup) < 20_000
    text = Fragment(markup).text
    assert text.count("<script>alert('題')</script>\\x1b[31m\\u202e\\x9b\"'&") >= 6
    assert "more characters)10,000,0" in text
    assert "− 8 further reasons28" in text
    assert "\n" not in repr(Corpus(folder)) and "\x1b" not in repr(Corpus(folder))


def test_an_empty_corpus_is_shown(tmp_path: Path) -> None:
    text = shown(Corpus(write_corpus(tmp_path / "corpus", [], sources=[{"name": "own"}], totals={})))
    assert "documents0" in text and "there are none" in text and "not stated" in text


def test_a_damaged_corpus_is_shown_with_its_damage(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path / "corpus", [[Document("a", "own", "題", "", "文")]])
    (folder / "documents/0000.parquet").write_bytes(b"")
    assert "cannot be shown: this file was changed or damaged" in shown(Corpus(folder))
