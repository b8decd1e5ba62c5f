"""Conformance tests for readers.

A step is tested by a subclass:

    class TestMyReader(ReaderSuite):
        step = MyReader
        texts = ("一つ目の文書", "二つ目の文書")

        def write(self, folder: Path) -> str:
            path = folder / "sample.xyz"
            path.write_text(...)
            return str(path)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import msgspec

from jprep.corpus.document import Document, Reject
from jprep.corpus.step import Reader, Shard
from jprep.errors import ConfigError
from jprep.testing.conformance.step import MARKS, StepSuite, is_identifier


class ReaderSuite(StepSuite):
    """Subclass it with `step`, `write` and `texts`, and with `rejects` where the sample has records to reject.

    Attributes:
        texts: the texts of the sample's documents, in order.
        rejects: the reasons of the sample's rejected records, in order.
    """

    texts: ClassVar[tuple[str, ...]]
    rejects: ClassVar[tuple[str, ...]] = ()

    def write(self, folder: Path) -> str:
        """Write an input with at least one document; return its path."""
        raise NotImplementedError(f"{type(self).__name__} must define write(folder): write a sample, return its path")

    def _read(self, path: str) -> list[Document | Reject]:
        reader = self.make()
        return [item for shard in reader.shards(path) for item in reader.read(shard, "sample")]

    def test_reads_its_sample(self, tmp_path: Path) -> None:
        """The sample's documents have their texts and the name of their source, each id once; others are rejected."""
        texts, items = self.samples("texts", 'texts = ("一つ目の文書",)'), self._read(self.write(tmp_path))
        found = [item for item in items if isinstance(item, Document)]
        assert [doc.text for doc in found] == list(texts)
        assert [item.reason for item in items if isinstance(item, Reject)] == list(self.rejects)
        assert len({doc.id for doc in found}) == len(found)
        assert {doc.source for doc in found} == {"sample"}
        assert all(doc.words == "" for doc in found)

    def test_cuts_the_same_shards_again(self, tmp_path: Path) -> None:
        """Shards are the same in every process, at any time."""
        path = self.write(tmp_path)
        first, second = list(self.make().shards(path)), list(self.make().shards(path))
        assert first == second
        assert [shard.index for shard in first] == list(range(len(first)))

    def test_documents_do_not_depend_on_the_folder(self, tmp_path: Path) -> None:
        """The same input in another folder gives the same documents."""
        here, there = tmp_path / "here", tmp_path / "there"
        here.mkdir()
        there.mkdir()
        assert self._read(self.write(here)) == self._read(self.write(there))

    def test_shards_can_be_sent_and_read_in_any_order(self, tmp_path: Path) -> None:
        """A shard can be read by another process, without the shards before it."""
        path = self.write(tmp_path)
        whole = self._read(path)
        sent = [msgspec.msgpack.decode(msgspec.msgpack.encode(s), type=Shard) for s in self.make().shards(path)]
        parts = {shard.index: list(self.make().read(shard, "sample")) for shard in reversed(sent)}
        assert [item for index in sorted(parts) for item in parts[index]] == whole

    def test_ids_of_positions_name_the_file(self, tmp_path: Path) -> None:
        """If `ids_are_positions`, two files share no id: the build does not check such ids for repetitions."""
        path, reader = self.write(tmp_path), self.make()
        if reader.ids_are_positions:
            ids = [{doc.id for doc in _documents_named(reader, path, name)} for name in ("one", "other")]
            assert not ids[0] & ids[1], (
                "ids do not have the name that the build gives a file: begin them with shard.id_prefix(source)"
            )

    def test_texts_are_clean(self, tmp_path: Path) -> None:
        """Texts hold none of jprep's own marks and no carriage return, and are not empty."""
        for item in self._read(self.write(tmp_path)):
            if isinstance(item, Document):
                assert not MARKS & set(map(ord, item.text))
                assert "\r" not in item.text
                assert item.text.strip()

    def test_rejects_say_why(self, tmp_path: Path) -> None:
        """Rejects name the step, and a reason that can be counted."""
        for item in self._read(self.write(tmp_path)):
            if isinstance(item, Reject):
                assert item.step == f"reader.{self.step.name}"
                assert is_identifier(item.reason)

    def test_a_missing_file_is_a_config_error(self, tmp_path: Path) -> None:
        """Exit code 2, and the error names the path."""
        path = str(tmp_path / "nothing-here")
        try:
            self._read(path)
        except ConfigError as error:
            assert path in str(error)
            return
        raise AssertionError("a missing file was read")


def _documents_named(reader: Reader, path: str, name: str) -> Iterator[Document]:
    """Yield the documents of an input, whose file has a name as the build gives it."""
    for shard in reader.shards(path):
        named = msgspec.structs.replace(shard, hints=shard.hints | {"name": name})
        yield from (item for item in reader.read(named, "sample") if isinstance(item, Document))
