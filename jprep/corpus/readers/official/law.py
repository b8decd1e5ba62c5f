"""Reader of Japanese laws in the standard XML that e-Gov publishes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jprep.corpus.document import Document
from jprep.corpus.readers.official.law_text import Law, MalformedLawError, parse_laws
from jprep.corpus.readers.record_reader import ErrorBudget, Item
from jprep.corpus.readers.whole_files import WholeFileConfig, WholeFileReader
from jprep.errors import InputError
from jprep.io.inputs.limits import DOWNLOAD_AGAIN

_LAW_ID = re.compile(r"(?<![0-9A-Za-z])([1-5]\d{2}[A-Z][0-9A-Z]{6,})(?![0-9A-Za-z])")
_ADDRESS = "https://laws.e-gov.go.jp/law/"
_ATTRIBUTES = {"LawType": "law_type", "Era": "era", "Year": "year", "Num": "number_in_year", "Lang": "language"}


class LawReader(WholeFileReader):
    """Laws in e-Gov's XML (法令標準XML), plain or in .zip. Ids: `source:file`, in a .zip `source:file:member`."""

    name = "law"
    version = 4
    suffixes = (".xml",)

    class Config(WholeFileConfig, frozen=True):
        """Options of the reader `law`.

        Attributes:
            supplementary: whether to keep the supplementary provisions (附則).
        """

        supplementary: bool = True

    def _file_items(
        self, data: bytes, where: str, identity: str, source: str, budget: ErrorBudget
    ) -> Iterator[tuple[Item, Any]]:
        try:
            laws = list(parse_laws(data, self.tally, supplementary=self.config.supplementary))
        except MalformedLawError as error:
            budget.spend(InputError(f"malformed XML ({error})", where=where, fix=DOWNLOAD_AGAIN))
            yield self.reject(identity, "malformed_xml", str(error)), data
            return
        if not laws:
            yield self.reject(identity, "no_law"), data
        for number, law in enumerate(laws, 1):
            own = identity if number == 1 else f"{identity}:{number}"
            yield self.clean_document(_document(law, own, source)), data

    def original(self, record: bytes) -> str:
        """Return the XML of a law."""
        return record.decode("utf-8", "backslashreplace")


def _document(law: Law, identity: str, source: str) -> Document:
    found = _LAW_ID.search(identity)
    meta = {"law_number": law.number} if law.number else {}
    meta |= {ours: law.attributes[name] for name, ours in _ATTRIBUTES.items() if law.attributes.get(name)}
    meta |= {"law_id": found[1]} if found else {}
    url = f"{_ADDRESS}{found[1]}" if found else ""
    return Document(identity, source, law.title, url, "\n".join(law.lines), meta=meta)
