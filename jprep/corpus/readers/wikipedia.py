"""The reader `wikipedia`: MediaWiki dumps, split into shards as far as their compression allows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from jprep.corpus.document import Document, Reject, Tally
from jprep.corpus.readers.mediawiki import wikiextractor
from jprep.corpus.readers.mediawiki.articles import ArticleExtractor
from jprep.corpus.readers.mediawiki.disambiguation import DisambiguationDetector
from jprep.corpus.readers.mediawiki.xml_export import SiteInfo, parse_pages, read_site_info, split_at_pages
from jprep.corpus.readers.wikitext import Extractor, ExtractorConfig
from jprep.corpus.step import Positive, Reader, Shard, StepConfig
from jprep.errors import Setting, TruncatedError
from jprep.io.inputs import bzip2_blocks
from jprep.io.inputs.limits import DOWNLOAD_AGAIN, MAX_RATIO, MIB, BombGuard
from jprep.io.inputs.paths import size_of
from jprep.io.inputs.streams import InputStream, can_seek, compression_of, is_plain, open_input, open_raw
from jprep.typed_json import decode_json

T = TypeVar("T")
_CHUNK = MIB
_BZ2_RATIO = 6  # approximate bytes of XML per byte of bzip2; affects the size of shards only


class WikipediaReader(Reader):
    """Articles of a MediaWiki dump (pages-articles or pages-meta-history, export format 0.3 to 0.11).

    A bzip2 file, single-stream or multistream, is split at its blocks, and an uncompressed file anywhere. Other inputs
    are read once from the beginning, and their shards contain the pages. A page belongs to the shard in which its
    `<page>` begins.
    """

    name = "wikipedia"
    version = 4

    class Config(StepConfig, frozen=True):
        """Options.

        Attributes:
            namespaces: numbers of the namespaces to read; 0 is the namespace of articles.
            extractor: `jprep`, or `wikiextractor`, an external program that reads a whole file in one task.
            disambiguation: whether to `drop` or `keep` disambiguation pages.
            wikitext: what to extract from a page, see `docs/wikitext.md`.
            shard_mb: approximate size of the XML per task in MiB.
            on_truncated: what to do with a truncated file: `stop`, or `keep` its complete pages.
            max_page_mb: maximum size of a page in MiB; a larger one stops the build.
            max_ratio: maximum ratio of decompressed to compressed bytes.
        """

        namespaces: list[int] = msgspec.field(default_factory=lambda: [0])
        extractor: Literal["jprep", "wikiextractor"] = "jprep"
        disambiguation: Literal["drop", "keep"] = "drop"
        wikitext: ExtractorConfig = ExtractorConfig()
        shard_mb: Annotated[int, msgspec.Meta(ge=1)] = 32
        on_truncated: Literal["stop", "keep"] = "stop"
        max_page_mb: Annotated[int, msgspec.Meta(ge=1)] = 256
        max_ratio: Positive = MAX_RATIO

    def __init__(self, config: Config | None = None) -> None:
        super().__init__(config)
        self._wikis: dict[str, tuple[ArticleExtractor, Extractor]] = {}

    def provenance(self) -> dict[str, str]:
        """Return the hashes of the template tables, or the version of the external program."""
        if self.config.extractor == "wikiextractor":
            return {"program": wikiextractor.program_version()}
        return Extractor(self.config.wikitext).provenance()

    def shards(self, path: str) -> Iterator[Shard]:
        """Split a dump at bzip2 blocks or byte offsets, or into chunks of pages."""
        if self.config.extractor == "wikiextractor":
            return iter([wikiextractor.shard(path)])
        if _has_blocks(path):
            return self._block_shards(path)
        return self._byte_shards(path) if is_plain(path) else self._inline_shards(path)

    def reads_through(self, path: str) -> bool:
        """Return whether a dump is neither bzip2 nor uncompressed."""
        return self.config.extractor != "wikiextractor" and not _has_blocks(path) and not is_plain(path)

    def _block_shards(self, path: str) -> Iterator[Shard]:
        with open_raw(path) as file:
            head, _ = read_site_info((block.data for block in bzip2_blocks.read_blocks(file, 0, path)), path)
            size, step = size_of(path) or 0, max(1, self.config.shard_mb * MIB // _BZ2_RATIO * 8)
            index, start = 0, 0
            while (bit := bzip2_blocks.next_block(file, start + step)) is not None:
                yield _shard(path, head, "blocks", index, start=start, end=bit, weight=(bit - start) // 8)
                index, start = index + 1, bit
            yield _shard(path, head, "blocks", index, start=start, weight=size - start // 8)

    def _byte_shards(self, path: str) -> Iterator[Shard]:
        with open_input(path) as file:
            head, _ = read_site_info(_chunks_of(file), path)
        size, step = size_of(path) or 0, self._shard_bytes()
        for index, start in enumerate(range(0, size, step)):
            end = start + step if start + step < size else -1
            yield _shard(path, head, "bytes", index, start=start, end=end, weight=min(step, size - start))

    def _inline_shards(self, path: str) -> Iterator[Shard]:
        """Yield shards that contain complete pages in `data`."""
        with open_input(path, max_ratio=self.config.max_ratio) as file:
            head, begun = read_site_info(self._tolerant(_chunks_of(file)), path)
            cut = Tally()
            chunks = itertools.chain([begun], self._tolerant(_chunks_of(file), cut))
            weighed = 0
            for index, data in enumerate(split_at_pages(chunks, self._shard_bytes(), self._max_page_bytes(), path)):
                cut_at = "truncation" if cut else "pages"
                yield _shard(path, head, cut_at, index, weight=file.consumed - weighed, data=data)
                weighed = file.consumed

    def read(self, shard: Shard, source: str) -> Iterator[Document | Reject]:
        """Yield the pages that begin in a shard, as documents or as rejects with a reason."""
        return (item for item, _ in self.read_with_originals(shard, source))

    def read_with_originals(self, shard: Shard, source: str) -> Iterator[tuple[Document | Reject, str]]:
        """Yield what `read` yields, with the wikitext of each page, or the article as wikiextractor wrote it."""
        if self.config.extractor == "wikiextractor":
            yield from wikiextractor.articles(shard.path, self.config.namespaces, source)
            return
        articles, extractor = self._wiki(shard.hints["head"])
        found = parse_pages(self._chunks(shard), shard.path, self._max_page_bytes())
        # Only one shard of a file counts the truncation: blocks before the last may reach the end as well.
        counts = shard.end < 0 or shard.hints["cut_at"] == "bytes"
        try:
            for page in self._tolerant(found, self.tally if counts else None):
                yield articles.read(page, source), page.text or ""
        finally:  # a shard that is not read to its end must not add its counts to the next one's
            self.tally.update(extractor.tally)
            extractor.tally.clear()

    def _shard_bytes(self) -> int:
        return int(self.config.shard_mb * MIB)

    def _max_page_bytes(self) -> int:
        return int(self.config.max_page_mb * MIB)

    def _wiki(self, encoded: str) -> tuple[ArticleExtractor, Extractor]:
        """Return the extractors for the wiki with this head, made once."""
        if encoded not in self._wikis:
            head = decode_json(encoded, SiteInfo)
            extractor = Extractor(self.config.wikitext, namespaces=head.prefixes)
            marks = DisambiguationDetector(extractor.disambiguation) if self.config.disambiguation == "drop" else None
            self._wikis[encoded] = ArticleExtractor(head, self.config.namespaces, marks, extractor.extract), extractor
        return self._wikis[encoded]

    def _chunks(self, shard: Shard) -> Iterator[tuple[bytes, bool]]:
        """Yield the bytes of the shard, each with True, then the rest of the file, each with False."""
        if shard.data is not None:
            yield shard.data, True
            if shard.hints["cut_at"] == "truncation":
                raise TruncatedError("the file is truncated", where=shard.path, fix=DOWNLOAD_AGAIN)
        elif shard.hints["cut_at"] == "blocks":
            yield from self._block_chunks(shard)
        else:
            with open_input(shard.path, start=shard.start) as file:
                length = -1 if shard.end < 0 else shard.end - shard.start
                while length > 0 and (chunk := file.read(min(_CHUNK, length))):
                    yield chunk, True
                    length -= len(chunk)
                yield from ((chunk, length < 0) for chunk in _chunks_of(file))

    def _block_chunks(self, shard: Shard) -> Iterator[tuple[bytes, bool]]:
        guard, produced = BombGuard(shard.path, self.config.max_ratio), 0
        with open_raw(shard.path) as file:
            for block in bzip2_blocks.read_blocks(file, shard.start, shard.path):
                produced += len(block.data)
                guard.check((block.end - shard.start) // 8, produced)
                yield block.data, shard.end < 0 or block.begin < shard.end

    def _tolerant(self, items: Iterator[T], tally: Tally | None = None) -> Iterator[T]:
        """Yield the items up to the end of a truncated file, if the option `on_truncated` allows it."""
        try:
            yield from items
        except TruncatedError as error:
            if self.config.on_truncated == "stop":
                fix = f'{error.fix}; or set the reader\'s on_truncated = "keep" to use the pages before the end'
                raise error.replace(fix=fix, setting=Setting("on_truncated", "keep")) from error
            if tally is not None:
                tally["files.truncated"] += 1


def _has_blocks(path: str) -> bool:
    """Return whether a file is cut at the blocks of bzip2."""
    return can_seek(path) and compression_of(path) == "bzip2"


def _chunks_of(file: InputStream) -> Iterator[bytes]:
    # `read` would discard the bytes read so far if the input is damaged.
    return iter(lambda: file.read1(_CHUNK), b"")


def _shard(path: str, head: SiteInfo, cut_at: str, index: int, **where: Any) -> Shard:
    return Shard(path, index, hints={"head": msgspec.json.encode(head).decode(), "cut_at": cut_at}, **where)
