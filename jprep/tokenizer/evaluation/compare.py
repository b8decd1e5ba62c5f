"""`jprep tokenizer evaluate` as a library has it: tokenizers by path, a text by path, scores with signatures."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import msgspec

from jprep.corpus.config import StepRef, make_step, step_name
from jprep.corpus.document import SENTENCE, WORD, Document
from jprep.corpus.processing import segment_documents
from jprep.errors import ConfigError, InputError
from jprep.tokenizer.evaluation.adapter import TokenizerAdapter
from jprep.tokenizer.evaluation.evaluate import Preprocess, evaluate
from jprep.tokenizer.evaluation.input_text import EvaluationText, open_text
from jprep.tokenizer.evaluation.loading import load_adapters
from jprep.tokenizer.evaluation.scores import Scores


def compare(paths: Sequence[Path], place: str, *, limit_mb: float = 20, segmenter: StepRef = "") -> list[Scores]:
    """Hold tokenizers against one text.

    Text of a file is normalised first as each tokenizer's card says; a corpus's text is normalised already. Other
    people's tokenizers get text as it is.

    Args:
        paths: tokenizers, see `load_adapters`.
        place: a corpus's folder, a text file, or "-".
        limit_mb: MB of text to measure at most; 0 takes all.
        segmenter: finds words, in place of the corpus's own.

    Returns:
        the scores of each, in order, with signatures.

    Raises:
        ConfigError: a path leads to nothing usable.
        InputError: there is no text, or it is not UTF-8.
        MachineError: a step needs what is not installed.
    """
    encoders, text = load_adapters(paths), open_text(place, limit_mb)
    with ExitStack() as stack:
        ready = [(encoder, _preparing(encoder, text, segmenter, stack)) for encoder in encoders]
        scores = evaluate(ready, text)
    if not scores[0].paragraphs:
        raise InputError("there is no text to measure on", where=place, fix="give a text or a corpus that has some")
    finder = step_name(segmenter) if segmenter else ""
    known = text.has_words or bool(segmenter)
    scores = [each if known else msgspec.structs.replace(each, words=None, longest={}) for each in scores]
    return [msgspec.structs.replace(each, signature=signature(each, text, finder)) for each in scores]


def _preparing(encoder: TokenizerAdapter, text: EvaluationText, segmenter: StepRef, stack: ExitStack) -> Preprocess:
    refs = [] if text.normalized else encoder.normalizers
    normalizers = [make_step("normalizer", dict(ref)) for ref in refs]
    finder = segmenter or (encoder.segmenter if encoder.marked and not text.has_words else None)
    if encoder.marked and not (finder or text.has_words):
        fix = "give the --segmenter that its words come from, or a corpus with words"
        raise ConfigError("this tokenizer takes segmented text only", where=encoder.name, fix=fix)
    words = make_step("segmenter", finder) if finder else None
    splitter = make_step("splitter", encoder.splitter or "rules")
    for step in [*normalizers, *([words] if words else [])]:
        stack.callback(step.close)

    def prepare(paragraphs: list[str]) -> list[str]:
        lines = "\n".join(paragraphs)
        for normalizer in normalizers:
            lines = normalizer.apply(lines)
        if words:
            lines = lines.replace(WORD, "")
            document = Document("", "", "", "", lines, splitter.mark(lines))
            segment_documents([document], words)
            lines = document.words.replace(SENTENCE, WORD)
        return lines.split("\n")

    return prepare


def signature(scores: Scores, text: EvaluationText, segmenter: str = "") -> str:
    """One line to cite: what the figures depend on, then the chief ones.

    Args:
        scores: of one tokenizer.
        text: what it was held against.
        segmenter: what found the words, where it was not the corpus's own.
    """
    kind = "corpus" if text.identity else "text"
    fields = {
        "jprep": version("jprep"),
        "tokenizer": f"{scores.tokenizer}@{scores.identity}",
        "model": scores.model,
        "vocab": str(scores.vocab_size),
        **scores.traits,
        kind: f"{text.name}@{text.identity or text.digest}",
        "sample": f"1/{text.stride}@{text.digest}",
        **({"segmenter": segmenter} if segmenter else {}),
        "paragraphs": str(scores.paragraphs),
        "lossless": f"{scores.lossless_rate:.4f}",
        **({"recall": f"{scores.words.recall:.4f}"} if scores.words else {}),
        "chars/token": f"{scores.characters_per_token:.3f}",
    }
    return "|".join(f"{name}:{value.replace('|', '_')}" for name, value in fields.items())
