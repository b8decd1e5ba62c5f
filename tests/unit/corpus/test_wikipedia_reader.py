"""The reader `wikipedia`: every format of a dump, split anywhere, and invalid dumps."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep import samples
from jprep.corpus.document import Document, Reject
from jprep.corpus.readers import wikipedia
from jprep.corpus.readers.mediawiki import xml_export
from jprep.corpus.readers.mediawiki.disambiguation import DisambiguationDetector
from jprep.corpus.readers.mediawiki.xml_export import Page, parse_pages, read_site_info, split_at_pages
from jprep.corpus.readers.wikipedia import WikipediaReader
from jprep.errors import InputError, TruncatedError

VERSIONS = [f"0.{minor}" for minor in range(3, 12)]
LIMIT = 1 << 20


def head(version: str = "0.11") -> str:
    return (
        f'<mediawiki xmlns="http://www.mediawiki.org/xml/export-{version}/" version="{version}" xml:lang="ja">\n'
        "  <siteinfo>\n    <base>https://example.org/wiki/Main</base>\n    <namespaces>\n"
        '      <namespace key="0" />\n      <namespace key="10">Template</namespace>\n'
        "    </namespaces>\n  </siteinfo>\n"
    )


def revision(text: str, number: int = 1, inside: str = "", stamp: str = "2024-01-01T00:00:00Z") -> str:
    body = text if text.startswith("<text") else f'<text xml:space="preserve">{text}</text>'
    head = f"<id>{number}</id><timestamp>{stamp}</timestamp>{inside}<contributor><id>99</id></contributor>"
    return f"<revision>{head}{body}</revision>"


def page(title: str, *revisions: str, number: int = 1, ns: str = "<ns>0</ns>", extra: str = "") -> str:
    return f"  <page>\n<title>{title}</title>{ns}<id>{number}</id>{extra}{''.join(revisions)}\n  </page>\n"


def dump(*inside: str, version: str = "0.11") -> bytes:
    return (head(version) + "".join(inside) + "</mediawiki>\n").encode()


def read(path: Path, data: bytes, **options: object) -> list[Document | Reject]:
    path.write_bytes(data)
    reader = WikipediaReader(msgspec.convert(options, WikipediaReader.Config))
    return [item for shard in reader.shards(str(path)) for item in reader.read(shard, "wiki")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "dump"


def one(path: Path, data: bytes, **options: object) -> Document | Reject:
    [item] = read(path, data, **options)
    return item


@pytest.mark.parametrize("version", VERSIONS)
class TestVersions:
    def ns(self, version: str, number: int) -> str:
        return f"<ns>{number}</ns>" if int(version[2:]) >= 5 else ""

    def test_an_article(self, version: str, file: Path) -> None:
        article = page("琴川 市", revision("'''琴川市'''は[[県|市]]。", 7), number=5, ns=self.ns(version, 0))
        doc = one(file, dump(article, version=version))
        assert isinstance(doc, Document)
        assert (doc.id, doc.title, doc.text) == ("wiki:5", "琴川 市", "琴川市は市。")
        assert doc.url == "https://example.org/wiki/%E7%90%B4%E5%B7%9D_%E5%B8%82"
        assert doc.meta == {"page": "5", "revision": "7", "timestamp": "2024-01-01T00:00:00Z"}

    def test_another_namespace(self, version: str, file: Path) -> None:
        template = page("Template:川", revision("かわ"), ns=self.ns(version, 10))
        assert one(file, dump(template, version=version)).reason == "namespace_10"
        assert one(file, dump(template, version=version), namespaces=[10]).text == "かわ"

    def test_no_closing_tag_and_windows_newlines(self, version: str, file: Path) -> None:
        data = dump(page("川", revision("流れる。\n海へ。"), ns=self.ns(version, 0)), version=version)
        opened = data.removesuffix(b"</mediawiki>\n").replace(b"\n", b"\r\n")
        assert one(file, opened) == one(file, data)


REJECTED = {
    "redirect": page("甲", revision("#REDIRECT [[乙]]"), extra='<redirect title="乙" />'),
    "deleted": page("甲", revision('<text deleted="deleted" />')),
    "empty": page("甲", revision("<text bytes='0' />")),
    "model_json": page("甲", revision("{}", inside="<model>json</model>")),
    "disambiguation": page("甲", revision("*[[乙]]\n{{aimai}}")),
    "namespace_4": page("Wikipedia:甲", revision("本文"), ns="<ns>4</ns>"),
}


@pytest.mark.parametrize(("reason", "inside"), REJECTED.items(), ids=REJECTED)
def test_rejects_have_a_reason(reason: str, inside: str, file: Path) -> None:
    item = one(file, dump(inside))
    assert isinstance(item, Reject)
    assert (item.id, item.step, item.reason) == ("wiki:1", "reader.wikipedia", reason)
    assert item.excerpt == {"redirect": "乙", "disambiguation": "{{aimai}"}.get(reason, "")


OLD_REDIRECTS = ["#REDIRECT [[乙]]", "#転送:[[乙]]", "＃転送 [[乙]]", " #リダイレクト[[乙]]", "#redirect [[乙]] {{R}}"]
MEANINGS = [
    "{{曖昧さ回避}}",
    "{{Aimai}}",
    "{{人名の曖昧さ回避|x}}",
    "{{disambig}}",
    "{{ Disambiguation }}",
    "{{Template:Human_name disambiguation}}",
    "{{DEFAULTSORT:こう}} [[Category:姓]]{{aimai}}",
    "__NOTOC__ {{Geodis|日本}}",
    "__DISAMBIG__",
]
ARTICLES = {
    "a notice in a sentence": "[[乙]]{{要曖昧さ回避|date=2014年6月}}は次のもの。",
    "a notice in a list": "* [[乙]]{{要曖昧さ回避|date=2014年6月}}",
    "a notice at the beginning of a line": "\n{{要曖昧さ回避}}",
    "a template in a sentence": "印は{{aimai}}である。",
    "a template in a cell": "{|\n| {{aimai}}\n|}",
    "a template in a comment": "<!-- {{曖昧さ回避}} -->",
    "a template in a comment of many lines": "<!--\n{{曖昧さ回避}}\n-->",
    "a template in nowiki": "<nowiki>\n{{aimai}}\n</nowiki>",
    "a template in pre": "<pre class='x'>\n{{aimai}}\n__DISAMBIG__</pre>",
    "another template's argument": "{{Tl|aimai}}",
    "a hatnote": "{{otheruses|乙の曖昧さ回避}}",
    "a longer name": "{{aimai-stub}}",
}


@pytest.mark.parametrize("text", OLD_REDIRECTS)
def test_redirects_of_old_exports_are_detected_by_text(text: str, file: Path) -> None:
    item = one(file, dump(page("甲", revision(text)), version="0.3"))
    assert (item.reason, item.excerpt) == ("redirect", "乙")


def test_redirects_of_old_exports_without_a_target_are_rejected(file: Path) -> None:
    item = one(file, dump(page("甲", revision("#REDIRECT [[]] 川は長い。")), version="0.3"))
    assert (item.reason, item.excerpt) == ("redirect", "")


@pytest.mark.parametrize("mark", MEANINGS)
def test_disambiguation_pages_can_be_kept(mark: str, file: Path) -> None:
    data = dump(page("甲", revision(f"甲は次のもの。\n{mark}")))
    assert one(file, data).reason == "disambiguation"
    assert one(file, data, disambiguation="keep").text == "甲は次のもの。"


@pytest.mark.parametrize("text", ARTICLES.values(), ids=ARTICLES)
def test_article_that_mentions_disambiguation_is_kept(text: str, file: Path) -> None:
    assert isinstance(one(file, dump(page("甲", revision(escape(f"甲は市。\n{text}"))))), Document)


def test_template_table_adds_disambiguation_templates(file: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('disambiguation = ["Many Meanings"]', encoding="utf-8")
    data = dump(page("甲", revision("甲は次のもの。\n{{many_meanings}}")))
    assert isinstance(one(file, data), Document)
    assert one(file, data, wikitext={"templates": [str(tmp_path / "own.toml")]}).reason == "disambiguation"


@settings(deadline=None)
@given(st.text(alphabet="{}|[]<!-nowiki/>aim\n _", max_size=200))
def test_disambiguation_needs_a_marking_template(text: str) -> None:
    marks = DisambiguationDetector(["aimai"])
    found = marks.marker(text)
    assert found in text
    assert not found or "aimai" in found.lower()
    assert marks.marker(f"{text.replace('<', '')}\n{{{{aimai}}}}")


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress])
def test_newest_revision_is_read(order: tuple[int, ...], compress, file: Path) -> None:
    history = [revision(f"第{n}版。", n, stamp=f"2024-01-0{n}T00:00:00Z") for n in order]
    data = dump(page("甲", *history), page("乙", revision("別の頁。"), number=2))
    first, second = read(file, compress(data))
    assert (first.text, first.meta["revision"], second.text) == ("第3版。", "3", "別の頁。")


def test_separators_are_removed_from_pages(file: Path) -> None:
    # XML 1.0 cannot hold U+001E; a dump that does is malformed.
    with pytest.raises(InputError, match="malformed XML"):
        read(file, dump(page("甲", revision("\x1e"))))


MALFORMED = {
    "a stray tag": dump(page("甲", revision("a</b>"))),
    "invalid UTF-8": dump(page("甲", revision("X"))).replace(b">X<", b">\xe3\x81<"),
    "an unknown entity": dump(page("甲", revision("&bomb;"))),
    "a number that is none": dump(page("甲", revision("a"), ns="<ns>zero</ns>")),
    "a namespace that is none": dump(page("甲", revision("a"))).replace(b'key="10"', b'key="ten"'),
}


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress], ids=["plain", "gzip", "bzip2"])
@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_malformed_xml_error_names_file_offset_and_fix(data: bytes, compress, file: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(file, compress(data))
    assert str(file) in caught.value.where and caught.value.fix
    assert caught.value.exit_code == 4


BOMB = '<!DOCTYPE mediawiki [<!ENTITY a "ああ"><!ENTITY b "&a;&a;&a;"><!ENTITY page "<page>">]>\n'


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress], ids=["plain", "gzip", "bzip2"])
@pytest.mark.parametrize("doctype", [BOMB, '<!DOCTYPE mediawiki SYSTEM "file:///etc/passwd">'])
def test_document_type_is_an_error(doctype: str, compress, file: Path) -> None:
    with pytest.raises(InputError, match="entity bomb"):
        read(file, compress(doctype.encode() + dump(page("甲", revision("&b;")))))


def test_a_document_type_inside_is_malformed(file: Path) -> None:
    inside = page("甲", revision("あ")) + BOMB + page("乙", revision("&b;"), number=2)
    with pytest.raises(InputError):
        read(file, dump(inside))


@pytest.mark.parametrize("data", [b"plain text\n", b"<html><body/></html>", "日本語".encode("utf-16")])
def test_other_files_are_an_error(data: bytes, file: Path) -> None:
    with pytest.raises(InputError, match="not a MediaWiki export"):
        read(file, data)


def test_empty_file_is_an_error(file: Path) -> None:
    with pytest.raises(InputError, match="the file is empty"):
        read(file, b"")


def prose(size: int, seed: int) -> str:
    """Text that compresses badly."""
    return "".join(map(chr, random.Random(seed).choices(range(0x4E00, 0x9FA5), k=size)))


@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["plain", "gzip", "bzip2", "xz"]
)
def test_truncated_file(compress, file: Path) -> None:
    data = compress(dump(*(page(f"頁{n}", revision(prose(100_000, n)), number=n) for n in range(12))))
    cut = data[: len(data) * 4 // 5]
    with pytest.raises(TruncatedError) as caught:
        read(file, cut)
    assert str(file) in caught.value.where and 'on_truncated = "keep"' in caught.value.fix
    kept = [doc.title for doc in read(file, cut, on_truncated="keep")]
    assert 3 <= len(kept) < 12 and kept == [f"頁{n}" for n in range(len(kept))]


def test_a_page_over_the_limit(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wikipedia, "MIB", 1000)
    monkeypatch.setattr(wikipedia, "_CHUNK", 1000)
    data = dump(page("甲", revision("長" * 4000)))
    with pytest.raises(InputError, match="a page is larger"):
        read(file, data, max_page_mb=3)
    assert len(one(file, data, max_page_mb=50).text) == 4000


class TestCuts:
    """Each page is read once, by the shard in which its tag begins, wherever the dump is split."""

    whole = dump(*(page(f"頁{n}", revision(f"第{n}の本文。&lt;page&gt;"), number=n) for n in range(3)))

    def titles(self, *chunks: tuple[bytes, bool]) -> list[str]:
        return [each.title for each in parse_pages(iter(chunks), "dump", LIMIT)]

    def test_at_every_byte(self) -> None:
        for cut in range(len(self.whole) + 1):
            before, after = self.whole[:cut], self.whole[cut:]
            found = self.titles((before, True), (after, False)) + self.titles((after, True))
            assert found == ["頁0", "頁1", "頁2"], cut

    @pytest.mark.parametrize("size", [1, 5, 64])
    def test_at_every_byte_in_small_pieces(self, size: int) -> None:
        pieces = [(n, self.whole[n : n + size]) for n in range(0, len(self.whole), size)]
        for cut in range(0, len(self.whole), size):
            before = [(piece, at < cut) for at, piece in pieces]
            after = [(piece, True) for at, piece in pieces if at >= cut]
            assert self.titles(*before) + self.titles(*after) == ["頁0", "頁1", "頁2"], cut

    @pytest.mark.parametrize("size", [1, 10, 300, 10_000])
    def test_stream_is_split_at_pages(self, size: int) -> None:
        chunks = [self.whole[n : n + 50] for n in range(0, len(self.whole), 50)]
        parts = list(split_at_pages(iter(chunks), size, LIMIT, "dump"))
        assert b"".join(parts) == self.whole
        assert [title for part in parts for title in self.titles((part, True))] == ["頁0", "頁1", "頁2"]

    def test_a_long_history_keeps_its_newest_revision(self) -> None:
        history = [revision(f"第{n}版。" + "長" * 200, n, stamp=f"2024-01-0{n}T00:00:00Z") for n in range(1, 6)]
        data = dump(page("甲", *history), page("乙", revision("別"), number=2))
        chunks = [data[n : n + 300] for n in range(0, len(data), 300)]
        found = [each for part in split_at_pages(iter(chunks), 100, LIMIT, "dump") for each in self.pages_of(part)]
        assert [(each.title, each.revision) for each in found] == [("甲", "5"), ("乙", "1")]

    def pages_of(self, part: bytes) -> Iterator[Page]:
        return parse_pages(iter([(part, True)]), "dump", LIMIT)


COMPRESSIONS = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2 of one stream": bz2.compress,
    "bzip2 of small blocks": lambda data: bz2.compress(data, 1),
    "xz": lzma.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}


@pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)
@pytest.mark.parametrize("mib", [500, 20_000, 1 << 20])
def test_any_compression_and_any_shard_size_give_the_same_items(
    compress, mib: int, sample: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = bz2.decompress(sample.joinpath(samples.DUMP).read_bytes()).partition(b"</siteinfo>")
    data = b"".join(once[:2]) + once[2].removesuffix(b"</mediawiki>\n") * 4
    expected = read(file, data)
    monkeypatch.setattr(wikipedia, "MIB", mib)
    assert read(file, compress(data), shard_mb=1, max_page_mb=1 << 20) == expected
    shards = list(WikipediaReader(WikipediaReader.Config(shard_mb=1)).shards(str(file)))
    assert [shard.index for shard in shards] == list(range(len(shards)))
    assert (len(shards) > 1) == (mib < len(data) and compress is not bz2.compress)


def test_streams_of_a_multistream_dump_become_shards(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wikipedia, "MIB", 60)
    shards = list(WikipediaReader(WikipediaReader.Config(shard_mb=1)).shards(str(sample / samples.DUMP)))
    assert len(shards) == 6  # header, four times eight pages, footer
    assert sum(shard.weight for shard in shards) == pytest.approx(sample.joinpath(samples.DUMP).stat().st_size, abs=6)


def test_head_of_an_export() -> None:
    data = dump(page("甲", revision("あ")), version="0.10")
    found, taken = read_site_info(iter([data[:40], data[40:]]), "dump")
    assert (found.version, found.base) == ("0.10", "https://example.org/wiki/Main")
    assert found.namespaces == {"": 0, "Template": 10}
    assert taken == data


def test_fields_are_those_of_pages_and_revisions_only() -> None:
    assert set(xml_export._FIELDS.values()) <= set(Page.__struct_fields__)


@pytest.mark.parametrize(
    ("key", "value"), [("shard_mb", 0), ("shard_mb", -1), ("max_page_mb", 0), ("max_ratio", 0.0), ("max_ratio", -1.0)]
)
def test_limits_are_positive(key: str, value: float) -> None:
    with pytest.raises(msgspec.ValidationError, match=key):
        msgspec.convert({key: value}, WikipediaReader.Config)


def test_counts_of_an_abandoned_shard_are_its_own(file: Path) -> None:
    file.write_bytes(dump(page("甲", revision(escape("一<ref>二</ref>"))), page("乙", revision("三"), number=2)))
    reader = WikipediaReader()
    (shard,) = reader.shards(str(file))
    items = reader.read_with_originals(shard, "wiki")
    next(items)
    items.close()
    assert reader.tally["refs"] == 1
    reader.tally.clear()
    assert len(list(reader.read(shard, "wiki"))) == 2
    assert reader.tally["refs"] == 1
