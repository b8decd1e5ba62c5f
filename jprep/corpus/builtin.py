"""Register jprep's built-in steps and model families through the same hooks as a plugin's."""

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
        "json": f"{package}.json_records:JsonReader",
        "parquet": f"{package}.parquet:ParquetReader",
        "csv": f"{package}.delimited:CsvReader",
        "tsv": f"{package}.delimited:TsvReader",
        "aozora": f"{package}.aozora.reader:AozoraReader",
        "html": f"{package}.web.html_reader:HtmlReader",
        "pdf": f"{package}.pdf.reader:PdfReader",
        "warc": f"{package}.web.warc_reader:WarcReader",
        "diet": f"{package}.official.diet:DietReader",
        "law": f"{package}.official.law:LawReader",
    }


@hookimpl
def jprep_normalizers() -> dict[str, str]:
    """Return the built-in normalizers by name."""
    package = "jprep.corpus.normalizers"
    return {
        "neologdn": f"{package}.neologdn:NeologdnNormalizer",
        "gentle": f"{package}.gentle:GentleNormalizer",
        "nfkc": f"{package}.nfkc:NfkcNormalizer",
        "characters": f"{package}.characters:CharactersNormalizer",
        "pii": f"{package}.pii.normalizer:PiiNormalizer",
    }


@hookimpl
def jprep_splitters() -> dict[str, str]:
    """Return the built-in sentence splitters by name."""
    return {"rules": "jprep.corpus.splitters.rules:RuleSplitter", "none": "jprep.corpus.splitters.unsplit:NoSplitter"}


@hookimpl
def jprep_filters() -> dict[str, str]:
    """Return the built-in filters by name."""
    package = "jprep.corpus.filters"
    return {
        "hojichar": f"{package}.adapters.hojichar:HojicharFilter",
        "length": f"{package}.document:LengthFilter",
        "japanese": f"{package}.document:JapaneseFilter",
        "symbols": f"{package}.document:SymbolFilter",
        "urls": f"{package}.document:UrlFilter",
        "sentence_end": f"{package}.lines:SentenceEndFilter",
        "repeated_lines": f"{package}.lines:RepeatedLinesFilter",
        "threshold": f"{package}.thresholds:ThresholdFilter",
        "line_threshold": f"{package}.line_thresholds:LineThresholdFilter",
        "preset": f"{package}.presets.preset:PresetFilter",
    }


@hookimpl
def jprep_signals() -> dict[str, str]:
    """Return the built-in signals by name."""
    package = "jprep.corpus.signals"
    return {
        "characters": f"{package}.characters:CharacterSignals",
        "fasttext": f"{package}.language.fasttext:FastTextSignal",
        "hosts": f"{package}.hosts.signal:HostsSignal",
        "kenlm": f"{package}.perplexity.kenlm:KenlmSignal",
        "language": f"{package}.language.signal:LanguageSignal",
        "lines": f"{package}.lines:LineSignals",
        "ng_words": f"{package}.words.signal:NgWordsSignal",
        "perplexity": f"{package}.perplexity.signal:PerplexitySignal",
        "sentences": f"{package}.sentences:SentenceSignals",
        "urls": f"{package}.urls:UrlSignals",
        "repetition": f"{package}.repetition:RepetitionSignal",
        "swallow_letters": f"{package}.published.swallow:SwallowLetters",
        "swallow_sentences": f"{package}.published.swallow:SwallowSentences",
        "swallow_duplicates": f"{package}.published.swallow_repetition:SwallowDuplicates",
        "swallow_ngrams": f"{package}.published.swallow_repetition:SwallowNgrams",
        "fineweb2_lines": f"{package}.published.fineweb2:FineWeb2Lines",
        "fineweb2_words": f"{package}.published.fineweb2_words:FineWeb2Words",
        "llm_jp": f"{package}.published.llm_jp:LlmJpSignals",
        "deflate": f"{package}.published.compression:DeflateSignal",
        "lz4": f"{package}.published.compression:Lz4Signal",
        "uzushio": f"{package}.published.uzushio:UzushioSignals",
        "published_words": f"{package}.published.word_lists:PublishedWords",
        "prose": f"{package}.prose.signal:ProseSignals",
        "judge": f"{package}.judge:JudgeSignal",
        "quality": f"{package}.quality:QualitySignal",
    }


@hookimpl
def jprep_segmenters() -> dict[str, str]:
    """Return the built-in segmenters by name."""
    package = "jprep.corpus.segmenters"
    return {
        "jumandic": f"{package}.mecab:JumandicSegmenter",
        "jumanpp": f"{package}.jumanpp:JumanppSegmenter",
        "pointwise": f"{package}.pointwise:Pointwise",
        "sudachi": f"{package}.sudachi:SudachiSegmenter",
        "unidic": f"{package}.mecab:UnidicSegmenter",
        "spaces": f"{package}.spaces:SpacesSegmenter",
        "none": f"{package}.none:NoSegmenter",
    }


@hookimpl
def jprep_executors() -> dict[str, str]:
    """Return the built-in executors by name."""
    package = "jprep.engine.executors"
    return {
        "local": f"{package}.local:Local",
        "queue": f"{package}.queued:Queue",
        "slurm": f"{package}.batch:Slurm",
        "pbs": f"{package}.batch:PbsPro",
        "grid-engine": f"{package}.batch:GridEngineBatch",
        "ray": f"{package}.ray.executor:Ray",
    }


@hookimpl
def jprep_models() -> dict[str, str]:
    """Return the built-in model families by name."""
    package = "jprep.train.models.presets"
    return {
        "gpt2": f"{package}:GPT2",
        "bert": f"{package}:BERT",
        "roberta": f"{package}:ROBERTA",
        "electra": f"{package}:ELECTRA",
        "modernbert": f"{package}:MODERNBERT",
        "deberta-v2": f"{package}:DEBERTA_V2",
        "llama": f"{package}:LLAMA",
        "qwen3": f"{package}:QWEN3",
        "qwen3_moe": f"{package}:QWEN3_MOE",
    }
