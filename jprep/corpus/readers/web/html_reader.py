"""The reader `html`: files of HTML, each a document."""

from __future__ import annotations

from collections.abc import Iterator

from jprep.corpus.readers.chunking import record_too_large
from jprep.corpus.readers.record_reader import ErrorBudget, Item, id_prefix
from jprep.corpus.readers.web.http import HTML, Capture
from jprep.corpus.readers.web.page_reader import PageConfig, PageReader
from jprep.corpus.step import Shard
from jprep.io.inputs.paths import size_of
from jprep.io.inputs.streams import is_plain, open_input


class HtmlReader(PageReader):
    """HTML files. Ids: `source:file`. The address of a document is the canonical one that its page names."""

    name = "html"
    version = 1

    class Config(PageConfig, frozen=True):
        """Options of the reader `html`."""

    def shards(self, path: str) -> Iterator[Shard]:
        """Return one shard for the file.

        Raises:
            InputError: the file is too large, or damaged.
        """
        if is_plain(path):
            size = size_of(path) or 0
            yield Shard(path, 0, 0, size, weight=size)
            return
        data = self._content(path)
        yield Shard(path, 0, 0, len(data), weight=len(data), data=data)

    def _content(self, path: str) -> bytes:
        with open_input(path, max_ratio=self.config.max_ratio) as stream:
            data = stream.read(self._page_bytes() + 1)
        if len(data) > self._page_bytes():
            raise record_too_large(path, 0, self._page_bytes())
        return data

    def _counted(self, shard: Shard, source: str) -> Iterator[tuple[Item, str]]:
        return self._items(shard, source, ErrorBudget(1.0))  # a page that does not decode is a reject, as in a crawl

    def _items(self, shard: Shard, source: str, budget: ErrorBudget) -> Iterator[tuple[Item, str]]:
        data = self._content(shard.path) if shard.data is None else shard.data
        yield self._page(Capture(body=data, kind=HTML[0]), id_prefix(shard, source), source)
