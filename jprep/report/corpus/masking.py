"""Mask personal data in what a report shows of a corpus that was built with the normalizer `pii`.

The text of such a corpus is masked already; ids, titles and what readers dropped are not. Records of the input are left
out: they may have personal data in other fields, or in an encoding that the rules do not read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from jprep.corpus.config import make_step
from jprep.corpus.document import Reject
from jprep.corpus.normalizers.pii.normalizer import PiiNormalizer
from jprep.corpus.store import Manifest
from jprep.report.corpus.document_scan import DocumentScan, Example
from jprep.report.corpus.reject_scan import RejectScan

Mask = Callable[[str], str]

NOTE = (
    "This corpus was built with the normalizer pii. Its rules are also applied to the ids, titles and dropped documents"
    " that are shown here; they do not find the names of people. Records of the input are left out."
)
NO_RECORD = "left out, since the corpus was built with the normalizer pii; `jprep view` shows it"


def is_masked(manifest: Manifest) -> bool:
    """Return whether the normalizer `pii` masked a corpus, or one of its sources."""
    made_from: dict[str, Any] = manifest.made_from["documents"]
    own = [source.get("normalizers", []) for source in made_from["sources"]]
    return any(step["name"] == PiiNormalizer.name for steps in (made_from["normalizers"], *own) for step in steps)


def mask_of(manifest: Manifest) -> Mask:
    """Return a function that masks all kinds of personal data; of a corpus that is not masked, it changes nothing."""
    if not is_masked(manifest):
        return str
    normalizer: PiiNormalizer = make_step("normalizer", PiiNormalizer.name)
    return normalizer.apply


def mask_documents(scan: DocumentScan, mask: Mask) -> DocumentScan:
    """Mask the examples of documents."""
    return scan._replace(examples=[mask_example(each, mask) for each in scan.examples])


def mask_example(example: Example, mask: Mask) -> Example:
    """Mask a document that is shown."""
    return example._replace(id=mask(example.id), title=mask(example.title), excerpt=mask(example.excerpt))


def mask_rejects(scan: RejectScan, mask: Mask) -> RejectScan:
    """Mask the examples of dropped documents."""
    examples = {reason: [_mask_reject(each, mask) for each in found] for reason, found in scan.examples.items()}
    repeated = [each._replace(excerpt=mask(each.excerpt)) for each in scan.repeated]
    return scan._replace(examples=examples, repeated=repeated)


def _mask_reject(reject: Reject, mask: Mask) -> Reject:
    return structs.replace(reject, id=mask(reject.id), title=mask(reject.title), excerpt=mask(reject.excerpt))
