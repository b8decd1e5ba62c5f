"""Mask personal data in what a report shows of a corpus that was built with the normalizer `pii`.

The text of such a corpus is masked already, and shown as it is; ids and titles are not. Records of the input, and what
readers dropped of them, are left out: they may have personal data in other fields, in an encoding that the rules do not
read, or cut off.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from jprep.corpus.config import make_step
from jprep.corpus.document import Reject
from jprep.corpus.normalizers.pii.normalizer import PiiNormalizer
from jprep.corpus.store import Manifest
from jprep.report.corpus.document_scan import DocumentScan, Example
from jprep.report.corpus.reject_scan import RejectScan

NOTE = (
    "Sources of this corpus were built with the normalizer pii. Ids and titles that are shown here are masked, too, and"
    " records of the input are left out. Names of people, sources and files are shown as they are."
)
LEFT_OUT = "left out, since the corpus was built with the normalizer pii; `jprep view` shows it"


class Masking:
    """What a report may show of a corpus.

    Args:
        manifest: the corpus's manifest.

    Attributes:
        needed: whether the normalizer `pii` masked a source of the corpus; if not, everything is shown as it is.
    """

    def __init__(self, manifest: Manifest) -> None:
        made_from: dict[str, Any] = manifest.made_from["documents"]
        steps = [source.get("normalizers", made_from["normalizers"]) for source in made_from["sources"]]
        self.needed = any(step["name"] == PiiNormalizer.name for own in steps for step in own)
        self._normalizer: PiiNormalizer = make_step("normalizer", PiiNormalizer.name)

    def documents(self, scan: DocumentScan) -> DocumentScan:
        """Mask the examples of documents."""
        return scan._replace(examples=[self.example(each) for each in scan.examples])

    def example(self, example: Example) -> Example:
        """Mask id and title of a document that is shown."""
        return example._replace(id=self._mask(example.id), title=self._mask(example.title))

    def rejects(self, scan: RejectScan) -> RejectScan:
        """Mask the examples of dropped documents."""
        return scan._replace(
            examples={reason: [self._reject(each) for each in found] for reason, found in scan.examples.items()}
        )

    def _reject(self, reject: Reject) -> Reject:
        raw = self.needed and reject.excerpt and reject.step.startswith("reader.")
        excerpt = LEFT_OUT if raw else reject.excerpt
        return structs.replace(reject, id=self._mask(reject.id), title=self._mask(reject.title), excerpt=excerpt)

    def _mask(self, text: str) -> str:
        return self._normalizer.apply(text) if self.needed else text
