"""The `[corpus]` section of a recipe, and the steps that it names. `docs/recipes.md` documents every key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from jprep.config import ConfigSection, apply_overrides, parse_config
from jprep.errors import ConfigError
from jprep.io.safe_names import check_name, check_unique_names
from jprep.plugins import plugins
from jprep.plugins.files import PROVENANCE, find_by_hash

VERSION = 2
"""The version of new recipes. Raise it when a default changes, and add the earlier one to `_EARLIER_DEFAULTS`."""

DEFAULT_SEGMENTER = "pointwise"

_EARLIER_DEFAULTS: dict[int, dict[str, Any]] = {1: {"segmenter": "jumandic"}}
"""Defaults of `[corpus]` in recipes of earlier versions, where they differ from those of `CorpusConfig`."""

StepRef = str | dict[str, Any]
"""A step in a recipe: its name, or a table `{ use = NAME, option = value, … }`."""


class RemoteFile(ConfigSection, frozen=True):
    """A file that `jprep corpus fetch` downloads.

    Attributes:
        url: address of the file.
        checksums: address of the mirror's checksum file, or "".
        sha256: expected hash, or "".
        name: name of the downloaded file; by default the last part of the URL.
    """

    url: str
    checksums: str = ""
    sha256: str = ""
    name: str = ""


class Source(ConfigSection, frozen=True):
    """A source of documents.

    Attributes:
        name: name of the source; part of each document's `source` and `id`.
        paths: local paths, globs or URLs; `-` is standard input.
        reader: the reader and its options.
        licence: licence of the text, for the manifest of the corpus.
        homepage: web page of the source.
        files: files to download.
        filters: filters for this source; replaces the filters of the corpus.
        normalizers: normalizers for this source; replaces the normalizers of the corpus.
        as_is: keep the text of documents byte for byte, with blank lines: no normalizers, and no lines removed by
            `dedup.lines`. Filters still apply.
        shards: number of shards to read from the beginning of the source, where small shards are counted in groups of
            1 MiB; 0 reads all.
    """

    name: str
    paths: list[str]
    reader: StepRef
    licence: str = ""
    homepage: str = ""
    files: list[RemoteFile] = []
    filters: list[StepRef] | None = None
    normalizers: list[StepRef] | None = None
    as_is: bool = False
    shards: Annotated[int, msgspec.Meta(ge=0)] = 0


class DecontaminateConfig(ConfigSection, frozen=True):
    """A test set whose items may not be in the corpus. `docs/decontamination.md` has the rule.

    Attributes:
        name: name of the test set.
        paths: local paths, globs or URLs of its files.
        fields: the fields that make an item together, e.g. `question` and `answer`; a field may be a list of texts. An
            item without the first field is not looked for.
        id: field of an identifier for the reports; by default items are named by file and position.
        reader: the reader and its options; by default by the suffix: `jsonl`, `parquet`, `tsv` or `csv`, compressed or
            not.
        action: what happens to a document with an item: `drop` the document, or `cut` the sentences with the item.
    """

    name: str
    paths: list[str]
    fields: Annotated[list[str], msgspec.Meta(min_length=1)]
    id: str = ""
    reader: StepRef = ""
    action: Literal["drop", "cut"] = "drop"


class NearConfig(ConfigSection, frozen=True):
    """Deduplication of documents that are nearly the same, by MinHash signatures of character n-grams.

    Two documents are compared if all hashes of one band agree. With a share J of common n-grams, that happens with a
    probability of 1 - (1 - J ** rows) ** bands.

    Attributes:
        bands: number of bands.
        rows: hashes in a band.
        ngram: characters in an n-gram; spaces, punctuation, case and width do not count.
        keep: which document of a cluster stays: the `first` one, the `longest`, or the `best` one by `score`.
        score: a signal that the corpus keeps, or a field of `meta` with a number; the highest one is best, and of equal
            ones the first. A document without it is the worst.
        drop: whether the others are dropped; if not, all documents only name their cluster in `meta`.
    """

    bands: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 14
    rows: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 8
    ngram: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    keep: Literal["first", "longest", "best"] = "first"
    score: str = ""
    drop: bool = True


class FrequentConfig(ConfigSection, frozen=True):
    """Parts of documents that are dropped by how often they occur in the corpus.

    Attributes:
        min_chars: minimum length of the parts that are counted, in characters.
        max_count: a part that occurs more often is dropped.
        keep: how many of its occurrences stay, the first ones; 0 drops all.
    """

    min_chars: Annotated[int, msgspec.Meta(ge=1)] = 20
    max_count: Annotated[int, msgspec.Meta(ge=1)] = 1
    keep: Annotated[int, msgspec.Meta(ge=0)] = 1


class DedupConfig(ConfigSection, frozen=True):
    """Deduplication across the corpus. The first occurrence is kept that is in no document that `near` drops.

    Attributes:
        documents: drop documents with the same text as another document.
        lines: drop paragraphs that occur elsewhere.
        line_min_chars: minimum length of the paragraphs that `lines` compares, in characters.
        paragraphs: drop paragraphs that occur often, in place of `lines`; off without this table.
        sentences: drop sentences that occur often, in place of `lines` and `paragraphs`; off without this table.
        near: drop documents that are nearly the same as others; off without this table.
    """

    documents: bool = True
    lines: bool = False
    line_min_chars: int = 20
    paragraphs: FrequentConfig | None = None
    sentences: FrequentConfig | None = None
    near: NearConfig | None = None

    @property
    def exact_needs_near(self) -> bool:
        """Whether the first occurrence of a text may be in a document that `near` drops in favour of a later one."""
        if self.near is None or not self.near.drop:
            return False
        return bool(self.lines or self.paragraphs or self.sentences or (self.documents and self.near.keep != "first"))


class CorpusConfig(ConfigSection, frozen=True):
    """The `[corpus]` section. The steps are applied in the order of the fields.

    Attributes:
        sources: sources of documents.
        normalizers: normalizers, applied in order.
        splitter: finds sentence boundaries.
        filters: filters, applied in order; the first one that rejects a document is counted.
        signals: signals to keep as columns of the corpus.
        line_signals: signals to keep as columns with a value for each line.
        decontaminate: test sets whose items are removed from what the filters leave.
        dedup: deduplication.
        segmenter: finds word boundaries; by default `jumandic` in recipes of version 1.
    """

    sources: list[Source] = []
    normalizers: list[StepRef] = msgspec.field(default_factory=lambda: [{"use": "neologdn", "tilde": "ignore"}])
    splitter: StepRef = "rules"
    filters: list[StepRef] = []
    signals: list[StepRef] = []
    line_signals: list[StepRef] = []
    decontaminate: list[DecontaminateConfig] = []
    dedup: DedupConfig = DedupConfig()
    segmenter: StepRef = DEFAULT_SEGMENTER

    def filters_of(self, source: Source) -> list[StepRef]:
        """Return the filters of a source: its own, or else those of the corpus."""
        return self.filters if source.filters is None else source.filters

    def normalizers_of(self, source: Source) -> list[StepRef]:
        """Return the normalizers of a source: none for text as it is, its own, or else those of the corpus."""
        if source.as_is:
            return []
        return self.normalizers if source.normalizers is None else source.normalizers


class CorpusRecipe(ConfigSection, frozen=True):
    """A recipe as far as a corpus needs it; `jprep.pipeline.recipe.Recipe` has the other sections as well.

    Attributes:
        name: names the output directory; see `jprep.io.safe_names`.
        version: the format of the recipe; 2 is the newest. Defaults change only with it, so a recipe keeps its meaning.
        description: one line for readers.
        corpus: what is built; a recipe that only trains a tokenizer has none.
    """

    name: str
    version: int = 1
    description: str = ""
    corpus: CorpusConfig = CorpusConfig()


R = TypeVar("R", bound=CorpusRecipe)


def decode_recipe(
    raw: dict[str, Any],
    overrides: Iterable[str] | Mapping[str, Any] = (),
    *,
    where: str = "the recipe",
    kind: type[R] = CorpusRecipe,  # type: ignore[assignment]
) -> R:
    """Convert plain data to a recipe and check its names.

    Args:
        raw: the recipe as TOML gives it; overrides are applied to it in place.
        overrides: see `jprep.config.apply_overrides`.
        where: the file, for errors.
        kind: the type of the recipe.

    Raises:
        ConfigError: an unknown version or key, a value of the wrong type, a name that cannot name a folder, two sources
            of the same name.
    """
    raw = apply_overrides(raw, overrides)
    _check_version(raw.get("version", 1), where)
    recipe = parse_config(_with_earlier_defaults(raw), kind, where=where)
    check_name(recipe.name, what="a recipe (key `name`)", where=where, fix='it names a folder: e.g. name = "jawiki"')
    _check_sources(recipe.corpus.sources, where)
    test_sets = [each.name for each in recipe.corpus.decontaminate]
    check_unique_names(test_sets, what="test set", key="corpus.decontaminate", where=where)
    _check_dedup(recipe.corpus.dedup, where)
    return recipe


def _check_dedup(dedup: DedupConfig, where: str) -> None:
    if (near := dedup.near) and (near.keep == "best") != bool(near.score):
        fix = 'e.g. near = { keep = "best", score = "quality_score" }'
        raise ConfigError('keep = "best" and `score` need each other (key `corpus.dedup.near`)', where=where, fix=fix)
    if dedup.lines and dedup.paragraphs:
        fix = "leave out `lines`: paragraphs = {} does the same, and can allow some occurrences"
        raise ConfigError("`lines` and `paragraphs` both drop paragraphs (key `corpus.dedup`)", where=where, fix=fix)
    if dedup.sentences and (dedup.lines or dedup.paragraphs):
        what = "`sentences` drops what `lines` and `paragraphs` drop, in smaller parts (key `corpus.dedup`)"
        raise ConfigError(what, where=where, fix="leave out `lines` and `paragraphs`, or `sentences`")
    for unit, frequent in (("paragraph", dedup.paragraphs), ("sentence", dedup.sentences)):
        if frequent and frequent.keep > frequent.max_count:
            what = f"`keep` is more than `max_count` (key `corpus.dedup.{unit}s`)"
            raise ConfigError(what, where=where, fix=f"a {unit} up to `max_count` times in the corpus stays anyway")


def _check_version(version: object, where: str) -> None:
    if version not in range(1, VERSION + 1):
        fix = f"install a newer jprep, or set version = {VERSION}"
        what = f"this jprep reads recipes of version 1 to {VERSION}, got version {version!r}"
        raise ConfigError(what, where=where, fix=fix)


def _with_earlier_defaults(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe in which keys that its version gives a different default than today's have that default."""
    earlier, corpus = _EARLIER_DEFAULTS.get(raw.get("version", 1)), raw.get("corpus", {})
    return raw | {"corpus": earlier | corpus} if earlier and isinstance(corpus, dict) else raw


