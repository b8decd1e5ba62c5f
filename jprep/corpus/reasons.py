"""What the reasons of dropped documents mean, in a phrase."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from jprep.errors import ConfigError

_NAMESPACES = {
    "1": "talk pages", "2": "user pages", "3": "user talk", "4": "project pages", "6": "files", "8": "interface texts",
    "10": "templates", "12": "help pages", "14": "categories", "100": "portals", "102": "project pages",
    "828": "modules",
}  # fmt: skip

_READER = {
    "redirect": "pages that only lead to another page",
    "disambiguation": "pages that only list the meanings of a name",
    "deleted": "pages whose text was removed from the wiki",
    "empty": "nothing but markup or white space",
    "malformed_json": "lines, records or files that are not a JSON object",
    "malformed_csv": "rows with another number of fields, or with unbalanced quotation marks",
    "malformed_tsv": "rows with another number of fields",
    "malformed_xml": "files that are not well-formed XML, or have a document type declaration",
    "no_law": "XML without a law",
    "meeting_information": "names of those present and the agenda, which precede the speeches",
    "no_text": "the text is missing, null or not a string",
    "content_type": "other than HTML or plain text: pictures, PDF, feeds",
    "malformed_http": "responses whose headers or chunks cannot be read",
    "damaged": "damaged records of an archive, and damaged PDFs",
    "encrypted": "PDFs that need a password",
    "too_many_pages": "PDFs of more than {max_pages} pages",
    "no_characters": "PDFs without characters: images of pages, drawings",
    "missing_fonts": "PDFs whose fonts neither they nor the machine have",
    "unmapped_characters": "PDFs whose fonts do not say which characters they have",
    "too_large": "pages larger than the reader's `max_page_mb`",
    "too_deep": "markup nested too deep, or formatting never closed",
    "not_extracted": "pages and PDFs that the extractor fails on, or takes too much time or memory for",
}

_FILTER = {
    "length/too_short": "shorter than {min_chars} characters",
    "length/too_long": "longer than {max_chars} characters",
    "length/few_sentences": "fewer than {min_sentences} sentences",
    "japanese/foreign": "less than {min_japanese} of the characters are kana or kanji: other languages, code",
    "japanese/few_kana": "less than {min_kana} of the characters are kana: Chinese, lists of names",
    "symbols/symbols": "more than {max_symbols} of the characters are symbols or emoji",
    "symbols/punctuation": "more than {max_punctuation} of the characters are punctuation or brackets",
    "symbols/digits": "more than {max_digits} of the characters are digits",
    "urls/urls": "over {max_share} of the characters belong to URLs, or over {max_per_1000} URLs per 1,000",
    "sentence_end/no_sentence_end": "fewer than {min_share} of the lines end like a sentence: menus, lists",
    "web-ja/code": "nearly nothing but code",
    "web-ja/foreign": "few kana and kanji outside code: other languages, tables of numbers",
    "web-ja/few_kana": "kanji without kana: Chinese, lists of names",
    "web-ja/mojibake": "rare characters, as in text of a wrong encoding",
    "web-ja/repetition": "runs of characters that occur again and again",
    "web-ja/random_kana": "kana in an order that is not that of words",
    "web-ja/decoration": "many exclamation marks, emoji or ornaments",
    "web-ja/symbols": "many symbols outside code",
    "web-ja/digits": "many digits",
    "web-ja/urls": "mostly URLs",
    "web-ja/keywords": "many spaces, commas or bars between words: lists of keywords",
    "web-ja/no_sentences": "few particles, verb endings and ends of sentences: menus, lists of words",
    "repeated_lines/repeated_lines": "over {max_lines} of the lines, or {max_chars} of the characters, are repeats",
}

_OTHER = {
    "normalizer/empty": "no text remains after normalization",
    "dedup.documents/duplicate": "another document has the same text",
    "dedup.lines/empty": "all paragraphs occur elsewhere in the corpus",
    "dedup.sentences/empty": "all sentences occur elsewhere in the corpus",
    "dedup.near/near_duplicate": "nearly the same text as another document",
}


def explain(step: str, reason: str, options: Mapping[str, Sequence[Any]] | None = None) -> str:
    """Return what a reason means, or "" for one that a plugin defines.

    Args:
        step: the step, e.g. `filter.length`.
        reason: its reason, e.g. `too_short`.
        options: the values of each option of the step; several where the sources differ.
    """
    kind, _, name = step.partition(".")
    if kind == "decontaminate":
        return f"an item of the test set {name} is in the document"
    if known := _OTHER.get(f"{step}/{reason}"):
        return known
    if phrases := (options or {}).get(f"reason {reason}"):
        return " or ".join(map(str, phrases))
    if kind == "filter":
        return _with_options(_FILTER.get(f"{name}/{reason}", ""), options or {})
    return _explain_reader(reason) if kind == "reader" else ""


def describe_reason(made_from: Mapping[str, Any], step: str, reason: str) -> str:
    """Return a reason with its explanation, as far as it is known.

    Args:
        made_from: `made_from` of the corpus's manifest.
        step: the step.
        reason: its reason.
    """
    code, phrase = f"{step}/{reason}", explain(step, reason, step_options(made_from, step))
    return f"{phrase} ({code})" if phrase else code


def step_options(made_from: Mapping[str, Any], step: str) -> dict[str, list[Any]]:
    """Return the values of each option of a filter; several where the sources differ.

    Args:
        made_from: `made_from` of the corpus's manifest.
        step: the step, e.g. `filter.length`; others than filters have no options here.
    """
    kind, _, own = step.partition(".")
    found: dict[str, list[Any]] = {}
    for described in described_filters(made_from) if kind == "filter" else ():
        if filter_label(described) == own:
            for option, value in (*described["config"].items(), *_rule_phrases(described)):
                if value not in found.setdefault(option, []):
                    found[option].append(value)
    return found


def described_filters(made_from: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the description of each filter of each source, and of those by which the corpus was filtered again."""
    for read in (made_from["documents"], *made_from.get("filtered", ())):
        for source in read["sources"]:
            yield from source.get("filters", ())


