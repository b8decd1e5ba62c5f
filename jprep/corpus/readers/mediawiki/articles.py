"""From a wiki's page to a document, or to the reason why it is none."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

from jprep.corpus.document import Document, Reject
from jprep.corpus.readers.mediawiki.disambiguation import Disambiguation
from jprep.corpus.readers.mediawiki.xml_export import Page, SiteInfo

_REDIRECT = re.compile(r"\s*[#＃](?:redirect|転送|リダイレクト)\s*:?\s*\[\[([^\]\n]*)", re.IGNORECASE)


class ArticleExtractor:
    """Judges the pages of one wiki.

    Args:
        head: what the wiki's export says of it.
        namespaces: the namespaces that are wanted.
        disambiguation: recognises disambiguation pages, which are rejected; None keeps them.
        extract: wikitext and title to text.
    """

    def __init__(
        self,
        head: SiteInfo,
        namespaces: list[int],
        disambiguation: Disambiguation | None,
        extract: Callable[[str, str], str],
    ) -> None:
        self._namespaces, self._disambiguation, self._extract = namespaces, disambiguation, extract
        self._numbers = head.prefixes
        self._url = head.base.rpartition("/")[0] + "/" if head.base else ""

    def read(self, page: Page, source: str) -> Document | Reject:
        """Extract one page.

        Returns:
            a document, or a Reject with the reason `namespace_N`, `redirect`, `deleted`, `model_X`, `disambiguation` or
            `empty`.
        """
        identity = f"{source}:{page.id}"
        reason, excerpt = self._unwanted(page)
        text = "" if reason else self._extract(page.text or "", page.title)
        if not text:
            return Reject(identity, page.title, "reader.wikipedia", reason or "empty", excerpt)
        url = self._url + quote(page.title.replace(" ", "_"), safe="/:,()!'*;@&=+$") if self._url else ""
        meta = {"page": page.id, "revision": page.revision, "timestamp": page.timestamp}
        return Document(identity, source, page.title, url, text, meta=meta)

    def _unwanted(self, page: Page) -> tuple[str, str]:
        """Why a page is no article, and an excerpt; or two empty strings."""
        if (number := self._namespace_of(page)) not in self._namespaces:
            return f"namespace_{number}", ""
        if page.redirect is not None:
            return "redirect", page.redirect
        if page.text is None:
            return "deleted", ""
        if page.model != "wikitext":
            return f"model_{page.model}", ""
        if match := _REDIRECT.match(page.text):  # exports before 0.4 have no element for it
            return "redirect", match[1]
        if self._disambiguation and (marker := self._disambiguation.marker(page.text)):
            return "disambiguation", marker
        return "", ""

    def _namespace_of(self, page: Page) -> int:
        """The number that the page tells, or in exports before 0.5 its title."""
        prefix, colon, _ = page.title.partition(":")
        named = self._numbers.get(prefix.lower(), 0) if colon else 0
        return named if page.namespace is None else page.namespace