def _check_sources(sources: list[Source], where: str) -> None:
    if [path for source in sources for path in source.paths].count("-") > 1:
        raise ConfigError("standard input is named twice", where=where, fix="it can be read only once")
    check_unique_names([each.name for each in sources], what="source", key="corpus.sources", where=where)
    for source in sources:
        if source.as_is and source.normalizers:
            what = f"the source {source.name} is to keep its text as it is, and has normalizers"
            raise ConfigError(what, where=where, fix="remove `as_is` or `normalizers`")


_IMPLIED = {"preset": "preset", "signal": "threshold"}
"""Steps that need no `use`, by the option that implies them: `{ preset = "NAME" }`."""

_THRESHOLDS = {"document": "threshold", "line": "line_threshold"}
"""Filters by thresholds, by what is measured: `{ signal = "latin_share", max = 0.9, per = "line" }`."""


def step_name(ref: StepRef) -> str:
    """Return the name of the step that a reference names.

    Raises:
        ConfigError: the reference is a table without `use`, and no option implies the step.
    """
    if isinstance(ref, str):
        return ref
    implied = next((name for option, name in _IMPLIED.items() if option in ref), None)
    if implied == "threshold":
        implied = _THRESHOLDS.get(str(ref.get("per", "document")))
        if implied is None:
            raise ConfigError(f"{ref['per']!r} has no thresholds", where=repr(ref), fix='per = "line", or leave it out')
    if not isinstance(name := ref.get("use", implied), str):
        raise ConfigError("a step's table needs `use`", where=repr(ref), fix='{ use = "NAME", … }')
    return name


