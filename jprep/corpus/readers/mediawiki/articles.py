"""Convert the pages of a wiki to documents, or to rejects with a reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

from jprep.corpus.document import Document, Reject
from jprep.corpus.readers.mediawiki.disambiguation import DisambiguationDetector
from jprep.corpus.readers.mediawiki.xml_export import Page, SiteInfo

_REDIRECT = re.compile(r"\s*[#＃](?:redirect|転送|リダイレクト)\s*:?\s*\[\[([^\]\n]*)", re.IGNORECASE)


def redirect_target(page: Page) -> str | None:
    """Return the title that a page redirects to, or None. Exports before version 0.4 have it in the wikitext only."""
    if page.redirect:
        return page.redirect
    match = _REDIRECT.match(page.text or "")
    return match[1] if match else page.redirect


class ArticleExtractor:
    """Extracts the articles of one wiki.

    Args:
        site_info: head of the export, which describes the wiki.
        namespaces: numbers of the namespaces to read.
        disambiguation: detects disambiguation pages, which are rejected; None keeps them.
        extract: converts wikitext, title and the time of the revision to text.
    """

    def __init__(
        self,
        site_info: SiteInfo,
        namespaces: list[int],
        disambiguation: DisambiguationDetector | None,
        extract: Callable[[str, str, str], str],
    ) -> None:
        self._namespaces, self._disambiguation, self._extract = namespaces, disambiguation, extract
        self._numbers = site_info.prefixes
        self._url = site_info.base.rpartition("/")[0] + "/" if site_info.base else ""

    def read(self, page: Page, source: str) -> Document | Reject:
        """Extract one page.

        Returns:
            A document, or a reject with the reason `namespace_N`, `redirect`, `deleted`, `model_X`, `disambiguation` or
            `empty`.
        """
        identity = f"{source}:{page.id}"
        reason, excerpt = self._reject_reason(page)
        text = "" if reason else self._extract(page.text or "", page.title, page.timestamp)
        if not text:
            return Reject(identity, page.title, "reader.wikipedia", reason or "empty", excerpt)
        url = self._url + quote(page.title.replace(" ", "_"), safe="/:,()!'*;@&=+$") if self._url else ""
        meta = {"page": page.id, "revision": page.revision, "timestamp": page.timestamp}
        return Document(identity, source, page.title, url, text, meta=meta)

    def _reject_reason(self, page: Page) -> tuple[str, str]:
        """Return why a page is not an article, and an excerpt; or two empty strings."""
        if (number := self._namespace_of(page)) not in self._namespaces:
            return f"namespace_{number}", ""
        if page.redirect is not None:
            return "redirect", page.redirect
        if page.text is None:
            return "deleted", ""
        if page.model != "wikitext":
            return f"model_{page.model}", ""
        if (target := redirect_target(page)) is not None:
            return "redirect", target
        if self._disambiguation and (marker := self._disambiguation.marker(page.text)):
            return "disambiguation", marker
        return "", ""

    def _namespace_of(self, page: Page) -> int:
        """Return the number of the page's namespace; exports before version 0.5 give it in the title only."""
        prefix, colon, _ = page.title.partition(":")
        named = self._numbers.get(prefix.lower(), 0) if colon else 0
        return named if page.namespace is None else page.namespace
