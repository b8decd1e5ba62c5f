"""Reader of minutes of the Japanese Diet, in the JSON of their search interface (国会会議録検索システム)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Literal

import msgspec

from jprep.corpus.document import Document
from jprep.corpus.readers.record_reader import ErrorBudget, Item
from jprep.corpus.readers.whole_files import WholeFileConfig, WholeFileReader
from jprep.errors import InputError

_HEADER = re.compile(r"\A\n*○[^　\r\n]{1,100}　+")
_RULE = re.compile(r"^[ 　]*+(?=[―—─━‐－ー\-]{4})[―—─━‐－ー\-◇○・ 　]++(?:\n|\Z)", re.MULTILINE)
_INFORMATION = "会議録情報"

_MEETING = {"nameOfHouse": "house", "nameOfMeeting": "meeting", "issue": "issue", "date": "date"}
_SPEECH = {"speaker": "speaker", "speakerGroup": "group", "speakerPosition": "position", "speakerRole": "role"}


class Speech(msgspec.Struct):
    """A speech, with the fields of its meeting where the record of a meeting does not have them."""

    speechID: str | None = None  # noqa: N815
    issueID: str | None = None  # noqa: N815
    nameOfHouse: str | None = None  # noqa: N815
    nameOfMeeting: str | None = None  # noqa: N815
    issue: str | None = None
    date: str | None = None
    session: int | None = None
    speaker: str | None = None
    speakerGroup: str | None = None  # noqa: N815
    speakerPosition: str | None = None  # noqa: N815
    speakerRole: str | None = None  # noqa: N815
    speech: str | None = None
    speechURL: str | None = None  # noqa: N815
    meetingURL: str | None = None  # noqa: N815


class Meeting(Speech):
    """A meeting with its speeches."""

    speechRecord: list[Speech] = []  # noqa: N815


class Answer(msgspec.Struct):
    """An answer of the interface: meetings, or speeches; or a message about an error."""

    numberOfRecords: int | None = None  # noqa: N815
    message: str | None = None
    meetingRecord: list[Meeting] = []  # noqa: N815
    speechRecord: list[Speech] = []  # noqa: N815

    def meetings(self) -> Iterator[Meeting]:
        """Yield the meetings, with their speeches; consecutive speeches of one meeting are together."""
        yield from self.meetingRecord
        for _, group in groupby(self.speechRecord, _identity):
            speeches = list(group)
            first = {name: getattr(speeches[0], name) for name in ("issueID", "session", "meetingURL", *_MEETING)}
            yield Meeting(**first, speechRecord=speeches)


def _identity(speech: Speech) -> tuple[str | None, ...]:
    """Return what the speeches of one meeting have in common, with or without its id."""
    return tuple(getattr(speech, name) for name in ("issueID", *_MEETING))


_DECODER = msgspec.json.Decoder(Answer)


class DietReader(WholeFileReader):
    """Minutes of the Diet, JSON of the search interface. Ids: `source:` and the id of the speech or of the meeting."""

    name = "diet"
    version = 3
    suffixes = (".json", ".jsonl")

    class Config(WholeFileConfig, frozen=True):
        """Options of the reader `diet`.

        Attributes:
            documents: what a document is: a `speech`, or a `meeting` with its speeches one after another.
        """

        documents: Literal["speech", "meeting"] = "speech"

    @property
    def ids_are_positions(self) -> bool:
        """Whether ids are unique by themselves; two answers can hold the same speech."""
        return False

    def _file_items(
        self, data: bytes, where: str, identity: str, source: str, budget: ErrorBudget
    ) -> Iterator[tuple[Item, Any]]:
        for number, found in enumerate(_meetings(data)):
            if isinstance(found, Meeting):
                yield from self._meeting_items(found, f"{identity}:{number}", source)
                continue
            fix = "save the answer of the interface with recordPacking=json"
            budget.spend(InputError(f"not an answer of the Diet's search interface: {found}", where=where, fix=fix))
            yield self.reject(f"{identity}:{number}", "malformed_json", found), {}

    def _meeting_items(self, meeting: Meeting, identity: str, source: str) -> Iterator[tuple[Item, msgspec.Struct]]:
        if self.config.documents == "meeting" or not meeting.speechRecord:
            speeches = [speech for speech in meeting.speechRecord if speech.speaker != _INFORMATION]
            if left_out := len(meeting.speechRecord) - len(speeches):
                self.tally["information.deleted"] += left_out
            yield self._item(meeting, meeting, speeches, identity, source), meeting
            return
        for number, speech in enumerate(meeting.speechRecord):
            yield self._item(meeting, speech, [speech], f"{identity}:{number}", source), speech

    def _item(self, meeting: Meeting, about: Speech, speeches: Sequence[Speech], identity: str, source: str) -> Item:
        """Return the document of a speech, or of a meeting with its speeches."""
        own = about.issueID if isinstance(about, Meeting) else about.speechID
        identity = f"{source}:{own}" if own else identity
        if about.speaker == _INFORMATION:
            return self.reject(identity, "meeting_information")
        texts = [text for speech in speeches if (text := self._text(speech.speech or ""))]
        if not texts:
            return self.reject(identity, "no_text")
        title = " ".join(filter(None, (meeting.nameOfHouse, meeting.nameOfMeeting, meeting.issue)))
        meta = _fields(meeting, _MEETING) | ({"session": str(meeting.session)} if meeting.session else {})
        meta |= _fields(about, _SPEECH)
        url = (meeting.meetingURL if isinstance(about, Meeting) else about.speechURL) or ""
        return self.clean_document(Document(identity, source, title, url, "\n".join(texts), meta=meta))

    def _text(self, speech: str) -> str:
        """Return the text of a speech without its header (○ and the speaker) and without rules."""
        text, rules = _RULE.subn("", speech.replace("\r\n", "\n"))
        text, headers = _HEADER.subn("", text, 1)
        self.tally["headers.deleted"] += headers
        self.tally["rules.deleted"] += rules
        return text.strip("\n")

    def original(self, record: Any) -> str:
        """Return a meeting or speech as JSON."""
        return msgspec.json.format(msgspec.json.encode(record), indent=2).decode()


def _meetings(data: bytes) -> Iterator[Meeting | str]:
    """Yield the meetings of a file with one answer, or one a line; in place of what is no answer, an error message."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    answers = {"": _answer(data)}
    if isinstance(answers[""], str):
        lines = {f"line {n}: ": _answer(line) for n, line in enumerate(data.splitlines(), 1) if line.strip()}
        # Without any answer among them, they are the lines of one damaged answer.
        answers = lines if any(isinstance(answer, Answer) for answer in lines.values()) else answers
    for place, answer in answers.items():
        yield from answer.meetings() if isinstance(answer, Answer) else [f"{place}{answer}"]


def _answer(data: bytes) -> Answer | str:
    """Return an answer, or why it is none."""
    try:
        answer = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return str(error)
    if answer.numberOfRecords is None and not answer.meetingRecord and not answer.speechRecord:
        return answer.message or "it has no records"
    return answer


def _fields(record: Speech, names: dict[str, str]) -> dict[str, str]:
    return {ours: value for name, ours in names.items() if (value := getattr(record, name))}
