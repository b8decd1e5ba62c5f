"""The reader `html`: files of HTML, each a document."""

from __future__ import annotations

from collections.abc import Iterator

from jprep.corpus.readers.record_reader import ErrorBudget, Item
from jprep.corpus.readers.web.http import HTML, Capture
from jprep.corpus.readers.web.page_reader import PageConfig, PageReader
from jprep.corpus.readers.whole_files import read_whole, whole_file_shard
from jprep.corpus.step import Shard


class HtmlReader(PageReader):
    """HTML files. Ids: `source:file`. The address of a document is the canonical one that its page names."""

    name = "html"
    version = 7

    class Config(PageConfig, frozen=True):
        """Options of the reader `html`."""

    def shards(self, path: str) -> Iterator[Shard]:
        """Return one shard for the file.

        Raises:
            InputError: the file is too large, or damaged.
        """
        yield whole_file_shard(path, self._content)

    def _content(self, path: str) -> bytes:
        return read_whole(path, self._page_bytes(), self.config.max_ratio, option="max_page_mb")

    def _counted(self, shard: Shard, source: str) -> Iterator[tuple[Item, str]]:
        return self.items(shard, source, ErrorBudget(1.0))  # a page that does not decode is a reject, as in a crawl

    def items(self, shard: Shard, source: str, budget: ErrorBudget) -> Iterator[tuple[Item, str]]:
        """Yield the page of a shard, with its markup."""
        data = self._content(shard.path) if shard.data is None else shard.data
        yield self._page(Capture(body=data, kind=HTML[0]), shard.id_prefix(source), source)
