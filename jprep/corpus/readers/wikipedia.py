"""The reader `wikipedia`: MediaWiki dumps, cut into shards wherever their compression lets them be cut."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal, TypeVar

import msgspec

from jprep.corpus.document import Document, Reject, Tally
from jprep.corpus.readers.mediawiki import wikiextractor
from jprep.corpus.readers.mediawiki.articles import ArticleExtractor
from jprep.corpus.readers.mediawiki.disambiguation import Disambiguation
from jprep.corpus.readers.mediawiki.xml_export import SiteInfo, page_chunks, parse_pages, read_site_info
from jprep.corpus.readers.wikitext import Extractor, ExtractorConfig
from jprep.corpus.step import Reader, Shard, StepConfig
from jprep.errors import TruncatedError
from jprep.io.inputs import bzip2_blocks
from jprep.io.inputs.limits import DOWNLOAD_AGAIN, MAX_RATIO, MIB, BombGuard
from jprep.io.inputs.paths import is_local, size_of
from jprep.io.inputs.streams import InputStream, compression_of, is_plain, open_input, open_raw

T = TypeVar("T")
_PIECE = MIB
_BZ2_RATIO = 6  # bytes of XML for a byte of bzip2, about: for the size of shards only


class WikipediaReader(Reader):
    """Articles of a MediaWiki dump (pages-articles or pages-meta-history, export 0.3 to 0.11).

    A bzip2 file, of one stream or of many, is cut at its blocks; a plain file anywhere; what can only be read from its
    beginning is read once, and its pages are handed over. A page belongs to the shard in which its tag begins.
    """

    name = "wikipedia"
    version = 2

    class Config(StepConfig, frozen=True):
        """Options.

        Attributes:
            namespaces: the namespaces whose pages are taken; 0 is the articles'.
            extractor: `jprep`, or `wikiextractor`: the outside program, a whole file at a time.
            disambiguation: `drop` or `keep` disambiguation pages, recognised by the templates that mark them.
            wikitext: what is kept of a page, see `docs/wikitext.md`.
            shard_mb: megabytes of XML that one task reads, about.
            on_truncated: `stop`, or `keep` the whole pages of a file that is cut off.
            max_page_mb: a larger page stops the run.
            max_ratio: how far compressed data may expand.
        """

        namespaces: list[int] = msgspec.field(default_factory=lambda: [0])
        extractor: Literal["jprep", "wikiextractor"] = "jprep"
        disambiguation: Literal["drop", "keep"] = "drop"
        wikitext: ExtractorConfig = ExtractorConfig()
        shard_mb: int = 32
        on_truncated: Literal["stop", "keep"] = "stop"
        max_page_mb: int = 256
        max_ratio: float = MAX_RATIO

    def __init__(self, config: Config | None = None) -> None:
        super().__init__(config)
        self._wikis: dict[str, tuple[ArticleExtractor, Extractor]] = {}

    def provenance(self) -> dict[str, str]:
        """The hashes of the template tables, or the outside program's version."""
        if self.config.extractor == "wikiextractor":
            return {"program": wikiextractor.program_version()}
        return Extractor(self.config.wikitext).provenance()

    def shards(self, path: str) -> Iterator[Shard]:
        """Cut a dump at bzip2 blocks or at bytes, or read it through and hand its pages over."""
        if self.config.extractor == "wikiextractor":
            return iter([wikiextractor.shard(path)])
        if is_local(path) and size_of(path) is not None and compression_of(path) == "bzip2":
            return self._block_shards(path)
        return self._byte_shards(path) if is_plain(path) else self._inline_shards(path)

    def _block_shards(self, path: str) -> Iterator[Shard]:
        with open_raw(path) as file:
            head, _ = read_site_info((block.data for block in bzip2_blocks.read_blocks(file, 0, path)), path)
            size, step = size_of(path) or 0, self.config.shard_mb * MIB // _BZ2_RATIO * 8
            index, start = 0, 0
            for bit, is_block in bzip2_blocks.find_magics(file):
                if is_block and bit - start >= step:
                    yield _shard(path, head, "blocks", index, start=start, end=bit, weight=(bit - start) // 8)
                    index, start = index + 1, bit
            yield _shard(path, head, "blocks", index, start=start, weight=size - start // 8)

    def _byte_shards(self, path: str) -> Iterator[Shard]:
        with open_input(path) as file:
            head, _ = read_site_info(_pieces(file), path)
        size, step = size_of(path) or 0, self._shard_bytes()
        for index, start in enumerate(range(0, size, step)):
            end = start + step if start + step < size else -1
            yield _shard(path, head, "bytes", index, start=start, end=end, weight=min(step, size - start))

    def _inline_shards(self, path: str) -> Iterator[Shard]:
        """One shard after another, each with whole pages in its `data`."""
        with open_input(path, max_ratio=self.config.max_ratio) as file:
            head, begun = read_site_info(self._tolerant(_pieces(file)), path)
            cut = Tally()
            chunks = itertools.chain([begun], self._tolerant(_pieces(file), cut))
            weighed = 0
            for index, data in enumerate(page_chunks(chunks, self._shard_bytes(), self._max_page_bytes(), path)):
                cut_at = "truncation" if cut else "pages"
                yield _shard(path, head, cut_at, index, weight=file.consumed - weighed, data=data)
                weighed = file.consumed

    def read(self, shard: Shard, source: str) -> Iterator[Document | Reject]:
        """The articles that begin in a shard, extracted; and what else does, rejected with its reason."""
        if self.config.extractor == "wikiextractor":
            yield from wikiextractor.articles(shard.path, self.config.namespaces, source)
            return
        articles, extractor = self._wiki(shard.hints["head"])
        found = parse_pages(self._chunks(shard), shard.path, self._max_page_bytes())
        # Of a file's shards one counts that it is cut off: blocks before the last may run into the end as well.
        counts = shard.end < 0 or shard.hints["cut_at"] == "bytes"
        for page in self._tolerant(found, self.tally if counts else None):
            yield articles.read(page, source)
        self.tally.update(extractor.tally)
        extractor.tally.clear()

    def _shard_bytes(self) -> int:
        return int(self.config.shard_mb * MIB)

    def _max_page_bytes(self) -> int:
        return int(self.config.max_page_mb * MIB)

    def _wiki(self, encoded: str) -> tuple[ArticleExtractor, Extractor]:
        """What the pages of the wiki with this head need, made once."""
        if encoded not in self._wikis:
            head = msgspec.json.decode(encoded, type=SiteInfo)
            extractor = Extractor(self.config.wikitext, namespaces=head.prefixes)
            marks = Disambiguation(extractor.disambiguation) if self.config.disambiguation == "drop" else None
            self._wikis[encoded] = ArticleExtractor(head, self.config.namespaces, marks, extractor.extract), extractor
        return self._wikis[encoded]

    def _chunks(self, shard: Shard) -> Iterator[tuple[bytes, bool]]:
        """The shard's bytes, each piece with True; then what follows it in the file, with False."""
        if shard.data is not None:
            yield shard.data, True
            if shard.hints["cut_at"] == "truncation":
                raise TruncatedError("the file is cut off", where=shard.path, fix=DOWNLOAD_AGAIN)
        elif shard.hints["cut_at"] == "blocks":
            yield from self._block_chunks(shard)
        else:
            with open_input(shard.path, start=shard.start) as file:
                length = -1 if shard.end < 0 else shard.end - shard.start
                while length > 0 and (piece := file.read(min(_PIECE, length))):
                    yield piece, True
                    length -= len(piece)
                yield from ((piece, length < 0) for piece in _pieces(file))

    def _block_chunks(self, shard: Shard) -> Iterator[tuple[bytes, bool]]:
        guard, produced = BombGuard(shard.path, self.config.max_ratio), 0
        with open_raw(shard.path) as file:
            for block in bzip2_blocks.read_blocks(file, shard.start, shard.path):
                produced += len(block.data)
                guard.check((block.end - shard.start) // 8, produced)
                yield block.data, shard.end < 0 or block.begin < shard.end

    def _tolerant(self, items: Iterator[T], tally: Tally | None = None) -> Iterator[T]:
        """What can be had of a file that is cut off, if the user said so."""
        try:
            yield from items
        except TruncatedError as error:
            if self.config.on_truncated == "stop":
                fix = f'{error.fix}; or set the reader\'s on_truncated = "keep" to take the pages before it'
                raise TruncatedError(error.what, where=error.where, fix=fix) from error
            if tally is not None:
                tally["files.truncated"] += 1


def _pieces(file: InputStream) -> Iterator[bytes]:
    # `read` would lose what it had gathered when it comes upon damage.
    return iter(lambda: file.read1(_PIECE), b"")


def _shard(path: str, head: SiteInfo, cut_at: str, index: int, **where: Any) -> Shard:
    return Shard(path, index, hints={"head": msgspec.json.encode(head).decode(), "cut_at": cut_at}, **where)
