"""The reader `aozora`: header, text and colophon; ruby, notes, gaiji, accents; .zip; damaged and hostile files."""

from __future__ import annotations

import contextlib
import io
import time
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jprep.corpus.api import Corpus
from jprep.corpus.config import decode_recipe
from jprep.corpus.document import Document, Reject, Tally
from jprep.corpus.readers.aozora.markup import describe, plain_text
from jprep.corpus.readers.aozora.reader import AozoraReader
from jprep.errors import InputError
from jprep.testing.conformance.reader import ReaderSuite

RULE = "-" * 55
SAMPLE = f"""山道の話
――夏の日――
川上某

{RULE}
【テキスト中に現れる記号について】

《》：ルビ
（例）山道《やまみち》

｜：ルビの付く文字列の始まりを特定する記号
{RULE}

［＃３字下げ］一［＃「一」は中見出し］

　昔｜むかし《ムカシ》、山道《やまみち》で※［＃「臣＋頁」、第4水準2-92-25］をもたげた［＃「もたげた」に傍点］。
［＃ここから１字下げ］
　〔cafe'〕とかへる／″＼。※［＃「石＋山」、12-下-3］と※［＃「木＋山」、U+6799、3-4］だ。
［＃ここで字下げ終わり］
　※［＃始め二重山括弧、1-1-52］括弧※［＃終わり二重山括弧、1-1-53］と〔注記〕は残る。

底本：「試しの本」試し書房
　　　2001（平成13）年1月1日発行
入力：某
"""
TEXT = """一

　昔むかし、山道で頣をもたげた。
　caféとかへる〴〵。〓と枙だ。
　《括弧》と〔注記〕は残る。"""


