"""The reader `html`: files, encodings, hostile markup in bounded time."""

from __future__ import annotations

import gzip
import io
import sys
import time
from pathlib import Path

import pytest

from jprep.corpus.document import Document, Reject
from jprep.corpus.readers import child_process
from jprep.corpus.readers.web import child
from jprep.corpus.readers.web.charset import codecs_of, decode_page
from jprep.corpus.readers.web.child import PageExtractor
from jprep.corpus.readers.web.html_reader import HtmlReader
from jprep.corpus.readers.web.page import Page, extract_page, join_lines
from jprep.corpus.readers.web.page_reader import PageReader
from jprep.corpus.readers.web.warc_reader import WarcReader
from jprep.errors import InputError, MachineError
from jprep.testing.conformance.reader import ReaderSuite
from tests.fakes.web_archives import MAIN, SENTENCES, page, response

BOTH = ["resiliparse", "trafilatura"]


def read(path: Path, **options: object) -> list[Document | Reject]:
    reader = HtmlReader(HtmlReader.Config(**options))  # type: ignore[arg-type]
    try:
        return [item for shard in reader.shards(str(path)) for item in reader.read(shard, "s")]
    finally:
        reader.close()


class TestHtml(ReaderSuite):
    step = HtmlReader
    texts = (MAIN,)

    def write(self, folder: Path) -> str:
        path = folder / "page.html"
        path.write_bytes(page("EUC-JP").encode("euc_jp"))
        return str(path)


class TestHtmlGzip(ReaderSuite):
    step = HtmlReader
    texts = (MAIN,)

    def write(self, folder: Path) -> str:
        path = folder / "page.html.gz"
        path.write_bytes(gzip.compress(page().encode()))
        return str(path)


def test_the_address_is_the_canonical_one(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page())
    (doc,) = read(path)
    assert isinstance(doc, Document)
    assert (doc.id, doc.url, doc.title) == ("s:page.html", "https://example.jp/yama", "山の話")
    assert doc.meta == {"charset": "utf-8", "licence": "https://creativecommons.org/licenses/by/4.0/"}


def test_a_file_over_the_limit_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(b"<p>" * 500_000)
    with pytest.raises(InputError, match=r"(?s)the file is larger than 1 MB.*`max_page_mb`"):
        read(path, max_page_mb=1.0)


@pytest.mark.parametrize(("library", "step"), [("resiliparse", HtmlReader), ("fastwarc", WarcReader)])
def test_a_missing_library_says_what_to_install(
    library: str, step: type[PageReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MachineError, match=r"jprep\[web\]"):
        step()


@pytest.mark.parametrize("extractor", BOTH)
def test_marks_and_scripts_stay_out_of_the_text(extractor: str) -> None:
    found = extract_page(page(), extractor)
    assert (found.text, found.ruby, found.joined) == (MAIN, 1, 1)


@pytest.mark.parametrize("extractor", BOTH)
@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<a href='/t'>東京</a>の<a href='/d'>大学</a>と<b>病院</b> が <i>ある</i>。", "東京の大学と病院 が ある。"),
        ("<ruby>山<rp>(</rp><rt>やま</rt><rp>)</rp></ruby>の<ruby>頂<rt>いただき</rt></ruby>です。", "山の頂です。"),
        ("<b>&#x5c71;</b>と<b>&#24029;</b>へ<!-- 川 -->行く&rarr;<b>…</b>", "山と川へ行く→…"),
        ("<span>한</span><span>ก</span><span>—</span><span>。</span>", "한ก—。"),
        ("<b>𠮷</b>と<b>é</b>", "𠮷とé"),
    ],
)
def test_a_character_alone_between_tags_is_kept(html: str, text: str, extractor: str) -> None:
    body = f"<p>{SENTENCES}</p><p>{html}</p><p>{SENTENCES}</p>"
    assert text in extract_page(page(body=body), extractor).text


@pytest.mark.parametrize("extractor", BOTH)
@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<div><div class='lead jp'>日本語で読む。</div><div class='en'>In English.</div></div>", "日本語で読む。"),
        ('<div><p><span class="jp">会社の概要</span>です。</p></div>', "会社の概要です。"),
        ("<div><p><span class=jp>会社の概要</span>です。</p></div>", "会社の概要です。"),
        ('<p>会は<TIME datetime="2026-03-01">三月一日</TIME>に開く。</p>', "会は三月一日に開く。"),
    ],
)
def test_text_in_japanese_and_dates_in_sentences_are_kept(html: str, text: str, extractor: str) -> None:
    body = f"<div><p>{SENTENCES}</p>{html}<p>{SENTENCES}</p></div>"
    assert text in extract_page(page(body=body), extractor).text


