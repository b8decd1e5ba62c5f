"""jprep's own steps, registered as any plugin's are."""

from __future__ import annotations

from jprep.plugins import hookimpl


@hookimpl
def jprep_readers() -> dict[str, str]:
    """Readers that come with jprep."""
    room = "jprep.corpus.readers"
    return {
        "wikipedia": f"{room}.wikipedia:Wikipedia",
        "cc100": f"{room}.lines:Cc100",
        "text": f"{room}.lines:Text",
        "jsonl": f"{room}.lines:Jsonl",
        "parquet": f"{room}.parquet:Parquet",
    }


@hookimpl
def jprep_normalizers() -> dict[str, str]:
    """Normalisers that come with jprep."""
    room = "jprep.corpus.normalizers"
    return {"neologdn": f"{room}.neologdn:Neologdn", "nfkc": f"{room}.nfkc:Nfkc"}


@hookimpl
def jprep_splitters() -> dict[str, str]:
    """Sentence splitters that come with jprep."""
    return {"rules": "jprep.corpus.sentences:Rules", "none": "jprep.corpus.sentences:Unsplit"}


@hookimpl
def jprep_filters() -> dict[str, str]:
    """Filters that come with jprep."""
    room = "jprep.corpus.filters"
    return {
        "length": f"{room}.document:Length",
        "japanese": f"{room}.document:Japanese",
        "symbols": f"{room}.document:Symbols",
        "urls": f"{room}.document:Urls",
        "sentence_end": f"{room}.lines:SentenceEnd",
        "repeated_lines": f"{room}.lines:RepeatedLines",
    }


@hookimpl
def jprep_segmenters() -> dict[str, str]:
    """Segmenters that come with jprep."""
    room = "jprep.corpus.segmenters"
    return {
        "jumandic": f"{room}.mecab:Jumandic",
        "jumanpp": f"{room}.jumanpp:Jumanpp",
        "sudachi": f"{room}.sudachi:Sudachi",
        "unidic": f"{room}.mecab:Unidic",
        "none": f"{room}.none:Unsegmented",
    }


@hookimpl
def jprep_executors() -> dict[str, str]:
    """Executors that come with jprep."""
    return {"local": "jprep.engine.local:Local"}