def read(path: Path, **options: object) -> list[Document | Reject]:
    reader = AozoraReader(AozoraReader.Config(**options))  # type: ignore[arg-type]
    return [item for shard in reader.shards(str(path)) for item in reader.read(shard, "s")]


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def as_file(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode("cp932")


class TestAozora(ReaderSuite):
    step = AozoraReader
    texts = (TEXT,)

    def write(self, folder: Path) -> str:
        path = folder / "123_ruby_456.txt"
        path.write_bytes(as_file(SAMPLE))
        return str(path)


class TestAozoraZip(ReaderSuite):
    step = AozoraReader
    texts = (TEXT, "本文。")
    rejects = ("empty",)

    def write(self, folder: Path) -> str:
        path = folder / "123_ruby_456.zip"
        files = {"a.txt": as_file(SAMPLE), "fig1.png": b"\x89PNG", "b.TXT": as_file("題\n人\n\n本文。"), "c.txt": b""}
        path.write_bytes(zipped(files))
        return str(path)


def test_header_and_colophon_are_meta(tmp_path: Path) -> None:
    path = tmp_path / "123_ruby_456.txt"
    path.write_bytes(as_file(SAMPLE))
    (doc,) = read(path)
    assert isinstance(doc, Document)
    assert (doc.id, doc.title) == ("s:123_ruby_456.txt", "山道の話")
    colophon = doc.meta.pop("colophon")
    assert doc.meta == {"subtitle": "――夏の日――", "author": "川上某", "work": "123"}
    assert colophon.startswith("底本：「試しの本」")
    assert colophon.endswith("入力：某")


def read_one(folder: Path, data: bytes) -> Document:
    path = folder / "a.txt"
    path.write_bytes(data)
    (doc,) = read(path)
    assert isinstance(doc, Document)
    return doc


@pytest.mark.parametrize(
    "start",
    ["\n底本：「試しの本」", "［＃改ページ］\n底本：「試しの本」", "\n底本の親本：「元の本」\n底本：「試しの本」"],
)
def test_a_colophon_begins_behind_a_blank_line_or_a_note(start: str, tmp_path: Path) -> None:
    doc = read_one(tmp_path, as_file(f"題\n人\n\n札を見た。\n底本：は本文。\n{start}\n入力：某"))
    assert doc.text == "札を見た。\n底本：は本文。"
    assert doc.meta["colophon"] == f"{start}\n入力：某".removeprefix("［＃改ページ］").strip()


@pytest.mark.parametrize(
    "start", ["翻訳の底本：「試しの本」", "底本・初出：「試しの本」", "［＃本文終わり］\n翻訳者：某"]
)
def test_colophons_of_translations(start: str, tmp_path: Path) -> None:
    doc = read_one(tmp_path, as_file(f"題\n人\n\n札を見た。\n\n{start}\n入力：某"))
    assert doc.text == "札を見た。"
    assert doc.meta["colophon"] == f"{start}\n入力：某".removeprefix("［＃本文終わり］\n")


def test_characters_of_jis_x_0213_in_shift_jis(tmp_path: Path) -> None:
    doc = read_one(tmp_path, "題\n人\n\n㯃をもたげた。二人の男は、山の道を歩いていた。".encode("shift_jis_2004"))
    assert doc.text.startswith("㯃をもたげた。")


def test_a_file_in_cp932_is_not_read_as_another_form_of_shift_jis(tmp_path: Path) -> None:
    text = "春～夏、髙橋さんと山﨑さんは歩いた。"
    doc = read_one(tmp_path, as_file(f"題\n人\n\n{text}／＼"))
    assert doc.text == f"{text}〳〵"


def test_small_notes_and_pictures_are_counted() -> None:
    tally = Tally()
    plain_text(
        "（［＃割り注］表［＃割り注終わり］）と［＃割り注］注［＃割り注終わり］と［＃図（fig1.png）入る］だ", "", tally
    )
    assert (tally["inline_notes.bracketed"], tally["pictures.replaced"], tally["notes.deleted"]) == (1, 1, 2)


def test_unclosed_pictures_take_linear_time() -> None:
    begin = time.process_time()
    plain_text("あ［＃図（fig" + "（fig" * 200_000, "", Tally())
    assert time.process_time() - begin < 10


def test_each_change_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(as_file(SAMPLE))
    reader = AozoraReader()
    (shard,) = reader.shards(str(path))
    ((_, original),) = reader.read_with_originals(shard, "s")
    assert original == SAMPLE.replace("\n", "\r\n")
    counts = {
        name: reader.tally[name] for name in ("ruby.deleted", "notes.deleted", "gaiji.resolved", "gaiji.unresolved")
    }
    assert counts == {"ruby.deleted": 2, "notes.deleted": 5, "gaiji.resolved": 4, "gaiji.unresolved": 1}
    assert reader.tally["accents.resolved"] == reader.tally["repetition.resolved"] == 1


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("私《わたくし》｜大和《やまと》", "私大和"),
        ("閉じない《ルビと｜棒", "閉じない《ルビと｜棒"),
        ("文［＃「※［＃「魚＋昜」、135-下-11］」に傍点］", "文"),
        ("読《よ》※［＃「字」、1-94-99］", "読〓"),
        ("※［＃「字」、U+D800］※［＃「字」、U+110000］", "〓〓"),
        ("閉じない［＃注", "閉じない［＃注"),
        ("〔A&ngstro:m, Franc,ais: tre`s, ae&〕", "Ångström, Français: très, æ"),
        ("〔know: a, b〕", "〔know: a, b〕"),
        ("和算［＃割り注］数学の［＃「数学」に傍点］事［＃割り注終わり］を学ぶ", "和算（数学の事）を学ぶ"),
        ("〔［＃ここから割り注］注［＃ここで割り注終わり］〕と［＃割り注］（註）［＃割り注終わり］", "〔注〕と（註）"),
        ("（［＃割り注］表［＃割り注終わり］を見る）［＃割り注］終わりがない", "（（表）を見る）終わりがない"),
        ("往来は［＃図（fig1_01.png、横34×縦45）入る］まで", "往来は〓まで"),
        ("図。\n［＃図（fig1_01.png、横34×縦45）入る］\n［＃図（fig1_02.png）入る］のあと", "図。\nのあと"),
    ],
)  # fmt: skip
def test_markup(markup: str, text: str) -> None:
    assert plain_text(markup, "", Tally()) == text


