"""The tables of a starter recipe that make the text: sources, corpus, tokenizer and dataset."""

from __future__ import annotations

from typing import Any

from jprep.corpus.config import WEB_FILTERS
from jprep.pipeline.starter.choices import FAMILIES, Answers
from jprep.pipeline.starter.inputs import DUMPS, InputSummary
from jprep.pipeline.starter.toml_lines import Key, table
from jprep.tokenizer.suggested_size import suggest_vocab_size

_JAWIKI = "jawiki-latest-pages-articles-multistream.xml.bz2"
_JAWIKI_URL = "https://dumps.wikimedia.org/jawiki/latest"
_CC100 = "ja.txt.xz"
HUB_DATASET = "hf://datasets/wikimedia/wikipedia/20231101.ja/train-*.parquet"
"""The dataset of the source `hf` where none is given."""

_FIELDS: dict[str, dict[str, str]] = {HUB_DATASET: {"id": "id", "title": "title", "url": "url"}}
_SIZES = {"wikipedia": 4_000_000_000, "cc100": 74_000_000_000, "hf": 1_000_000_000, "text": 1_000_000_000}
"""Bytes of text of a source, about, where that is not known from its files."""

_BYTES_PER_CHARACTER = 3
_SMALL_VOCABULARY = 8_000
_VALIDATION_DOCUMENTS, _MAX_VALIDATION = 20, 0.2


def default_inputs(answers: Answers) -> InputSummary:
    """Return the inputs of a source for which none were given: what it downloads."""
    if answers.source == "hf":
        return InputSummary(paths=(HUB_DATASET,), reader={"use": "parquet", "text": answers.text_field or "text"})
    file = f"downloads/{_JAWIKI if answers.source == 'wikipedia' else _CC100}"
    return InputSummary(paths=(file,), reader=source_reader(answers))


def source_reader(answers: Answers) -> dict[str, Any]:
    """Return the reader of the source `wikipedia` or `cc100`."""
    return {"use": "wikipedia", "namespaces": [0]} if answers.source == "wikipedia" else {"use": answers.source}


def known_size(answers: Answers, inputs: InputSummary) -> int:
    """Return how many bytes of text there are, about: no more than the whole of a published corpus."""
    whole = _SIZES[answers.source]
    return min(inputs.size or whole, whole) if answers.source in DUMPS else inputs.size or whole


def source_table(answers: Answers, inputs: InputSummary) -> str:
    """Return `[[corpus.sources]]`, and the file that it downloads if no inputs were given."""
    reader: Any = dict(inputs.reader) if isinstance(inputs.reader, dict) else {"use": inputs.reader}
    reader |= _FIELDS.get(inputs.paths[0], {})
    what = {
        "wikipedia": "a dump of Wikipedia; namespace 0 is the articles",
        "cc100": "CC-100: blank lines end documents",
    }
    fields = [k for k in ("text", "title", "id") if k in reader]
    about = what.get(answers.source) or (
        f"the fields of a record that are read: {', '.join(fields)}" if fields else "the format, and what a document is"
    )
    keys = [
        Key("name", answers.source, "part of every document's id"),
        Key("licence", _licence(answers, inputs), "licence of the text, for the corpus's card"),
        Key("reader", reader, about),
        Key("paths", list(inputs.paths), "files, patterns or URLs; local ones are relative to where jprep runs"),
    ]
    return table("[[corpus.sources]]", keys, "Where the text comes from. Repeat this table for further sources.") + (
        "" if answers.inputs else _download_table(answers)
    )


def _licence(answers: Answers, inputs: InputSummary) -> str:
    if answers.source == "wikipedia" or inputs.paths == (HUB_DATASET,):
        return "CC BY-SA 4.0"
    return "Common Crawl terms of use" if answers.source == "cc100" else ""


