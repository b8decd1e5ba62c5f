"""The reader `law`: numbering, columns, tables, ruby, supplementary provisions; damaged and hostile XML."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path

import pytest

from jprep import Corpus
from jprep.corpus.config import decode_recipe
from jprep.corpus.document import Document, Reject, Tally
from jprep.corpus.readers.official.law import LawReader
from jprep.corpus.readers.official.law_text import parse_laws
from jprep.errors import InputError
from jprep.testing.conformance.reader import ReaderSuite

SAMPLE = """<?xml version="1.0" encoding="UTF-8"?>
<Law Era="Reiwa" Lang="ja" LawType="Act" Num="5" Year="3" PromulgateDay="1" PromulgateMonth="4">
  <LawNum>令和三年法律第五号</LawNum>
  <LawBody>
    <LawTitle Kana="やまみちほう">山道の保全に関する法律</LawTitle>
    <EnactStatement>山道の保全に関する法律をここに公布する。</EnactStatement>
    <TOC><TOCLabel>目次</TOCLabel><TOCChapter Num="1"><ChapterTitle>第一章　総則</ChapterTitle></TOCChapter></TOC>
    <MainProvision>
      <Chapter Num="1">
        <ChapterTitle>第一章　総則</ChapterTitle>
        <Article Num="1">
          <ArticleCaption>（目的）</ArticleCaption>
          <ArticleTitle>第一条</ArticleTitle>
          <Paragraph Num="1">
            <ParagraphNum/>
            <ParagraphSentence>
              <Sentence Num="1" WritingMode="vertical">この法律は、<Ruby>峠<Rt>とうげ</Rt></Ruby>を守る。</Sentence>
              <Sentence Num="2">ただし、<Sup>2</Sup>里を超えない。</Sentence>
            </ParagraphSentence>
          </Paragraph>
          <Paragraph Num="2">
            <ParagraphNum>２</ParagraphNum>
            <ParagraphSentence><Sentence>次に掲げるものをいう。</Sentence></ParagraphSentence>
            <Item Num="1">
              <ItemTitle>一</ItemTitle>
              <ItemSentence>
                <Column Num="1"><Sentence>山道</Sentence></Column>
                <Column Num="2"><Sentence>山の道をいう。</Sentence></Column>
              </ItemSentence>
              <Subitem1 Num="1">
                <Subitem1Title>イ</Subitem1Title>
                <Subitem1Sentence><Sentence>石の道</Sentence></Subitem1Sentence>
              </Subitem1>
            </Item>
            <TableStruct>
              <TableStructTitle>別表</TableStructTitle>
              <Table>
                <TableHeaderRow><TableHeaderColumn>道</TableHeaderColumn><TableHeaderColumn>里</TableHeaderColumn></TableHeaderRow>
                <TableRow>
                  <TableColumn><Sentence>東</Sentence></TableColumn>
                  <TableColumn>
                    <Item Num="1"><ItemTitle>一</ItemTitle><ItemSentence><Sentence>三</Sentence></ItemSentence></Item>
                  </TableColumn>
                </TableRow>
              </Table>
            </TableStruct>
          </Paragraph>
        </Article>
        <Article Num="2">
          <ArticleTitle>第二条</ArticleTitle>
          <Paragraph Num="1"><ParagraphNum/><ParagraphSentence><Sentence>削除</Sentence></ParagraphSentence></Paragraph>
        </Article>
      </Chapter>
    </MainProvision>
    <SupplProvision AmendLawNum="令和四年法律第六号" Extract="true">
      <SupplProvisionLabel>附　則</SupplProvisionLabel>
      <Paragraph Num="1">
        <ParagraphNum/>
        <ParagraphSentence><Sentence>公布の日から施行する。</Sentence></ParagraphSentence>
      </Paragraph>
    </SupplProvision>
    <AppdxTable><AppdxTableTitle>別表第一</AppdxTableTitle><FigStruct><Fig src="./pict/a.jpg"/></FigStruct></AppdxTable>
  </LawBody>