def test_dates_of_the_page_and_buttons_are_left_out() -> None:
    buttons = "<div><div class='jp-relatedposts'>関連する記事</div><p>公開：<time>2026年3月1日</time></p></div>"
    found = extract_page(page(body=f"<div><p>{SENTENCES}</p>{buttons}<p>{SENTENCES}</p></div>")).text
    assert "2026" not in found and "公開" in found


@pytest.mark.parametrize("page", ["{}", "<main><article>{}</article></main>", "<div>{}<ul><li>脚注。</ul></div>"])
def test_lists_of_text_near_the_body_are_kept(page: str) -> None:
    steps = '<ul lang="ja"><li>刃を水で洗う。<ul><li>布で拭く。</ul><li>砥石を<a href="a">水</a>に浸す。</ul>'
    text = extract_page(f"<body><p>研ぎ方。</p>{page.format(steps)}</body>").text
    assert text.split("\n")[:4] == ["研ぎ方。", "刃を水で洗う。", "布で拭く。", "砥石を水に浸す。"]


@pytest.mark.parametrize(
    "menu",
    [
        '<ul>\n        <li>\n        <a href="/">表紙</a>\n        </li>\n        <li><a href="/b">地図</a>\n    </ul>',
        '<ul class="menu"><li>この項目は十文字より長い。</ul>',
        '<ul role="navigation"><li>この項目は十文字より長い。</ul>',
        "<ul><li onclick=x>表紙<li>会社概要</ul><ul><li><span>つぶやく</span><li>送る</ul>",
        "<header><ul><li>この項目は十文字より長い。</ul></header>",
    ],
)
def test_menus_near_the_body_are_left_out(menu: str) -> None:
    for body in (menu, f"<div>{menu}</div>"):
        assert extract_page(f"<body>{body}<p>研ぎ方。</p>").text == "研ぎ方。"


def test_notes_beside_the_text_are_kept_and_sidebars_are_not() -> None:
    note = '<aside class="admonition note"><p>水で<b>洗う</b>こと。</p><ul><li>布で拭く。</ul></aside>'
    sidebar = (
        '<aside class="links"><p>新着</p></aside><aside>広告</aside><aside class="note"><a href="/">表紙</a></aside>'
    )
    page = f"<body><main><p>研ぎ方。</p>{note}<p>仕上げ。</p></main>{sidebar}</body>"
    assert extract_page(page).text.split("\n") == ["研ぎ方。", "水で洗うこと。", "布で拭く。", "仕上げ。"]


def test_a_title_of_one_character_and_icons_of_private_use() -> None:
    body = f"<p>{SENTENCES}</p><p>家へ<i>\uf015</i><i>&#xf015;</i>帰る</p>"
    found = extract_page(page(body=body).replace("山の話", "山"))
    assert (found.title, found.text.split("\n")[-1]) == ("山", "家へ帰る")


def test_a_page_with_the_mark_of_characters_alone_keeps_it() -> None:
    marked = extract_page(page(body=f"<p>\U000f0000{SENTENCES}</p>")).text
    referred = extract_page(page(body=f"<p>&#xF0000;{SENTENCES}</p>")).text
    assert marked == referred and marked.startswith("\U000f0000")


def test_line_breaks_are_joined_between_japanese_characters_only() -> None:
    html = "<p>山\n 道と\r\n\tパン。\n「a\nb」 c\n漢 字</p><pre>山\n道</pre>川\n岸<xmp>あ\nい</xmp>え\nお"
    joined = "<p>山道とパン。「a\nb」 c\n漢 字</p><pre>山\n道</pre>川岸<xmp>あ\nい</xmp>えお"
    assert join_lines(html) == (joined, 5)


@pytest.mark.parametrize("extractor", BOTH)
def test_preformatted_text_keeps_its_indentation(extractor: str) -> None:
    code = "def f(x):\n    if x:\n\treturn 1\n    return 2"
    coloured = code.replace("if", "<b>if</b>").replace("    return 2", "<span>    return 2</span>")
    body = f"<p>{SENTENCES}</p><pre class='a'><code>{coloured}</code></pre><p>{SENTENCES}</p>"
    assert code in extract_page(page(body=body), extractor).text


def test_indentation_between_tags_and_after_breaks() -> None:
    pre = "<pre>x<br>  b<span\n   class='a'>hid</span>\n    \n  c</pre>"
    text = extract_page(page(body=f"<p>{SENTENCES}</p>{pre}<p>{SENTENCES}</p>")).text
    assert "x\n  bhid\n  c\n" in text


