"""What neologdn and `gentle` change. Run as `python -m tests.benchmarks.bench_normalizer_changes`.

Prints characters changed per million characters, by kind of change, on articles of real dumps, web text and prose from
the shared data folder, at most `LIMIT` characters of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jprep.corpus.document import Document
from jprep.corpus.normalizers.gentle import GentleNormalizer
from jprep.corpus.normalizers.neologdn import NeologdnNormalizer
from jprep.corpus.readers.wikipedia import WikipediaReader
from jprep.corpus.step import Normalizer
from tests.benchmarks.bench_normalize import DATA, corpora

LIMIT = 1_000_000
DUMPS = ("jawiki-20220720-head-A", "jawiki-country-2015-A", "jawiki-shinto-A")


def articles(dump: str) -> Iterator[str]:
    """Yield the texts of the articles of a dump."""
    reader = WikipediaReader()
    for shard in reader.shards(str(DATA / "wikitext" / f"{dump}.xml.bz2")):
        yield from (one.text for one in reader.read(shard, "wiki") if isinstance(one, Document))


def limited(texts: Iterable[str]) -> str:
    """Join texts with newlines up to the limit."""
    return "\n".join(texts)[:LIMIT]


def kinds_of_text() -> dict[str, list[str]]:
    """Return the texts of each kind."""
    files = corpora()
    prose = [limited(texts) for name, texts in files.items() if name.startswith("aozora")]
    web = [limited(texts) for name, texts in files.items() if not name.startswith(("aozora", "20"))]
    return {"wiki": [limited(articles(dump)) for dump in DUMPS], "web": web, "prose": prose}


def report(name: str, texts: list[str], step: Normalizer) -> None:
    """Print the counts of one normalizer per million characters."""
    results = [step.apply(text) for text in texts]
    millions = sum(map(len, texts)) / 1e6
    step.tally["deleted in all"] = sum(map(len, texts)) - sum(map(len, results))
    shown = ", ".join(f"{kind} {count / millions:.0f}" for kind, count in sorted(step.tally.items()))
    print(f"{name:6} {step.name:9} {millions:.1f} million characters: {shown}", flush=True)


def main() -> None:
    for name, texts in kinds_of_text().items():
        report(name, texts, NeologdnNormalizer())
        report(name, texts, GentleNormalizer())
        report(name, texts, GentleNormalizer(GentleNormalizer.Config(latin_spaces="remove")))


if __name__ == "__main__":
    main()
