"""The reader `pdf`: reading order in every layout, ruby, headers, paragraphs, rejects, hostile files."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from jprep.corpus.api import Corpus
from jprep.corpus.config import decode_recipe
from jprep.corpus.document import Document, Reject
from jprep.corpus.readers.pdf.child import PdfExtractor
from jprep.corpus.readers.pdf.extraction import PdfLimits, PdfText, extract_pdf
from jprep.corpus.readers.pdf.radicals import replace_radicals
from jprep.corpus.readers.pdf.reader import PdfReader
from jprep.errors import InputError, MachineError
from jprep.testing.conformance.reader import ReaderSuite
from tests.fakes.pdfs import PARAGRAPHS, Layout, make_page, make_pdf, mapped_pdf, plain

TEXT = "\n".join(PARAGRAPHS)
TITLE = "山の道しるべ"
LONG = PARAGRAPHS * 6

if extract_pdf(make_pdf(PARAGRAPHS), PdfLimits()).fault == "missing_fonts":
    pytest.skip("no Japanese font on this machine: install fonts-noto-cjk", allow_module_level=True)


def extracted(data: bytes) -> PdfText:
    return extract_pdf(data, PdfLimits())


def read(path: Path, **options: object) -> list[Document | Reject]:
    reader = PdfReader(PdfReader.Config(**options))  # type: ignore[arg-type]
    try:
        return [item for shard in reader.shards(str(path)) for item in reader.read(shard, "s")]
    finally:
        reader.close()


class TestPdf(ReaderSuite):
    step = PdfReader
    texts = (TEXT,)

    def write(self, folder: Path) -> str:
        path = folder / "sample.pdf"
        path.write_bytes(make_pdf(PARAGRAPHS))
        return str(path)


class TestPdfInZip(ReaderSuite):
    step = PdfReader
    texts = (TEXT, TEXT)
    rejects = ("damaged",)

    def write(self, folder: Path) -> str:
        path = folder / "sample.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.pdf", make_pdf(PARAGRAPHS))
            archive.writestr("b.PDF", make_pdf(PARAGRAPHS, Layout(vertical=True)))
            archive.writestr("c.pdf", b"no PDF")
            archive.writestr("d.txt", "skipped")
        return str(path)


@pytest.mark.parametrize(
    "layout",
    [
        Layout(),
        Layout(vertical=True),
        Layout(columns=2),
        Layout(columns=2, title=TITLE, header="郷土の道　第3号", numbers=True),
        Layout(columns=3, title=TITLE),
        Layout(vertical=True, columns=2, header="郷土の道", numbers=True),
        Layout(vertical=True, columns=2, title=TITLE),
        Layout(vertical=True, columns=3),
        Layout(columns=2, title=TITLE, shuffled=True),
        Layout(vertical=True, columns=2, shuffled=True),
    ],
    ids=str,
)
def test_text_is_read_in_order(layout: Layout) -> None:
    found = extracted(make_pdf(LONG, layout))
    assert found.text == "\n".join([layout.title] * bool(layout.title) + list(LONG))
    assert found.counts.get("vertical_pages", 0) == layout.vertical * found.pages
    assert found.counts.get("margins", 0) == (bool(layout.header) + layout.numbers) * found.pages


SHORT = "峠の茶屋の跡には、古い石の道しるべだけが、草の中に残っている"
"""As long as a line: its last character stands below the indentation."""


@pytest.mark.parametrize("layout", [Layout(), Layout(vertical=True), Layout(columns=2)], ids=str)
def test_a_last_line_of_one_character_is_the_last(layout: Layout) -> None:
    length = {(False, 1): 30, (True, 1): 45, (False, 2): 14}[layout.vertical, layout.columns]
    short = (SHORT * 2)[:length]
    paragraphs = [PARAGRAPHS[0], short, PARAGRAPHS[1], short, PARAGRAPHS[4]]
    assert extracted(make_pdf(paragraphs, layout)).text == "\n".join(paragraphs)


def test_punctuation_in_a_narrow_gutter_joins_no_columns() -> None:
    left = [f"{number}山道は朝の霧に包まれて見えな" + ("い。" if number == 4 else "が") for number in range(8)]
    right = [f"{number}峠の茶屋は冬の間だけ閉じてい" for number in range(8)]
    texts = [(40, 50 + 16 * number, line) for number, line in enumerate(left)]
    texts += [(205, 57 + 16 * number, line) for number, line in enumerate(right)]
    assert extracted(make_page(*texts)).text.replace("\n", "") == "".join(left + right)


def test_invisible_characters_are_left_out_and_counted() -> None:
    found = extracted(mapped_pdf("Ab cX de", {"X": 0x200B, "e": 0x200F}))
    assert found.text == "Ab c d"
    assert found.counts == {"invisible": 2}
    for text in ("Ab cX de", "Ab c deX", "Ab cXX de"):  # halves of a character
        found = extracted(mapped_pdf(text, {"X": 0xD800}))
        assert (found.text, found.counts) == ("Ab c de", {"invisible": text.count("X")})


@pytest.mark.parametrize("vertical", [False, True])
def test_ruby_is_left_out(vertical: bool) -> None:
    marked = [each.replace("山道", "{山道|やまみち}").replace("茶屋", "{茶屋|ちゃや}") for each in PARAGRAPHS]
    found = extracted(make_pdf(marked, Layout(vertical=vertical)))
    assert found.text == "\n".join(map(plain, marked)) == TEXT
    assert found.counts["ruby"] == sum(each.count("やまみち") * 4 + each.count("ちゃや") * 3 for each in marked)


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_page_that_is_shown_turned(degrees: int) -> None:
    """The text stands upright on the page as it is shown."""
    lines = [(100, 100, "回された頁の一行目がここで"), (100, 120, "二行目に続く。")]
    assert extracted(make_page(*lines, turned=degrees)).text == "回された頁の一行目がここで二行目に続く。"


def test_a_number_stands_upright_in_a_vertical_line() -> None:
    lines = [(200.0, 100.0, "昭和", True), (195.0, 130.0, "12", False), (200.0, 130.0, "年の春に建てた。", True)]
    assert extracted(make_page(*lines)).text == "昭和12年の春に建てた。"


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
def test_latin_words_lie_on_their_sides_in_a_vertical_line(turned: int) -> None:
    upright = [
        (200.0, 100.0, "古い機械の上で", True),
        (200.0, 209.0, "は動かない。", True),
        (180.0, 100.0, "次の行。", True),
    ]
    lying = (196.5, 171.0, "illicit", "sideways"), (196.5, 198.0, "10", "sideways")
    found = extracted(make_page(upright[0], *lying, *upright[1:], turned=turned))
    assert found.text == "古い機械の上でillicit 10は動かない。次の行。"


@pytest.mark.parametrize(
    ("end", "joined"), [("を使って", True), ("を使った。", False)], ids=["within a sentence", "after a sentence"]
)
def test_a_line_is_short_where_the_next_word_does_not_fit(end: str, joined: bool) -> None:
    lines = [
        "長い行がこの段の幅をすっかり埋めていき次の行に",
        f"続いたあとで新しい機械の力{end}",
        "Typesetting と呼ばれる仕事をする人の話",
    ]
    found = extracted(make_page(*[(80, 100 + 15 * n, line) for n, line in enumerate(lines)]))
    assert found.text.split("\n") == (["".join(lines)] if joined else ["".join(lines[:2]), lines[2]])


@pytest.mark.parametrize(
    "items", [("2019/04/01 入学式がこの春に行われた日", "2019/10/10 運動会"), ("東京という大きな町の名前", "Yokohama")]
)
def test_lines_of_lists_stay_apart(items: tuple[str, str]) -> None:
    lines = ["長い行がこの段の幅をすっかり埋めていき次の行に続く", *items]
    found = extracted(make_page(*[(80, 100 + 15 * n, line) for n, line in enumerate(lines)]))
    assert found.text.split("\n")[-1] == items[-1]


def test_cells_of_a_row_stand_together() -> None:
    rows = [("年度", "件数", "備考"), ("令和五年", "12", "増えた"), ("令和六年", "8", "減った")]
    cells = [
        (80 + 90 * x, 100 + 20 * y, text)
        for x, row in reversed([*enumerate(zip(*rows, strict=True))])
        for y, text in enumerate(row)
    ]
    assert extracted(make_page(*cells)).text.split("\n") == ["　".join(row) for row in rows]


def test_words_and_hyphens_at_the_ends_of_lines() -> None:
    lines = ["This line ends with a hyphen-", "ated word and the next ends in", "a word."]
    found = extracted(make_page(*[(80, 100 + 15 * n, line) for n, line in enumerate(lines)]))
    assert found.text == "This line ends with a hyphenated word and the next ends in a word."
    assert found.counts["hyphens"] == 1


def test_oblique_characters_are_left_out() -> None:
    found = extracted(make_page((100, 100, "本文の行です。"), watermark="社外秘"))
    assert (found.text, found.counts["oblique"]) == ("本文の行です。", 3)


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
def test_slanted_characters_are_read_as_upright_ones(turned: int) -> None:
    lines = [
        (100.0, 100.0, "斜めの字で書かれた行はこの段の幅を埋めて", "slanted"),
        (100.0, 116.0, "次の行では途中から"),
        (190.0, 116.0, "文字が斜めになっており、", "slanted"),
        (100.0, 132.0, "段落はここで終わる。"),
    ]
    found = extracted(make_page(*lines, turned=turned))
    assert found.text == "".join(line[2] for line in lines)  # type: ignore[misc]
    assert "oblique" not in found.counts


def test_the_sign_for_missing_characters_may_stand_in_a_text() -> None:
    found = extracted(make_page((100, 100, "〓〓〓と書く。")))
    assert (found.fault, found.text, found.counts.get("unmapped", 0)) == ("", "〓〓〓と書く。", 0)


def test_what_is_not_on_the_page_is_left_out() -> None:
    found = extracted(make_page((100, 100, "本文の行です。"), (100, 700, "頁の外。")))
    assert (found.text, found.counts["outside"]) == ("本文の行です。", 4)


def test_radicals_become_characters() -> None:
    assert replace_radicals("⼭と⺠と⻘い⽔、山") == ("山と民と青い水、山", 4)


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("郷土の道", "郷土の道"),
        ("Microsoft Word - 下書き.doc", ""),
        ("郷土.indd", ""),
        ("無題", ""),
        ("無題の物語", "無題の物語"),
    ],
)
def test_the_title_is_not_the_name_of_a_file(title: str, expected: str) -> None:
    assert extracted(make_pdf(PARAGRAPHS[:1], Layout(metadata={"Title": title}))).title == expected


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "damaged"),
        (b"%PDF-1.7\n", "damaged"),
        (make_pdf(PARAGRAPHS)[:900], "damaged"),
        (make_pdf([""]), "no_characters"),
        (make_pdf(PARAGRAPHS, password="himitsu"), "encrypted"),
    ],
    ids=["empty", "header", "cut", "blank", "encrypted"],
)
def test_files_without_text_are_rejects(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(data)
    (item,) = read(path)
    assert isinstance(item, Reject)
    assert item.reason == reason


def test_too_many_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(make_pdf(LONG))
    (item,) = read(path, max_pages=1)
    assert isinstance(item, Reject)
    assert item.reason == "too_many_pages"


def test_a_file_over_the_limit_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(make_pdf(PARAGRAPHS) + b" " * 1_000_000)
    with pytest.raises(InputError, match="larger than 1 MB"):
        read(path, max_record_mb=1.0)


def test_a_file_that_ends_the_process_is_a_reject(monkeypatch: pytest.MonkeyPatch) -> None:
    extractor = PdfExtractor(PdfLimits())
    monkeypatch.setattr(extractor.child, "ask", lambda data: b"")
    assert extractor.extract(b"%PDF-1.7").fault == "not_extracted"


def test_characters_without_a_size() -> None:
    lines = [(100, 100 + 15 * number, "大きさのない行。") for number in range(3)]
    assert extracted(make_page(*lines, size=0.0)).fault in ("", "missing_fonts")
    assert extracted(make_page(*lines, size=1e-4)).fault in ("", "missing_fonts")


def test_many_scattered_characters_are_all_read() -> None:
    scattered = [(20 + n % 38 * 10, 30 + n // 38 * 11 + n % 2 * 5, "あ" if n % 3 else "x") for n in range(1900)]
    assert len(extracted(make_page(*scattered)).text.replace("\n", "").replace("　", "").replace(" ", "")) == 1900


@pytest.mark.parametrize("position", range(200, 2600, 400))
def test_a_changed_byte_is_a_document_or_a_reject(position: int) -> None:
    data = bytearray(make_pdf(PARAGRAPHS))
    data[position % len(data)] ^= 0x10
    extractor = PdfExtractor(PdfLimits())
    faults = ("", "damaged", "no_characters", "missing_fonts", "unmapped_characters")
    assert extractor.extract(bytes(data)).fault in faults
    extractor.close()


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from jprep.corpus.readers.pdf import reader

    reader._library_version.cache_clear()
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.raises(MachineError, match=r"jprep\[pdf\]"):
        PdfReader()


def test_a_build_counts_what_it_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(make_pdf(LONG, Layout(header="郷土の道", numbers=True, metadata={"Title": TITLE})))
    (tmp_path / "b.pdf").write_bytes(make_pdf(PARAGRAPHS, password="himitsu"))
    source = {"name": "books", "reader": "pdf", "paths": [str(tmp_path / "*.pdf")]}
    Corpus.build(decode_recipe({"name": "t", "corpus": {"sources": [source]}}), tmp_path / "corpus")
    corpus = Corpus(tmp_path / "corpus")
    (doc,) = list(corpus)
    assert (doc.id, doc.title, doc.meta) == ("books:a.pdf", TITLE, {"pages": "4"})
    counts = corpus.manifest.counts
    assert counts["reader.pdf.margins.deleted"] == 8
    assert counts["reader.pdf.pages.read"] == 4
    assert corpus.manifest.rejects == {"reader.pdf/encrypted": 1}
