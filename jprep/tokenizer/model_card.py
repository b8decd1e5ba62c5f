"""The README of a tokenizer directory, generated from `card.json`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from jprep.tokenizer.card import TokenizerCard
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.special_tokens import special_tokens

README = "README.md"

_HUB = re.compile(r"(apache|mit|cc0|cc-by|cc-by-sa|cc-by-nc|cc-by-nc-sa|odc-by|odbl)(-\d\.\d)?")
"""Licences with an identifier on model hubs."""

_SHOWN = 8  # special tokens

_BOUNDARIES = {
    "train": "Words guided its vocabulary; raw text is all it needs at use.",
    "super": "Its pieces are parts of words, words, and sequences of whole words; raw text is all it needs at use.",
    "hard": "Its pieces never cross a word: what it is given must be segmented, words separated by U+001F.",
    "spaces": "It takes text with spaces between words, which its pieces never cross.",
    "bert": "It finds words in raw text as BERT does: at spaces and punctuation.",
    "none": "It was trained without looking at words; raw text is all it needs.",
}
_LOSSES = {
    "bpe": "Decoding gives back any text but U+2581 (▁), which becomes a space.",
    "unigram": "Decoding gives back any text but U+2581 (▁), which becomes a space.",
    "byte-bpe": "Decoding gives back any text.",
    "wordpiece": "A character outside its alphabet becomes the unknown token; U+2581 (▁) comes back as a space and"
    " U+2424 (␤) as a newline.",
    "words": "Words outside its vocabulary become the unknown token; decoding puts one space between two words.",
}

_NEWLINES = {"token": "", "space": " A newline comes back as a space."}


def model_card(card: TokenizerCard) -> str:
    """Return the README of a tokenizer directory as Markdown, with the front matter that model hubs read."""
    return "\n".join(_lines(card)) + "\n"


def _lines(card: TokenizerCard) -> Iterator[str]:
    config = card.config
    yield from ("---", "language: ja", "tags: [tokenizer, japanese, jprep]", "---", "", f"# {card.name}", "")
    yield from _kind(card)
    yield from ("```python", "from transformers import AutoTokenizer", "")
    yield from ('tokenizer = AutoTokenizer.from_pretrained(".")  # this folder', "```", "")
    if not config.extended:
        yield from _normalizing(card)
    yield from table("Settings", _settings_of_extension(config) if config.extended else _settings(card))
    yield from table("Figures, on a sample of the corpus that it was trained on", card.figures)
    yield from table("Counted while training", card.counts)
    yield from _sources(card)
    yield from ("## Provenance", "", f"`{card.signature}`", "")
    yield "`card.json` holds the corpus's fingerprint, all settings and the versions of the libraries that learnt it."


def _kind(card: TokenizerCard) -> Iterator[str]:
    config, size = card.config, card.counts.get("vocabulary.size", card.config.vocab_size)
    if config.extended:
        old = card.counts["ids.old"]
        yield from (
            f"The tokenizer {config.extended} of {old:,} ids with {size - old:,} more; old ids are unchanged.",
            "",
        )
        return
    yield f"A {config.model} tokenizer for Japanese, {size:,} ids. {_BOUNDARIES[config.boundaries]}"
    yield from (_losses(config), "")


def _settings_of_extension(config: TokenizerConfig) -> dict[str, object]:
    keys = ("extends", "model", "vocab_size", "alphabet", "boundaries", "max_words", "max_piece_chars")
    return {key: getattr(config, key) for key in keys}


def _losses(config: TokenizerConfig) -> str:
    """Return what decoding does not restore."""
    if config.boundaries == "bert":
        unknown = "A word with a character outside its alphabet becomes the unknown token"
        return f"{unknown}; decoding puts a space between two words."
    return _LOSSES[config.model] + ("" if config.whole_words else _NEWLINES[config.newline])


def _settings(card: TokenizerCard) -> dict[str, object]:
    """Return the effective config, with defaults filled in."""
    config, special = card.config, special_tokens(card.config)
    given = {key: getattr(config, key) for key in config.__struct_fields__ if key != "normalizers"}
    given = {key: value for key, value in given.items() if value is not msgspec.UNSET} | _lists(config)
    shown = " ".join((*special.tokens[:_SHOWN], "…") if len(special.tokens) > _SHOWN else special.tokens)
    return given | {
        "alphabet": card.counts.get("characters.in_alphabet", config.alphabet),
        "special": f"`{shown}`",
        "model_max_length": config.model_max_length or special.max_length,
    }


def _lists(config: TokenizerConfig) -> dict[str, object]:
    """Return keys with lists as a reader wants to see them."""
    found: dict[str, object] = {}
    if config.source_list:
        found["sources"] = ", ".join(f"{source.name}: {source.weight:g}" for source in config.source_list)
    if config.required_list:
        found["required"] = f"{len(config.required_list):,} pieces"
    return found


def _normalizing(card: TokenizerCard) -> Iterator[str]:
    names = ", ".join(f"`{step['name']}`" for step in card.normalizers)
    # Spelt as in the first release: a repeated training writes the same bytes.
    done = f"Text is normalised as its corpus was, by {names}" if names else "Text is not normalised"
    raw = "" if card.config.boundaries in ("hard", "spaces") else "; nothing has to be done to raw text beforehand"
    yield from (f"{done}{raw}.", "")


def table(title: str, rows: Mapping[str, object]) -> Iterator[str]:
    """Yield a heading and a table of two columns in Markdown; nothing for an empty table."""
    if rows:
        yield from (f"## {title}", "", "| | |", "|---|---|")
        yield from (f"| {name} | {_cell(value)} |" for name, value in rows.items())
        yield ""


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")


def source_list(sources: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a Markdown list of a corpus's sources with their licences."""
    for source in sources:
        where = f" ({source['homepage']})" if source["homepage"] else ""
        yield f"- {source['name']}{where}: {source['licence'] or 'its licence is not stated in the recipe'}"


def licence_identifiers(sources: Iterable[Mapping[str, Any]]) -> str:
    """Return the licences of sources by their identifiers on model hubs, as YAML."""
    slugs = {re.sub(r"[^a-z0-9.]+", "-", source["licence"].lower()).strip("-") for source in sources}
    named = sorted({slug if _HUB.fullmatch(slug) else "other" if slug else "unknown" for slug in slugs})
    return (named[0] if len(named) == 1 else f"[{', '.join(named)}]") if named else "unknown"


def _sources(card: TokenizerCard) -> Iterator[str]:
    yield from ("## What it was trained on, and its licences", "", *source_list(card.sources))
    if not card.sources:
        yield "- a file of word counts; where they come from, and under which licence, is not known here"
    yield from (
        "",
        "A vocabulary holds words of its texts, not the texts. Whether their licences bind it is for its users",
        "to judge.",
        "",
    )