</Law>
"""
MAIN = """山道の保全に関する法律をここに公布する。
第一章　総則
（目的）
第一条　この法律は、峠を守る。ただし、2里を超えない。
２　次に掲げるものをいう。
一　山道　山の道をいう。
イ　石の道
別表
道	里
東	一　三
第二条　削除"""
TEXT = f"{MAIN}\n附　則（令和四年法律第六号）　抄\n公布の日から施行する。\n別表第一"
NAME = "503AC0000000005_20210401_000000000000000.xml"


class TestLaw(ReaderSuite):
    step = LawReader
    texts = (TEXT,)

    def write(self, folder: Path) -> str:
        path = folder / NAME
        path.write_text(SAMPLE, encoding="utf-8")
        return str(path)


class TestLawsInZip(ReaderSuite):
    step = LawReader
    options = {"supplementary": False, "max_bad": 1.0}
    texts = (f"{MAIN}\n別表第一", f"{MAIN}\n別表第一")
    rejects = ("malformed_xml", "no_law", "empty")

    def write(self, folder: Path) -> str:
        path = folder / "laws.zip"
        members = {"a/x.xml": SAMPLE, "b/x.xml": SAMPLE, "bad.xml": SAMPLE[:900], "other.xml": "<a/>", "p.jpg": "x"}
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in (members | {"empty.xml": "<Law><LawBody/></Law>"}).items():
                archive.writestr(name, text)
        return str(path)


def read(data: bytes, tmp_path: Path, name: str = "x.xml", **options: object) -> list[Document | Reject]:
    path = tmp_path / name
    path.write_bytes(data)
    reader = LawReader(LawReader.Config(**options))  # type: ignore[arg-type]
    return [item for shard in reader.shards(str(path)) for item in reader.read(shard, "s")]


def test_title_number_and_address(tmp_path: Path) -> None:
    [doc] = read(SAMPLE.encode(), tmp_path, NAME)
    assert isinstance(doc, Document)
    assert doc.title == "山道の保全に関する法律"
    assert doc.url == "https://laws.e-gov.go.jp/law/503AC0000000005"
    assert doc.meta["law_number"] == "令和三年法律第五号" and doc.meta["law_type"] == "Act"
    assert doc.meta["law_id"] == "503AC0000000005"


def test_what_is_left_out_is_counted() -> None:
    tally = Tally()
    list(parse_laws(SAMPLE.encode(), tally, supplementary=False))
    assert tally == {"toc.deleted": 1, "ruby.deleted": 1, "figures.deleted": 1, "supplementary.deleted": 1}


def test_an_answer_of_the_interface(tmp_path: Path) -> None:
    law = SAMPLE.partition("?>\n")[2]
    answer = f"<DataRoot><ApplData><LawId>x</LawId><LawFullText>{law}{law}</LawFullText></ApplData></DataRoot>"
    first, second = read(answer.encode(), tmp_path)
    assert isinstance(first, Document) and isinstance(second, Document)
    assert first.text == second.text == TEXT
    assert (first.id, second.id) == ("s:x.xml", "s:x.xml:2")


def test_ids_are_unique_and_skipped_members_are_counted(tmp_path: Path) -> None:
    law = SAMPLE.partition("?>\n")[2]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.mkdir("b")
        archive.writestr("a.xml", f"<x>{law}{law}</x>")
        archive.writestr("picture.jpg", "x")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.xml", law)
    (tmp_path / "x.zip").write_bytes(buffer.getvalue())
    reader = LawReader()
    items = [item for shard in reader.shards(str(tmp_path / "x.zip")) for item in reader.read(shard, "s")]
    assert [item.id for item in items] == ["s:x.zip:a.xml", "s:x.zip:a.xml:2", "s:x.zip:a.xml#2"]
    assert reader.tally["members.skipped"] == 1


def test_only_white_space_of_xml_is_indentation() -> None:
    sentence = "<Sentence>峠の\n \t 茶屋\n\n  を\n　営む　\r\n者</Sentence>"
    [law] = parse_laws(f"<Law><LawBody>{sentence}</LawBody></Law>".encode(), Tally())
    assert law.lines == ["峠の茶屋を　営む　者"]


def test_an_empty_first_cell_keeps_its_place() -> None:
    row = "<TableRow><TableColumn/><TableColumn><Sentence>峠</Sentence></TableColumn><TableColumn/></TableRow>"
    [law] = parse_laws(f"<Law><LawBody><Table>{row}</Table></LawBody></Law>".encode(), Tally())
    assert law.lines == ["\t峠"]


def test_what_is_in_a_cell_is_kept_apart() -> None:
    sentences = "<Sentence>次の舟</Sentence><Sentence>一　大きい舟</Sentence><Sentence>二　小さい舟。</Sentence>"
    items = "".join(
        f"<Item><ItemTitle>{each}</ItemTitle><ItemSentence><Sentence>{each}里</Sentence></ItemSentence></Item>"
        for each in "三四"
    )
    cells = f"<TableColumn>{sentences}<Sentence>また筏</Sentence></TableColumn><TableColumn>{items}</TableColumn>"
    [law] = parse_laws(f"<Law><LawBody><Table><TableRow>{cells}</TableRow></Table></LawBody></Law>".encode(), Tally())
    assert law.lines == ["次の舟　一　大きい舟　二　小さい舟。また筏\t三　三里　四　四里"]


def test_a_label_with_ruby_is_followed_by_a_space() -> None:
    item = "<Item><ItemTitle><Ruby>一<Rt>いち</Rt></Ruby></ItemTitle><ItemSentence>峠を守る。</ItemSentence></Item>"
    [law] = parse_laws(f"<Law><LawBody>{item}</LawBody></Law>".encode(), Tally())
    assert law.lines == ["一　峠を守る。"]


def test_much_white_space_takes_linear_time() -> None:
    space = (" " * 8_000 + "あ\n") * 500
    started = time.process_time()
    assert [law.lines for law in parse_laws(f"<Law><LawBody>{space}</LawBody></Law>".encode(), Tally())]
    assert time.process_time() - started < 5


BOMB = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><Law><LawBody>&b;</LawBody></Law>'
OUTSIDE = '<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><Law><LawBody>&a;</LawBody></Law>'
HOSTILE = {
    "entities": BOMB.encode(),
    "an external entity": OUTSIDE.encode(),
    "cut off": SAMPLE.encode()[:-20],
    "in the middle of a character": SAMPLE.encode()[:400],
    "not XML": b"PDF-1.4 \xff\xfe",
    "empty": b"",
    "nested": b"<Law>" + b"<a>" * 1_000_000,
    "an unknown encoding": b'<?xml version="1.0" encoding="x-none"?><Law/>',
    "NUL": b"<Law>\0</Law>",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_xml_is_an_error_or_a_reject(data: bytes, tmp_path: Path) -> None:
    [item] = read(data, tmp_path, max_bad=1.0)
    assert isinstance(item, Reject) and item.reason == "malformed_xml"
    with pytest.raises(InputError, match="malformed XML") as caught:
        read(data, tmp_path)
    assert "x.xml" in caught.value.where and caught.value.fix


def test_time_is_linear() -> None:
    def seconds(count: int) -> float:
        row = (
            "<TableRow>"
            + "<TableColumn><Sentence>あ<Ruby>峠<Rt>と</Rt></Ruby></Sentence></TableColumn>" * 9
            + "</TableRow>"
        )
        data = f"<Law><LawBody><LawTitle>{'題' * count}</LawTitle><Table>{row * count}</Table></LawBody></Law>".encode()
        begin = time.process_time()
        [law] = parse_laws(data, Tally())
        assert len(law.lines) == count
        return time.process_time() - begin

    assert seconds(8_000) < 12 * max(seconds(2_000), 0.05)


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.xml", b" " * 3_000_000)
    with pytest.raises(InputError, match="larger than"):
        read(buffer.getvalue(), tmp_path, "a.zip", max_record_mb=1)


def test_from_file_to_parquet(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(SAMPLE, encoding="utf-8")
    source = {"name": "laws", "paths": [str(tmp_path / "*.xml")], "reader": "law", "licence": "PDL 1.0"}
    recipe = decode_recipe({"name": "laws", "corpus": {"sources": [source], "segmenter": "none"}})
    corpus = Corpus.build(recipe, tmp_path / "corpus")
    [doc] = corpus
    assert doc.text.startswith("山道の保全") and doc.id == f"laws:{NAME}"
    assert corpus.manifest.counts["reader.law.ruby.deleted"] == 1