def step_options(ref: StepRef) -> dict[str, Any]:
    """Return the options of a reference, without what chooses the step."""
    if isinstance(ref, str):
        return {}
    chooses = {"per"} if "signal" in ref and "use" not in ref else {"use"}
    return {key: value for key, value in ref.items() if key not in chooses}


def make_step(kind: str, ref: StepRef) -> Any:
    """Construct the step that a reference names, with its options.

    Args:
        kind: kind of the step: `reader`, `normalizer`, `splitter`, `filter`, `signal` or `segmenter`.
        ref: name of the step, or a table with its name and options.

    Raises:
        ConfigError: unknown step or option.
        MachineError: a library or program that the step needs is not installed.
    """
    name = step_name(ref)
    cls = plugins().get(kind, name)
    return cls(parse_config(step_options(ref), cls.Config, where=f"{kind} {name!r}"))


def make_named_step(kind: str, name: str, overrides: Sequence[str]) -> Any:
    """Construct a step from a name and options in the form `KEY=VALUE`; see `make_step`."""
    return make_step(kind, apply_overrides({"use": name}, overrides))


def make_described_step(kind: str, described: Mapping[str, Any]) -> Any:
    """Construct the step that a manifest describes. Options that depend on the machine have their defaults.

    Args:
        kind: kind of the step.
        described: its name, version, config and provenance.

    Raises:
        ConfigError: unknown step or option, or a step from a file that no recipe of this process has named.
        MachineError: see `make_step`.
    """
    use, made_from = described["name"], described.get("provenance", {})
    if source_file := made_from.get(PROVENANCE):
        use = find_by_hash(source_file, made_from["class"])
        if use is None:
            what = f"the {kind} {described['name']} is a class of a file, whose place is not recorded"
            fix = "name the recipe that has the file in `use`; if the file has changed, restore it"
            raise ConfigError(what, fix=fix)
    return make_step(kind, {"use": use} | described["config"])


WEB_FILTERS: tuple[StepRef, ...] = ("length", "japanese", "symbols", "urls", "repeated_lines")
"""Filters that the default recipe applies to crawled text."""

_DEFAULT_LICENCES = {"wikipedia": "CC BY-SA 4.0", "cc100": "Common Crawl terms of use"}


def default_recipe(inputs: Mapping[str, Sequence[str]], segmenter: str = DEFAULT_SEGMENTER) -> CorpusRecipe:
    """Return the recipe that `jprep corpus build` uses if it is given inputs instead of a recipe.

    Args:
        inputs: paths by reader name (`wikipedia`, `cc100`, `text`, `jsonl`, `parquet`).
        segmenter: name of the segmenter.
    """
    sources = [
        Source(
            name=reader,
            paths=list(paths),
            reader=reader,
            licence=_DEFAULT_LICENCES.get(reader, ""),
            filters=list(WEB_FILTERS) if reader == "cc100" else None,
        )
        for reader, paths in inputs.items()
        if paths
    ]
    return CorpusRecipe(name="corpus", version=VERSION, corpus=CorpusConfig(sources=sources, segmenter=segmenter))