def filter_label(described: Mapping[str, Any]) -> str:
    """Return the name under which a filter counts its rejects: that of its preset, if it is one."""
    return str(described["config"]["preset"] if described["name"] == "preset" else described["name"])


def _rule_phrases(described: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what each reason of a filter by thresholds means, as an option `reason REASON`."""
    compares = described["name"] in ("threshold", "line_threshold")
    rules: Sequence[Mapping[str, Any]] = [described["config"]] if compares else ()
    every = " of every line" if described["name"] == "line_threshold" else ""
    if described["name"] == "preset":
        from jprep.corpus.filters.presets.preset import load_preset

        with contextlib.suppress(ConfigError):  # a preset of another version of jprep
            rules = [msgspec.structs.asdict(rule) for rule in load_preset(described["config"]["preset"]).rules]
    words = {"min": "less than", "above": "at most", "max": "more than", "below": "at least"}
    for rule in rules:
        limits = [f"{word} {rule[key]:g}" for key, word in words.items() if rule[key] is not None]
        yield f"reason {rule['reason'] or rule['signal']}", f"`{rule['signal']}`{every} is {' or '.join(limits)}"


def _explain_reader(reason: str) -> str:
    if reason.startswith("namespace_"):
        number = reason.removeprefix("namespace_")
        return f"pages that are no articles: {_NAMESPACES.get(number, f'namespace {number}')}"
    if reason.startswith("model_"):
        return "pages whose content is not wikitext"
    if reason.startswith("record_"):
        return f"records of an archive that are no pages: {reason.removeprefix('record_')}"
    if reason.startswith("status_"):
        return f"pages that the server answered with status {reason.removeprefix('status_')}"
    if reason.startswith("invalid_"):
        return "bytes that do not decode"
    return _READER.get(reason, "")


def _with_options(phrase: str, options: Mapping[str, Sequence[Any]]) -> str:
    """Return a phrase with the values of the options, or with the name of one that is not known."""
    for name in [part.split("}")[0] for part in phrase.split("{")[1:]]:
        values = " or ".join(map(_shown, options.get(name, ())))
        phrase = phrase.replace(f"{{{name}}}", values or name)
    return phrase


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{100 * value:g} %" if value <= 1 else f"{value:g}"
