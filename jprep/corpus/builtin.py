"""Register jprep's built-in steps through the same hooks as a plugin's."""

from __future__ import annotations

from jprep.plugins import hookimpl


@hookimpl
def jprep_readers() -> dict[str, str]:
    """Return the built-in readers by name."""
    package = "jprep.corpus.readers"
    return {
        "wikipedia": f"{package}.wikipedia:WikipediaReader",
        "cc100": f"{package}.lines:Cc100Reader",
        "text": f"{package}.lines:TextReader",
        "jsonl": f"{package}.lines:JsonlReader",
        "parquet": f"{package}.parquet:ParquetReader",
        "csv": f"{package}.delimited:CsvReader",
        "tsv": f"{package}.delimited:TsvReader",
        "aozora": f"{package}.aozora.reader:AozoraReader",
    }


@hookimpl
def jprep_normalizers() -> dict[str, str]:
    """Return the built-in normalizers by name."""
    package = "jprep.corpus.normalizers"
    return {
        "neologdn": f"{package}.neologdn:NeologdnNormalizer",
        "nfkc": f"{package}.nfkc:NfkcNormalizer",
        "characters": f"{package}.characters:CharactersNormalizer",
        "pii": f"{package}.pii.normalizer:PiiNormalizer",
    }


@hookimpl
def jprep_splitters() -> dict[str, str]:
    """Return the built-in sentence splitters by name."""
    return {"rules": "jprep.corpus.sentences:RuleSplitter", "none": "jprep.corpus.sentences:NoSplitter"}


@hookimpl
def jprep_filters() -> dict[str, str]:
    """Return the built-in filters by name."""
    package = "jprep.corpus.filters"
    return {
        "length": f"{package}.document:LengthFilter",
        "japanese": f"{package}.document:JapaneseFilter",
        "symbols": f"{package}.document:SymbolFilter",
        "urls": f"{package}.document:UrlFilter",
        "sentence_end": f"{package}.lines:SentenceEndFilter",
        "repeated_lines": f"{package}.lines:RepeatedLinesFilter",
        "threshold": f"{package}.thresholds:ThresholdFilter",
        "preset": f"{package}.presets.preset:PresetFilter",
    }


@hookimpl
def jprep_signals() -> dict[str, str]:
    """Return the built-in signals by name."""
    package = "jprep.corpus.signals"
    return {
        "characters": f"{package}.characters:CharacterSignals",
        "fasttext": f"{package}.language.fasttext:FastTextSignal",
        "kenlm": f"{package}.perplexity.kenlm:KenlmSignal",
        "language": f"{package}.language.signal:LanguageSignal",
        "lines": f"{package}.lines:LineSignals",
        "ng_words": f"{package}.words.signal:NgWordsSignal",
        "perplexity": f"{package}.perplexity.signal:PerplexitySignal",
        "urls": f"{package}.urls:UrlSignals",
    }


@hookimpl
def jprep_segmenters() -> dict[str, str]:
    """Return the built-in segmenters by name."""
    package = "jprep.corpus.segmenters"
    return {
        "jumandic": f"{package}.mecab:JumandicSegmenter",
        "jumanpp": f"{package}.jumanpp:JumanppSegmenter",
        "sudachi": f"{package}.sudachi:SudachiSegmenter",
        "unidic": f"{package}.mecab:UnidicSegmenter",
        "spaces": f"{package}.spaces:SpacesSegmenter",
        "none": f"{package}.none:NoSegmenter",
    }


@hookimpl
def jprep_executors() -> dict[str, str]:
    """Return the built-in executors by name."""
    return {"local": "jprep.engine.local:Local"}