def test_braille_is_not_taken_for_indentation() -> None:
    braille = extract_page(page(body=f"<p>&#x2800;{SENTENCES}</p><pre>  a</pre><p>{SENTENCES}</p>")).text
    assert "\u2800" in braille
    assert "  a" not in braille


@pytest.mark.parametrize("space", ["\u3000", "\u00a0", "\u2003"])
def test_spaces_that_are_characters_of_the_text_are_kept(space: str) -> None:
    html = f"<p>終わり。\n{space}次の段落は{space}\n続く。</p>"
    assert space + "次の段落は" + space in join_lines(html)[0]


@pytest.mark.parametrize(
    ("data", "header", "encoding"),
    [
        ("\ufeff日本".encode(), "shift_jis", "utf-8-sig"),
        ("日本語の頁".encode("utf-16"), "", "utf-16"),
        ("日本語の頁".encode("cp932"), "Shift_JIS", "cp932"),
        ("日本語①の頁".encode("euc_jis_2004"), "euc-jp", "cp51932"),
        ("侶と俱は別の字".encode("euc_jis_2004"), "euc-jp", "euc_jis_2004"),
        (b"<!-- <meta charset='Shift_JIS'> --><meta charset='utf-8'>" + "これは".encode(), "", "utf-8"),
        (b"<!--><meta charset='euc-jp'><!-- x -->" + "これは".encode("euc_jp"), "", "euc_jp"),
        (b"<!-- <meta charset='Shift_JIS'>" + "これは".encode(), "", "utf-8"),
        ("<meta charset='euc-jp'>日本語の頁".encode("euc_jp"), "", "euc_jp"),
        ("<meta charset='euc-jp'>日本語の頁".encode(), "", "utf-8"),
        ("<meta charset='utf-16'>日本語の頁".encode(), "", "utf-8"),
        ("<?xml version='1.0' encoding='Shift_JIS'?>日本語の頁".encode("cp932"), "", "cp932"),
        ("日本語の頁です".encode("cp932"), "ISO-8859-1", "cp932"),
        ("日本語の頁です".encode("euc_jp"), "utf-8", "euc_jp"),
        ("日本語の頁です".encode("iso2022_jp"), "", "iso2022_jp"),
        ("Ein schöner Tag, größer als übermorgen".encode("latin_1"), "iso-8859-1", "cp1252"),
        ("日本語の頁です".encode(), "\x00no-such-charset", "utf-8"),
        ("日本語の頁です".encode(), "unicode_escape", "utf-8"),
        (b"", "", "utf-8"),
    ],
)
def test_encodings(data: bytes, header: str, encoding: str) -> None:
    found = decode_page(data, header)
    assert found is not None
    assert (found.encoding, found.replaced) == (encoding, 0)


def test_a_page_in_two_encodings_is_decoded_up_to_one_character_in_a_thousand() -> None:
    most, other = ("日本語の文章。" * 1000).encode("cp932"), "混ざった".encode("euc_jp")
    mostly = decode_page(most + b"\x81\xff" + most, "shift_jis")
    assert mostly is not None
    assert (mostly.encoding, mostly.replaced) == ("cp932", 1)
    assert decode_page(most[:100] + other * 100, "utf-8") is None
    own = decode_page(("\ufffd" * 2000).encode() + b"\xff" + ("日本語の文章。" * 1000).encode(), "utf-8")
    assert own is not None
    assert own.replaced == 1


@pytest.mark.parametrize(
    "label", ["rot13", "zlib", "unicode_escape", "idna", "punycode", "utf-7", "mbcs", "日本", "a" * 99]
)
def test_codecs_that_are_no_charsets_are_unknown(label: str) -> None:
    assert codecs_of(label) == ()


