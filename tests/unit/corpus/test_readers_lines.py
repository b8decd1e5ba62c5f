"""Line-based readers: the same documents for any shard size and compression, and errors that name the position."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.document import Document, Reject
from jprep.corpus.readers import encoding
from jprep.corpus.readers.lines import Cc100Reader, JsonlReader, TextReader
from jprep.errors import ConfigError, InputError, TruncatedError
from jprep.testing.conformance.reader import ReaderSuite

KANA = "これは、かなの多い文です。それを読みます。\n"


def put(folder: Path, data: str | bytes, name: str = "input.txt") -> str:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


def read(reader, path: str) -> list:
    return [item for shard in reader.shards(path) for item in reader.read(shard, "src")]


def texts(items: list) -> list[str]:
    return [item.text for item in items if isinstance(item, Document)]


def made(kind, **options):
    return kind(msgspec.convert(options, kind.Config))


class TestCc100Conforms(ReaderSuite):
    step = Cc100Reader
    options = {"shard_mb": 1e-5}
    texts = ("一\n二", "三\u2028四", "五")
    rejects = ("empty",)

    def write(self, folder):
        return put(folder, "\ufeff一\r\n二\x1e\x1f\x00\r\n\r\n \n\n三\u2028四\n\n\n\n五")


class TestTextConforms(ReaderSuite):
    step = TextReader
    options = {"documents": "line", "max_bad": 0.5}
    texts = ("一行目", "二行目")
    rejects = ("empty", "invalid_utf8")

    def write(self, folder):
        return put(folder, "一行目\n\n二行目\r\n　\n".encode() + b"\xff\n")


class TestJsonlConforms(ReaderSuite):
    step = JsonlReader
    options = {"max_bad": 0.5}
    texts = ("一\n二", "三")
    rejects = ("no_text", "malformed_json", "empty")

    def write(self, folder):
        return put(folder, '{"text": "一\\u001e\\r\\n二"}\n{"text": null}\n{"text": "三"}\n{broken\n\n{"text": " "}')


class TestCc100:
    def test_a_blank_line_ends_a_document(self, tmp_path):
        found = read(Cc100Reader(), put(tmp_path, "一\n二\n\n三\n\n\n四\n", "ja.txt"))
        assert [(doc.id, doc.text) for doc in found] == [
            ("src:ja.txt:0", "一\n二"),
            ("src:ja.txt:9", "三"),
            ("src:ja.txt:15", "四"),
        ]

    def test_only_newlines_end_lines(self, tmp_path):
        text = "一\u2028二\u2029三\u0085四\u200b五"
        assert texts(read(Cc100Reader(), put(tmp_path, text))) == [text]

    def test_deleted_characters_are_counted(self, tmp_path):
        reader = Cc100Reader()
        assert texts(read(reader, put(tmp_path, "\ufeff一\x1e二\x1f\x00\x0b\x0c\r\n三\tと\x7f\r\n\r\n四\r\n"))) == [
            "一二\n三\tと",
            "四",
        ]
        assert reader.tally == {"bom.deleted": 1, "crlf.to_lf": 4, "control.deleted": 6}

    @pytest.mark.parametrize(
        ("written", "text", "counts"),
        [
            ("一\r二\r\n三\r\r四", "一\n二\n三\n\n四", {"crlf.to_lf": 1, "cr.to_lf": 3}),
            ("一\f二\v\f三", "一\n二\n三", {"page_breaks.to_lf": 2, "control.deleted": 1}),
            ("\f一\n\f二\f\n三\v", "一\n二\n三", {"control.deleted": 4}),
            ("一\r\r\n二", "一\n二", {"crlf.to_lf": 1}),
            ("一\f\r\n二\r\v三", "一\n二\n三", {"crlf.to_lf": 1, "cr.to_lf": 1, "control.deleted": 2}),
        ],
    )
    def test_no_line_break_joins_two_lines(self, written: str, text: str, counts: dict[str, int], tmp_path: Path):
        reader = TextReader(TextReader.Config(documents="file"))
        assert texts(read(reader, put(tmp_path, written))) == [text]
        assert reader.tally == counts

    def test_a_document_of_white_space_is_rejected(self, tmp_path):
        found = read(Cc100Reader(), put(tmp_path, "一\n\n 　\n\x00\n\n二"))
        assert found[1] == Reject("src:input.txt:5", "", "reader.cc100", "empty")
        assert texts(found) == ["一", "二"]

    def test_an_empty_file_has_no_documents(self, tmp_path):
        assert read(Cc100Reader(), put(tmp_path, "")) == []

    def test_hint_distinguishes_files_of_the_same_name(self, tmp_path):
        reader = Cc100Reader()
        (shard,) = reader.shards(put(tmp_path, "一"))
        hinted = msgspec.structs.replace(shard, hints={**shard.hints, "name": "x/input.txt"})
        assert [doc.id for doc in reader.read(hinted, "src")] == ["src:x/input.txt:0"]


PIECES = st.sampled_from(["あ", "い。", "x", " ", "\n", "\n\n", "\r\n", "\r\n\r\n", "\u2028", "\x1e", "長い段落" * 3])
INPUTS = st.lists(PIECES, max_size=40).map("".join)


class TestLaws:
    @pytest.mark.parametrize("reader", [Cc100Reader, TextReader])
    @settings(deadline=None)
    @given(text=INPUTS, size=st.integers(1, 60))
    def test_shard_size_and_compression_do_not_change_documents(self, reader, text, size, tmp_path_factory):
        folder = tmp_path_factory.mktemp("law")
        options = {"documents": "line"} if reader is TextReader else {}
        plain, packed = put(folder, text, "a.txt"), put(folder, gzip.compress(text.encode()), "a.txt.gz")
        whole, cut = made(reader, **options), made(reader, shard_mb=size / 1e6, **options)
        expected = read(whole, plain)
        assert read(cut, plain) == expected
        assert read(whole, packed) == expected
        assert read(cut, packed) == expected
        assert cut.tally == whole.tally  # both have read it twice

    @settings(deadline=None)
    @given(text=INPUTS)
    def test_standard_input_gives_the_same_texts(self, text, tmp_path_factory):
        expected = texts(read(Cc100Reader(), put(tmp_path_factory.mktemp("law"), text)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
            found = read(made(Cc100Reader, shard_mb=7e-6), "-")
        assert texts(found) == expected
        assert all(item.id.startswith("src:stdin:") for item in found)

    @settings(deadline=None)
    @given(lines=st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1)))
    def test_every_line_is_read(self, lines, tmp_path_factory):
        path = put(tmp_path_factory.mktemp("law"), "\n".join(lines))
        found = texts(read(made(TextReader, documents="line", shard_mb=1e-5), path))
        if lines and lines[0].startswith("\ufeff"):
            lines[0] = lines[0].removeprefix("\ufeff")
        assert found == [line for line in lines if line and not line.isspace()]

    @settings(deadline=None)
    @given(values=st.lists(st.text(st.characters(codec="utf-8"))), size=st.integers(1, 99))
    def test_shard_size_does_not_change_json_lines(self, values, size, tmp_path_factory):
        path = put(tmp_path_factory.mktemp("law"), "".join(json.dumps({"x": 1, "text": v}) + "\n" for v in values))
        assert read(made(JsonlReader, shard_mb=size / 1e6), path) == read(JsonlReader(), path)
        assert len(read(JsonlReader(), path)) == len(values)


class TestShards:
    def test_uncompressed_file_is_split_into_ranges(self, tmp_path):
        shards = list(made(Cc100Reader, shard_mb=1e-4).shards(put(tmp_path, KANA * 20)))
        assert len(shards) > 5
        assert all(shard.data is None for shard in shards)
        assert [shard.start for shard in shards[1:]] == [shard.end for shard in shards[:-1]]

    @pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
    def test_shards_of_a_compressed_file_contain_data(self, compress, tmp_path):
        packed = compress((KANA + "\n").encode() * 500)
        shards = list(made(Cc100Reader, shard_mb=1e-3).shards(put(tmp_path, packed, "a.gz")))
        assert len(shards) > 5
        assert sum(shard.weight for shard in shards) == len(packed)
        assert b"".join(shard.data for shard in shards) == (KANA + "\n").encode() * 500

    def test_line_larger_than_a_shard_is_not_split(self, tmp_path):
        text = "一\n" + "長" * 3_000_000 + "\n二\n"
        reader = made(TextReader, documents="line", shard_mb=0.5)
        for path in (put(tmp_path, text), put(tmp_path, gzip.compress(text.encode()), "a.gz")):
            assert [len(t) for t in texts(read(reader, path))] == [1, 3_000_000, 1]

    @pytest.mark.parametrize("shard_mb", [0.5, 32.0])
    @pytest.mark.parametrize("documents", ["line", "file"])
    def test_record_over_the_limit_is_an_error(self, documents, shard_mb, tmp_path):
        text = "一\n" + "長" * 2_000_000 + "\n二\n"
        reader = made(TextReader, documents=documents, shard_mb=shard_mb, max_record_mb=3)
        for path in (put(tmp_path, text), put(tmp_path, gzip.compress(text.encode()), "a.gz")):
            with pytest.raises(InputError, match=r"(?s)larger than 3 MB.*byte.*max_record_mb"):
                read(reader, path)

    def test_truncated_file_yields_complete_shards_first(self, tmp_path):
        text = "".join(f"{i} {KANA}\n" for i in range(30_000))
        path = put(tmp_path, gzip.compress(text.encode())[:-20])
        reader, found = made(Cc100Reader, shard_mb=0.1), []
        with pytest.raises(TruncatedError):
            found.extend(reader.shards(path))
        assert len(found) > 3


class TestText:
    def test_a_small_file_is_one_document(self, tmp_path):
        (doc,) = read(TextReader(), put(tmp_path, "一\n\n二\n", "book.txt"))
        assert (doc.id, doc.text) == ("src:book.txt", "一\n\n二")

    def test_an_empty_file_is_a_reject(self, tmp_path):
        packed = put(tmp_path, gzip.compress(b"\n"), "b.txt.gz")
        assert [item.reason for item in read(TextReader(), packed)] == ["empty"]

    @pytest.mark.parametrize("documents", ["auto", "file", "line"])
    @pytest.mark.parametrize("data", [b"", gzip.compress(b"")], ids=["plain", "gzip"])
    def test_a_file_of_no_bytes_is_counted_like_one_of_white_space(self, data, documents, tmp_path):
        found = read(made(TextReader, documents=documents), put(tmp_path, data, "b.txt"))
        rejects = [] if documents == "line" else [Reject("src:b.txt", "", "reader.text", "empty")]
        assert found == rejects  # of lines there are none

    @pytest.mark.parametrize(("unit", "kind"), [("一段落\n\n", "blank_line"), ("一行\n", "line")])
    def test_a_large_file_is_a_collection(self, unit, kind, tmp_path, monkeypatch):
        monkeypatch.setattr("jprep.corpus.readers.lines._ONE_DOCUMENT", 1000)
        for path in (put(tmp_path, unit * 200), put(tmp_path, gzip.compress((unit * 200).encode()), "a.gz")):
            assert {shard.hints["documents"] for shard in TextReader().shards(path)} == {kind}
            assert len(read(TextReader(), path)) == 200

    @pytest.mark.parametrize("name", ["cp932", "shift_jis", "euc_jp"])
    def test_older_encodings(self, name, tmp_path):
        text = "表示能力の説明。\r\nソース\\十\r\n"
        reader = made(TextReader, encoding=name, documents="line", shard_mb=1e-5)
        assert texts(read(reader, put(tmp_path, text.encode(name)))) == ["表示能力の説明。", "ソース\\十"]

    def test_undecodable_records_within_the_budget_are_rejects(self, tmp_path):
        path = put(tmp_path, "一\n".encode() * 3 + b"a\x82\xa0z\n" + "二\n".encode())
        found = read(made(TextReader, documents="line", max_bad=0.2), path)
        assert texts(found) == ["一", "一", "一", "二"]
        assert found[3] == Reject("src:input.txt:12", "", "reader.text", "invalid_utf8", "byte 13: a\\x82\\xa0z\n")

    def test_too_many_undecodable_records_are_an_error(self, tmp_path):
        path = put(tmp_path, "一\n".encode() * 3 + b"a\x82\n\xff\n")
        with pytest.raises(InputError, match=rf"(?s)0x82 is not valid utf-8.*{path}, byte 13.*max_bad = 0.4` .2 of 5 "):
            read(made(TextReader, documents="line"), path)
        with pytest.raises(InputError, match=r"(?s)2 of 5 records are bad, over max_bad = 0.2; first: byte 0x82"):
            read(made(TextReader, documents="line", max_bad=0.2), path)

    @pytest.mark.parametrize("name", ["euc-jp", "cp932", "utf-16le", "utf-16be", "utf-16", "iso-2022-jp"])
    def test_error_guesses_the_encoding(self, name, tmp_path):
        assert encoding.guess_encoding((KANA * 3).encode(name)) == name
        if name == "iso-2022-jp":
            return  # seven bits: valid UTF-8, to begin with
        data = ("漢字の表題\n" + KANA).encode(name)
        with pytest.raises(InputError, match=f"looks like {name}: convert it"):
            read(TextReader(), put(tmp_path, data))


class TestJsonl:
    def test_reads_fields_by_name(self, tmp_path):
        line = {
            "page": {"id": 12, "body": "本文", "no": None},
            "title": "題",
            "url": "u",
            "n": [1, 2],
            "skip": {},
        }
        reader = made(
            JsonlReader, text="page.body", id="page.id", title="title", url="url", meta=["n", "page.no", "gone"]
        )
        (doc,) = read(reader, put(tmp_path, json.dumps(line)))
        assert doc == Document("src:12", "src", "題", "u", "本文", meta={"n": "[1,2]"})

    def test_ids_are_offsets(self, tmp_path):
        path = put(tmp_path, '\ufeff{"text": "a"}\n\n{"text": "b"}\r\n', "d.jsonl")
        assert [doc.id for doc in read(JsonlReader(), path)] == ["src:d.jsonl:0", "src:d.jsonl:18"]

    def test_record_without_text_is_rejected(self, tmp_path):
        path = put(tmp_path, '{"text": "a"}\n{"text": 3}\n{"x": 1}\n')
        assert [getattr(item, "reason", "") for item in read(JsonlReader(), path)] == ["", "no_text", "no_text"]

    def test_unknown_field_is_a_config_error(self, tmp_path):
        with pytest.raises(ConfigError, match=r"(?s)'body'.*did you mean 'boby'"):
            list(made(JsonlReader, text="body").shards(put(tmp_path, '{"boby": "a"}\n{"boby": "b"}\n')))

    def test_malformed_lines_within_the_budget_are_rejects(self, tmp_path):
        path = put(tmp_path, b'{"text": "a"}\n{"text": \n[1]\n{"text": "\xff"}\n')
        found = read(made(JsonlReader, max_bad=0.75), path)
        reasons = [item.reason for item in found if isinstance(item, Reject)]
        assert reasons == ["malformed_json", "malformed_json", "invalid_utf8"]
        with pytest.raises(InputError, match=r"(?s)not a JSON object.*byte 14.*max_bad"):
            read(JsonlReader(), path)

    def test_unused_fields_are_not_decoded(self, tmp_path):
        assert texts(read(JsonlReader(), put(tmp_path, '{"text": "a", "deep": ' + "[" * 500 + "]" * 500 + "}"))) == [
            "a"
        ]


def test_a_field_may_have_dots_in_its_name(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"a.b": "own", "a": {"b": "nested", "id": 7}}, {"a": {"b": "nested", "id": 8}}, {"c": 1}]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = read(made(JsonlReader, text="a.b", id="a.id"), str(path))
    assert [(item.id, item.text) for item in found[:2]] == [("src:7", "own"), ("src:8", "nested")]
    assert found[2].reason == "no_text"


def test_no_budget_is_named_where_most_records_are_bad(tmp_path):
    path = put(tmp_path, b'{"text": "a"}\n' + b"no JSON\n" * 20)
    with pytest.raises(InputError, match=r"correct the line; 20 of 21 records are bad$"):
        read(made(JsonlReader), path)