def test_brackets_stay_where_the_legend_explains_other_marks_only() -> None:
    assert plain_text("《引用》", "［＃］：入力者注", Tally()) == "《引用》"
    assert plain_text("敲《たた》く", "：ルビ\n（例）敲《たた》く", Tally()) == "敲く"


def test_a_text_without_header_keeps_all_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    verse = "\n".join(f"第{number}行" for number in range(9))
    path.write_bytes(as_file(f"{verse}\n\n終わり"))
    assert [(item.title, item.text) for item in read(path) if isinstance(item, Document)] == [
        ("", f"{verse}\n\n終わり")
    ]


def test_a_zip_goes_end_to_end_to_parquet(tmp_path: Path) -> None:
    (tmp_path / "123_ruby_456.zip").write_bytes(zipped({"a.txt": as_file(SAMPLE)}))
    source = {"name": "books", "reader": "aozora", "paths": [str(tmp_path / "*.zip")]}
    recipe = decode_recipe(
        {"name": "t", "corpus": {"sources": [source], "normalizers": [], "splitter": "none", "segmenter": "none"}}
    )
    Corpus.build(recipe, tmp_path / "corpus")
    (file,) = (tmp_path / "corpus" / "documents").glob("*.parquet")
    (row,) = pq.read_table(file).to_pylist()
    assert (row["title"], row["text"]) == ("山道の話", TEXT.replace("\n\n", "\n"))
    assert dict(map(dict.values, row["meta"]))["author"] == "川上某"


def test_translators() -> None:
    assert describe(["題", "副題", "ポー", "某山某訳"]) == {
        "title": "題", "subtitle": "副題", "author": "ポー", "translator": "某山某訳",
    }  # fmt: skip
    assert describe(["題", "ポー", "某山某訳", "某川某改訳"])["translator"] == "某山某訳、某川某改訳"
    assert describe(["題", "物語", "上編", "某山某訳"])["translator"] == "某山某訳"
    assert describe(["題", "司馬遷", "某山某訳註"]) == {"title": "題", "author": "司馬遷", "translator": "某山某訳註"}
    assert describe(["題"]) == {"title": "題"}


def test_bad_bytes_stop_the_build_or_reject_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(as_file(SAMPLE) + b"\x81\xff")
    with pytest.raises(InputError, match="not valid cp932"):
        read(path)
    assert [item.reason for item in read(path, max_bad=1.0) if isinstance(item, Reject)] == ["invalid_cp932"]


@pytest.mark.parametrize("cut", [5, 40, 200, -30])
def test_a_damaged_zip_is_an_input_error(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({"a.txt": as_file(SAMPLE)})[:cut])
    with pytest.raises(InputError, match="damaged"):
        read(path)


def test_sizes_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({"a.txt": b"a" * 3_000_000}))
    with pytest.raises(InputError, match=r"(?s)the file is larger than 1 MB.*member a.txt.*`max_record_mb`"):
        read(path, max_record_mb=1.0)


def test_repeated_names_and_bombs_in_a_zip(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for _ in range(2):
            with pytest.warns(UserWarning) if archive.namelist() else contextlib.nullcontext():
                archive.writestr("../a.txt", as_file("題\n人\n\n本文。"))
    path.write_bytes(buffer.getvalue())
    assert [item.id for item in read(path)] == ["s:a.zip:../a.txt", "s:a.zip:../a.txt#2"]
    path.write_bytes(zipped({f"{number}.txt": b"\n" * 30_000_000 for number in range(3)}))
    with pytest.raises(InputError, match="bomb"):
        read(path)


@pytest.mark.parametrize("piece", ["［＃", "《", "｜", "※［＃", "〔", "［＃［＃］", "［＃「", "｜《"])
def test_hostile_markup_takes_linear_time(piece: str) -> None:
    started = time.process_time()
    plain_text(piece * 100_000, "", Tally())
    assert time.process_time() - started < 5