HOSTILE = {
    "nested div": "<div>" * 200_000 + "あ",
    "nested b": "<b><div>" * 100_000,
    "nested tables": "<table><tr><td>" * 100_000 + "あ",
    "nested lists": "<ul><li>" * 100_000,
    "nested svg": "<svg><g>" * 100_000,
    "unclosed fonts": "".join(f"<p><font color={number}>あ" for number in range(100_000)),
}
HARMLESS = {
    "entities": "&amp;" * 1_000_000,
    "one entity": "&" + "a" * 5_000_000,
    "unknown entities": "&lol9;" * 500_000,
    "declared entities": '<!DOCTYPE lolz [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>' + "<p>&b;" * 100_000,
    "comments": "<!--" * 500_000,
    "scripts": "<script>" * 300_000,
    "pre": "<pre>" * 300 + "<pre" * 300_000,
    "angles": "<" * 3_000_000,
    "metas": "<meta charset=" * 300_000,
    "spaces": "あ" + "\n" * 3_000_000 + "<",
    "one line": "あ" * 2_500_000,
    "NULs": "\0" * 3_000_000,
    "paragraphs": "<p>あ" * 300_000,
    "links": "<a href=/>あ" * 200_000,
    "notes": '<aside class="note">あ</aside>' * 100_000,
    "list and paragraphs": "<ul><li>あ</ul>" + "<p>あ" * 300_000,
    "lists": "<ul><li>あ</ul>" * 100_000,
    "titles": "<title>" * 300_000,
    "end tags": "</div>" * 500_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_would_take_hours_is_refused_at_once(name: str) -> None:
    started = time.process_time()
    assert extract_page(HOSTILE[name]).fault == "too_deep"
    assert time.process_time() - started < 5


@pytest.mark.parametrize("name", HARMLESS)
def test_large_markup_takes_linear_time(name: str) -> None:
    started = time.process_time()
    decoded = decode_page(HARMLESS[name].encode())
    assert decoded is not None
    extract_page(decoded.text)
    assert time.process_time() - started < 20


def test_a_page_that_takes_too_long_ends_its_process_only() -> None:
    attributes = " ".join(f"a{number}=1" for number in range(400_000))
    extractor = PageExtractor("resiliparse", seconds=1)
    assert extractor.extract(f"<div {attributes}>").fault == "not_extracted"
    assert extractor.extract(page()).text == MAIN
    extractor.close()


@pytest.mark.parametrize("step", [HtmlReader, WarcReader])
def test_an_empty_page_is_an_empty_document(step: type[PageReader], tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"" if step is HtmlReader else response("") + response())
    reader = step()
    items = [item for shard in reader.shards(str(path)) for item in reader.read(shard, "s")]
    reader.close()
    assert isinstance(items[0], Reject)
    assert [item.reason for item in items if isinstance(item, Reject)] == ["empty"]


def test_modules_in_the_current_directory_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "resiliparse.py").write_text("raise SystemExit")
    (tmp_path / "struct.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    extractor = PageExtractor("resiliparse")
    assert extractor.extract(page()).text == MAIN
    extractor.close()


def test_a_message_that_is_cut_is_none() -> None:
    stream = io.BytesIO()
    child_process._send(stream, b"answer")
    assert child_process._receive(io.BytesIO(stream.getvalue())) == b"answer"
    assert child_process._receive(io.BytesIO(stream.getvalue()[:-1])) == b""


def test_a_child_without_memory_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a page is rejected must not depend on the pages before it."""

    def fail(html: str, extractor: str) -> Page:
        raise error

    monkeypatch.setattr(child, "extract_page", fail)
    error: type[Exception] = RecursionError
    assert child._extracted("<p>", "resiliparse").fault == "not_extracted"
    error = MemoryError
    with pytest.raises(MemoryError):
        child._extracted("<p>", "resiliparse")


def test_sources_share_a_process_that_starts_again_when_one_of_them_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page())
    first, second = HtmlReader(), WarcReader()
    assert first._extractor is second._extractor
    second.close()
    (doc,) = [item for shard in first.shards(str(path)) for item in first.read(shard, "s")]
    assert isinstance(doc, Document)
    second.close()
    assert read(path) == [doc]


def test_a_process_that_something_else_ended_is_replaced() -> None:
    extractor = PageExtractor("resiliparse")
    for _ in range(2):
        assert extractor.extract(page()).text == MAIN
        assert extractor.child._child
        extractor.child._child.kill()
    extractor.close()


def test_hostile_pages_are_rejects(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(HOSTILE["nested div"])
    (item,) = read(path)
    assert isinstance(item, Reject)
    assert (item.reason, item.excerpt) == ("too_deep", "over 512 elements deep")


@pytest.mark.parametrize("extractor", BOTH)
def test_control_characters_are_deleted(tmp_path: Path, extractor: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(body=f"<p>山\x1eの\x1f上\x00&#30;&#x1f;に。{SENTENCES}</p><p>{SENTENCES}</p>"))
    (doc,) = read(path, extractor=extractor)
    assert isinstance(doc, Document)
    assert not set(map(chr, range(32))) - {"\n"} & set(doc.text)
    assert SENTENCES in doc.text