def _download_table(answers: Answers) -> str:
    """Return the table of the file to download; "" where the reader reads it from the server."""
    if answers.source == "wikipedia":
        keys = [
            Key("url", f"{_JAWIKI_URL}/{_JAWIKI}", "`latest` changes monthly: put a date there to repeat a corpus"),
            Key("checksums", f"{_JAWIKI_URL}/jawiki-latest-sha1sums.txt", "what the download is compared with"),
        ]
    elif answers.source == "cc100":
        keys = [Key("url", f"https://data.statmt.org/cc-100/{_CC100}", "some 15 GB, resumed if interrupted")]
    else:
        return ""
    return "\n" + table("[[corpus.sources.files]]", keys, "`jprep run` downloads this file.")


_NORMALIZERS = 'unify widths, dashes and spaces; 〜 stays; add "pii" to mask personal data'


def corpus_table(answers: Answers) -> str:
    """Return `[corpus]`."""
    web = answers.source == "cc100"
    filters: list[Any] = {
        "cc100": [{"use": "length", "min_chars": 50}, *WEB_FILTERS[1:]],
        "text": [],
    }.get(answers.source, [{"use": "length", "min_chars": 50}, "repeated_lines"])
    keys = [
        Key("normalizers", [{"use": "neologdn", "tilde": "ignore"}], _NORMALIZERS),
        Key("splitter", "rules", "find the ends of sentences"),
        Key("filters", filters, "drop documents, each counted with its reason; `jprep plugins` lists all filters"),
        Key("segmenter", _segmenter(answers), _segmenter_comment(answers)),
        Key("dedup", {"documents": True, "lines": web}, _dedup_comment(lines=web)),
    ]
    return table("[corpus]", keys, "How the text is cleaned.")


def _dedup_comment(*, lines: bool) -> str:
    return f"drop repeated documents{' and lines' * lines}; `near = {{}}` in it drops near-duplicates (jprep[near])"


def _segmenter(answers: Answers) -> Any:
    """Return the segmenter, with its options if it is that of the model's tokenizer."""
    given = answers.start.segmenter if answers.start else {}
    return dict(given) if len(given) > 1 and given["use"] == answers.segmenter else answers.segmenter


def _segmenter_comment(answers: Answers) -> str:
    if answers.segmenter == "none":
        why = "the model's tokenizer takes raw text" if answers.start else "`jprep doctor` shows which segmenters work"
        return f"words are not looked for; {why}"
    if answers.start:
        return (
            "find words, which its tokenizer needs" if answers.start.needs_words else "find words, to mask whole ones"
        )
    return "find words, which guide the tokenizer; the model needs no segmenter at use"


def tokenizer_table(answers: Answers, inputs: InputSummary) -> str:
    """Return `[tokenizer]`."""
    ids = suggest_vocab_size(known_size(answers, inputs) // _BYTES_PER_CHARACTER, inputs.alphabet, answers.tokenizer)
    words = answers.segmenter != "none"
    keys = [
        Key("model", answers.tokenizer, "bpe, byte-bpe, unigram or wordpiece"),
        Key("vocab_size", ids, "number of ids, with special tokens"),
        Key("boundaries", "train" if words else "none", _boundaries_comment(words=words)),
        Key("special", [FAMILIES[answers.family].special], "the special tokens that such models usually have"),
    ]
    if inputs.alphabet and ids < _SMALL_VOCABULARY and answers.tokenizer != "byte-bpe":
        comment = "characters with an id of their own; the rest become bytes or unknown"
        keys.insert(2, Key("alphabet", inputs.alphabet, comment))
    return table("[tokenizer]", keys, "How text becomes tokens.")


def _boundaries_comment(*, words: bool) -> str:
    return "words guide the vocabulary, raw text is encoded" if words else "pieces are learned from raw text"


def dataset_table(answers: Answers, inputs: InputSummary) -> str:
    """Return `[dataset]`."""
    usual = 0.0005 if answers.source == "cc100" else 0.005
    needed = _VALIDATION_DOCUMENTS / inputs.documents if inputs.documents else usual
    share = min(_MAX_VALIDATION, max(usual, round(needed, 3)))
    keys = [Key("validation", share, "share of the documents that the model is validated on, not trained on")]
    return table("[dataset]", keys, "How tokens are stored.")
