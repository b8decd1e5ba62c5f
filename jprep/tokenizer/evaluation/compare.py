"""Library interface of `jprep tokenizer evaluate`: tokenizers and text by path, scores with signatures."""

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


def compare(paths: Sequence[Path], source: str, *, limit_mb: float = 20, segmenter: StepRef = "") -> list[Scores]:
    """Evaluate tokenizers on the same text.

    Text of a file is first normalized as each tokenizer's card says; text of a corpus is normalized already. External
    tokenizers are given the text unchanged.

    Args:
        paths: tokenizers, see `load_adapters`.
        source: a corpus directory, a text file, or "-".
        limit_mb: maximum MB of text; 0 uses all.
        segmenter: finds words, instead of those of the corpus.

    Returns:
        Scores of each tokenizer, in order, with signatures.

    Raises:
        ConfigError: a path is not usable.
        InputError: there is no text, or it is not UTF-8.
        MachineError: a step requires something that is not installed.
    """
    encoders, text = load_adapters(paths), open_text(source, limit_mb)
    with ExitStack() as stack:
        ready = [(encoder, preprocessing(encoder, text, segmenter, stack)) for encoder in encoders]
        scores = evaluate(ready, text)
    if not scores[0].paragraphs:
        raise InputError(
            "there is no text to evaluate on", where=source, fix="use a text or a corpus that is not empty"
        )
    word_segmenter = step_name(segmenter) if segmenter else ""
    known = text.has_words or bool(segmenter)
    scores = [each if known else msgspec.structs.replace(each, words=None, longest={}) for each in scores]
    return [msgspec.structs.replace(each, signature=signature(each, text, word_segmenter)) for each in scores]


def preprocessing(encoder: TokenizerAdapter, text: EvaluationText, segmenter: StepRef, stack: ExitStack) -> Preprocess:
    """Return what prepares paragraphs of a text for a tokenizer.

    Args:
        encoder: the tokenizer.
        text: the text.
        segmenter: finds words, instead of those of the text; "" for none.
        stack: closes the steps.

    Raises:
        ConfigError: the tokenizer needs words, and there is no segmenter.
        MachineError: a step requires something that is not installed.
    """
    refs = [] if text.normalized else encoder.normalizers
    normalizers = [make_step("normalizer", dict(ref)) for ref in refs]
    word_segmenter = segmenter or (encoder.segmenter if encoder.marked and not text.has_words else None)
    if encoder.marked and not (word_segmenter or text.has_words):
        fix = "use --segmenter with the tokenizer's segmenter, or a corpus with words"
        raise ConfigError("this tokenizer requires segmented text", where=encoder.name, fix=fix)
    words = make_step("segmenter", word_segmenter) if word_segmenter else None
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
    """Return one line to cite: what the scores depend on, followed by the main ones.

    Args:
        scores: scores of a tokenizer.
        text: the text.
        segmenter: segmenter of the words, if not the corpus's own.
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
