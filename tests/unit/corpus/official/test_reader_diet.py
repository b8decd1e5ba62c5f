"""The reader `diet`: answers with meetings and with speeches, headers, rules; damaged and hostile JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jprep.corpus.document import Document, Reject
from jprep.corpus.readers.official.diet import DietReader
from jprep.errors import InputError
from jprep.testing.conformance.reader import ReaderSuite

ABOUT = {
    "issueID": "100000000X00120990401",
    "session": 300,
    "nameOfHouse": "衆議院",
    "nameOfMeeting": "山道委員会",
    "issue": "第1号",
    "date": "2099-04-01",
    "closing": None,
}


def speech(order: int, speaker: str, text: str | None, **fields: Any) -> dict[str, Any]:
    name = f"{ABOUT['issueID']}_{order:03d}"
    return {
        "speechID": name, "speechOrder": order, "speaker": speaker, "speakerYomi": None, "speakerGroup": "峠の会",
        "speakerPosition": None, "speakerRole": None, "speech": text, "startPage": 1,
        "createTime": "2099-05-01 00:00:00",
        "speechURL": f"https://kokkai.ndl.go.jp/txt/{ABOUT['issueID']}/{order}",
    } | fields  # fmt: skip


SPEECHES = [
    speech(0, "会議録情報", "令和八十一年四月一日\r\n出席委員\r\n　委員長　川上某君"),
    speech(
        1,
        "川上某",
        "○川上委員長　これより会議を開きます。\r\n　――――◇―――――\r\n○印の箇所を御覧ください。",
        speakerPosition="委員長",
    ),
    speech(2, "谷口某", "○谷口（某）委員　　峠の茶屋についてお尋ねします。\r\n　以上です。"),
    speech(3, "谷口某", None),
]
TEXTS = ("これより会議を開きます。\n○印の箇所を御覧ください。", "峠の茶屋についてお尋ねします。\n　以上です。")
MEETING_URL = f"https://kokkai.ndl.go.jp/txt/{ABOUT['issueID']}"
MEETINGS = {"numberOfRecords": 1, "meetingRecord": [ABOUT | {"meetingURL": MEETING_URL, "speechRecord": SPEECHES}]}
BY_SPEECH = {"numberOfRecords": 4, "speechRecord": [ABOUT | {"meetingURL": MEETING_URL} | each for each in SPEECHES]}


class TestSpeechesOfMeetings(ReaderSuite):
    step = DietReader
    texts = TEXTS
    rejects = ("meeting_information", "no_text")
    answer = MEETINGS

    def write(self, folder: Path) -> str:
        path = folder / "sample.json"
        path.write_text(json.dumps(self.answer, ensure_ascii=False), encoding="utf-8-sig")
        return str(path)


class TestSpeeches(TestSpeechesOfMeetings):
    answer = BY_SPEECH


class TestMeetings(TestSpeechesOfMeetings):
    options = {"documents": "meeting"}
    texts = ("\n".join(TEXTS),)
    rejects = ()
    answer = BY_SPEECH


def read(data: bytes, tmp_path: Path, **options: object) -> list[Document | Reject]:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    reader = DietReader(DietReader.Config(**options))  # type: ignore[arg-type]
    return [item for shard in reader.shards(str(path)) for item in reader.read(shard, "s")]


@pytest.mark.parametrize("answer", [MEETINGS, BY_SPEECH])
def test_speaker_date_and_address_are_kept(answer: dict[str, Any], tmp_path: Path) -> None:
    _, chair, member, _ = read(json.dumps(answer).encode(), tmp_path)
    assert isinstance(chair, Document) and isinstance(member, Document)
    assert chair.id == f"s:{ABOUT['issueID']}_001" and chair.title == "衆議院 山道委員会 第1号"
    assert chair.url.endswith("/1")
    assert chair.meta == {
        "house": "衆議院", "meeting": "山道委員会", "issue": "第1号", "date": "2099-04-01", "session": "300",
        "speaker": "川上某", "group": "峠の会", "position": "委員長",
    }  # fmt: skip
    assert "position" not in member.meta


def test_a_meeting_has_its_own_id_and_address(tmp_path: Path) -> None:
    [doc] = read(json.dumps(BY_SPEECH).encode(), tmp_path, documents="meeting")
    assert isinstance(doc, Document)
    assert doc.id == f"s:{ABOUT['issueID']}" and doc.url == MEETING_URL and "speaker" not in doc.meta


def test_answers_one_a_line(tmp_path: Path) -> None:
    data = "\n".join([json.dumps(MEETINGS), "", json.dumps(BY_SPEECH)]).encode()
    assert len(read(data, tmp_path)) == 8


@pytest.mark.parametrize("bad", ["{", "x", '{"speechRecord": 3}', '{"message": "x"}'])
def test_a_bad_line_costs_itself(bad: str, tmp_path: Path) -> None:
    data = "\n".join([bad, json.dumps(MEETINGS), bad, json.dumps(BY_SPEECH)]).encode()
    items = read(data, tmp_path, max_bad=1.0)
    assert [item.id for item in items if isinstance(item, Reject) and item.reason == "malformed_json"] == [
        "s:x.json:0",
        "s:x.json:2",
    ]
    assert len(items) == 10
    with pytest.raises(InputError, match="line 1: "):
        read(data, tmp_path)


def test_a_meeting_without_an_id_has_its_address(tmp_path: Path) -> None:
    meeting = {key: value for key, value in MEETINGS["meetingRecord"][0].items() if key != "issueID"}  # type: ignore[index]
    [doc] = read(json.dumps({"meetingRecord": [meeting]}).encode(), tmp_path, documents="meeting")
    assert isinstance(doc, Document)
    assert (doc.id, doc.url) == ("s:x.json:0", MEETING_URL)


def test_speeches_without_an_id_are_of_the_meeting_that_they_name(tmp_path: Path) -> None:
    speeches = [
        {"nameOfMeeting": name, "date": date, "speaker": "某", "speech": "話します。"}
        for name, date in (("甲委員会", "2098-01-01"), ("甲委員会", "2098-01-01"), ("乙委員会", "2099-02-02"))
    ]
    first, second = read(json.dumps({"speechRecord": speeches}).encode(), tmp_path, documents="meeting")
    assert isinstance(first, Document) and isinstance(second, Document)
    assert (first.text, first.meta["date"]) == ("話します。\n話します。", "2098-01-01")
    assert (second.title, second.meta["date"]) == ("乙委員会", "2099-02-02")


def test_information_that_a_meeting_leaves_out_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(MEETINGS))
    reader = DietReader(DietReader.Config(documents="meeting"))
    list(reader.read(next(reader.shards(str(path))), "s"))
    assert reader.tally["information.deleted"] == 1


def test_headers_and_rules_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(MEETINGS))
    reader = DietReader()
    list(reader.read(next(reader.shards(str(path))), "s"))
    assert reader.tally["headers.deleted"] == 2 and reader.tally["rules.deleted"] == 1


@pytest.mark.parametrize("rule", ["　　　─────・─────", "—————・—————", "　━━━━━━━━━━", "――――◇―――――　"])
def test_rules_of_both_houses_are_deleted(rule: str, tmp_path: Path) -> None:
    spoken = speech(1, "川上某", f"{rule}\r\n○川上議長　日程第一。\r\n{rule}\r\n　日程第二。\r\n{rule}")
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"meetingRecord": [ABOUT | {"speechRecord": [spoken]}]}))
    reader = DietReader()
    [found] = reader.read(next(reader.shards(str(path))), "s")
    assert isinstance(found, Document) and found.text == "日程第一。\n　日程第二。"
    assert reader.tally["headers.deleted"] == 1 and reader.tally["rules.deleted"] == 3


def test_a_list_of_meetings_has_no_text(tmp_path: Path) -> None:
    [item] = read(json.dumps({"meetingRecord": [ABOUT]}).encode(), tmp_path)
    assert isinstance(item, Reject) and item.reason == "no_text"
    assert read(json.dumps({"numberOfRecords": 0}).encode(), tmp_path) == []


HOSTILE = {
    "cut off": json.dumps(MEETINGS).encode()[:-30],
    "another form": b"[1, 2]",
    "no records": b"{}",
    "an error of the interface": '{"message": "検索条件の入力に誤りがあります。"}'.encode(),
    "cut off, on lines": json.dumps(MEETINGS, indent=2).encode()[:-30],
    "other types": b'{"speechRecord": [{"speech": 3}]}',
    "invalid UTF-8": b'{"speechRecord": [{"speech": "\xff"}]}',
    "nested": b'{"speechRecord": ' + b"[" * 200_000,
    "nested, elsewhere": b'{"x": ' + b'{"x": ' * 200_000,
    "empty": b"",
    "an error of the interface, as XML": b"<data><message>x</message></data>",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_json_is_an_error_or_a_reject(data: bytes, tmp_path: Path) -> None:
    [item] = read(data, tmp_path, max_bad=1.0)
    assert isinstance(item, Reject) and item.reason == "malformed_json"
    with pytest.raises(InputError, match="not an answer of the Diet's search interface"):
        read(data, tmp_path)


def test_a_header_of_any_length_takes_linear_time(tmp_path: Path) -> None:
    texts = ["○" * 300_000, "○" + "　" * 300_000 + "あ", "―" * 300_000 + "あ", ("―" * 5 + "\n") * 50_000 + "あ"]
    items = read(
        json.dumps({"speechRecord": [speech(n, "某", text) for n, text in enumerate(texts)]}).encode(), tmp_path
    )
    assert [type(item) for item in items] == [Document] * 4
