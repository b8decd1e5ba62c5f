"""Ask a language model for the quality of documents: sampled, cached, within a budget, resumable."""

from __future__ import annotations

import heapq
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import msgspec

from jprep.config import ConfigSection
from jprep.corpus.document import Document
from jprep.corpus.quality.judging.endpoint import Endpoint, EndpointOptions
from jprep.corpus.quality.judging.labels import (
    LOG,
    PATTERN,
    Label,
    LabelCard,
    LabelLog,
    document_hash,
    read_card,
    read_labels,
    seal_labels,
)
from jprep.engine.fingerprint import fingerprint, plain
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import QUALITY_LABELS
from jprep.errors import ConfigError, Interrupted

VERSION = 1
"""Increased when the same reply gives another score, or the same document another request."""

TEXT = "{text}"
NUMBER = r"-?\d+(?:\.\d+)?"
_HOPELESS = 20  # documents refused before the first reply: then it is the request that is refused


class JudgeConfig(ConfigSection, frozen=True):
    """What the labels depend on.

    Attributes:
        model: name of the model, as the endpoint knows it.
        prompt: the request; `{text}` stands for the document.
        pattern: regular expression of the score; its last match in the reply counts, or the match's first group.
        lowest: smallest valid score.
        highest: largest valid score.
        max_characters: characters of a document that are sent.
        reply_tokens: longest reply, in tokens.
    """

    model: str
    prompt: str
    pattern: str = NUMBER
    lowest: float = 0.0
    highest: float = 5.0
    max_characters: Annotated[int, msgspec.Meta(ge=1)] = 8000
    reply_tokens: Annotated[int, msgspec.Meta(ge=1)] = 512


class Budget(msgspec.Struct, frozen=True):
    """Limits; they do not enter the fingerprint.

    Attributes:
        sample: documents to label, drawn by a hash of their text.
        max_requests: maximum number of documents to send, over all runs; None means no limit.
        max_tokens: tokens after which no request is sent, over all runs; None means no limit.
        concurrency: requests at the same time.
    """

    sample: int = 1000
    max_requests: int | None = None
    max_tokens: int | None = None
    concurrency: int = 4


class JudgeResult(msgspec.Struct, frozen=True):
    """The labels after a run.

    Attributes:
        card: their manifest.
        asked: documents that this run asked about.
        missing: sampled documents without a label, because the budget is spent.
        retries: failed attempts of this run.
    """

    card: LabelCard
    asked: int
    missing: int
    retries: int


def judge(
    read: Callable[[], Iterator[Document]],
    config: JudgeConfig,
    budget: Budget,
    endpoint: EndpointOptions,
    folder: Path,
    *,
    rejects: Counter[str] | None = None,
    restart: bool = False,
    stopping: Callable[[], bool] = lambda: False,
) -> JudgeResult:
    """Label a sample of documents, or continue: no document is asked about twice.

    Args:
        read: yields the documents; called twice.
        config: model, prompt, and how scores are read.
        budget: limits.
        endpoint: where the model is.
        folder: output directory; new, empty, or with labels of the same model and prompt.
        rejects: what `read` has counted as rejected, by step and reason.
        restart: discard labels of another model or prompt.
        stopping: returns whether to stop.

    Raises:
        MismatchError: the directory holds labels of another model or prompt.
        ConfigError: the prompt, the pattern or the range is invalid, or the endpoint refuses requests or all documents.
        MachineError: the endpoint gives no answer for too long; finished replies are kept.
        Interrupted: `stopping` returned true; finished replies are kept.
    """
    _check(config)
    made_from = plain({"version": VERSION, "config": config})
    client = Endpoint(endpoint, stopping)
    out = OutputDirectory(folder, QUALITY_LABELS, files=(PATTERN,))
    with out.claim():
        if restart:
            out.restart()
        before = list[Label]()
        if out.finished:
            card = read_card(folder)
            out.verify(made_from, card.made_from, [(card.file, card.sha256)], "judge again with --restart")
            before = read_labels(folder)
        out.resume(made_from)
        log = LabelLog(out.state / LOG)
        try:
            run = _Run(read, config, budget, client, before, log, stopping)
            wanted = run.sample()
            rejected = dict(sorted((rejects or {}).items()))  # now, because the documents are read twice
            asked, missing = run.ask_all(wanted)
        finally:
            log.close()
        labels = {each.hash: each for each in (*log.labels, *before)}
        about = {"jprep": version("jprep"), "fingerprint": fingerprint(made_from)}
        card = seal_labels(out, labels.values(), made_from, about, rejected)
        out.clean()
    return JudgeResult(card, asked, missing, client.retries)


class _Run:
    def __init__(
        self,
        read: Callable[[], Iterator[Document]],
        config: JudgeConfig,
        budget: Budget,
        client: Endpoint,
        before: list[Label],
        log: LabelLog,
        stopping: Callable[[], bool],
    ) -> None:
        self._read, self._config, self._budget, self._client, self._log = read, config, budget, client, log
        self._stopping, self._failed, self._lock = stopping, False, threading.Lock()
        known = {each.hash: each for each in (*before, *log.labels)}  # after a kill between sealing and cleaning, equal
        self._known, self._tokens = set(known), sum(each.tokens for each in known.values())
        self._accepted_before = any(each.reply is not None for each in known.values())
        self._accepted, self._refused = False, list[Label]()

    def ask_all(self, wanted: set[str]) -> tuple[int, int]:
        """Ask about all sampled documents that the budget allows; return how many, and how many are left."""
        missing = wanted - self._known
        if self._budget.max_requests is not None:
            left = max(0, self._budget.max_requests - len(self._known))
            chosen = set(sorted(missing)[:left])
        else:
            chosen = set(missing)
        before = len(self._log.labels)
        with ThreadPoolExecutor(self._budget.concurrency) as pool:
            self._submit(pool, chosen)
        self._keep_refused()
        asked = len(self._log.labels) - before
        return asked, len(missing) - asked

    def sample(self) -> set[str]:
        """Return the smallest hashes of the documents; equal texts count once."""
        heap, held = list[int](), set[int]()
        for doc in self._read():
            self._check_stopping()
            found = int(document_hash(doc.text), 16) if doc.text.strip() else -1
            if found < 0 or found in held or (len(heap) >= self._budget.sample and -heap[0] <= found):
                continue
            heapq.heappush(heap, -found)
            held.add(found)
            if len(heap) > self._budget.sample:
                held.remove(-heapq.heappop(heap))
        return {f"{each:032x}" for each in held}

    def _submit(self, pool: ThreadPoolExecutor, chosen: set[str]) -> None:
        """Keep as many requests under way as allowed; after an error, keep the replies of the others."""
        running, documents = set[Future[None]](), self._documents(chosen)
        try:
            while True:
                while len(running) < self._budget.concurrency and (doc := next(documents, None)):
                    running.add(pool.submit(self._ask, doc))
                if not running:
                    break
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
        except BaseException:
            self._failed = True
            wait(running)
            raise
        self._check_stopping()

    def _documents(self, chosen: set[str]) -> Iterator[Document]:
        """Yield the chosen documents until there is a reason to stop; between two of them there may be millions."""
        for doc in self._read():
            if not chosen or self._failed or self._spent or self._stopping():
                return
            found = document_hash(doc.text)
            if found in chosen:
                chosen.discard(found)
                yield doc

    @property
    def _spent(self) -> bool:
        return self._budget.max_tokens is not None and self._tokens >= self._budget.max_tokens

    def _check_stopping(self) -> None:
        if self._stopping():
            raise Interrupted("interrupted; finished replies are kept")

    def _ask(self, doc: Document) -> None:
        """Ask about a document, and write the label at once: a reply may have cost money."""
        try:
            text = doc.text[: self._config.max_characters]
            answer = self._client.ask(request_body(self._config, text))
            score = None if answer.reply is None else read_score(answer.reply, self._config)
            tokens = answer.tokens or 0
            with self._lock:
                self._keep(Label(document_hash(doc.text), doc.id, score, answer.reply, tokens, text, answer.problem))
            if answer.tokens is None and self._budget.max_tokens is not None:
                fix = "use --max-requests instead; finished replies are kept"
                raise ConfigError("the endpoint does not count tokens", where="--max-tokens", fix=fix)
        except BaseException:
            self._failed = True
            raise

    def _keep(self, label: Label) -> None:
        """Write a label. Refusals wait for the first reply: until then the request itself may be what is refused."""
        if label.reply is None and not self._accepted:
            self._refused.append(label)
            if len(self._refused) >= _HOPELESS:
                raise self._hopeless()
            return
        self._accepted = True
        for each in (*self._refused, label):
            self._log.append(each)
            self._tokens += each.tokens
        self._refused.clear()

    def _keep_refused(self) -> None:
        """Write the refusals of a run without replies if earlier runs had some."""
        if self._refused and not self._accepted_before:
            raise self._hopeless()
        for label in self._refused:
            self._log.append(label)

    def _hopeless(self) -> ConfigError:
        what = f"the endpoint has refused all {len(self._refused)} documents so far: {self._refused[-1].problem}"
        fix = "use a server and a model that accept `seed`, `temperature` and `max_tokens`, or send fewer characters"
        return ConfigError(what, where="--endpoint", fix=fix)


def request_body(config: JudgeConfig, text: str) -> dict[str, Any]:
    """Return the request about a text."""
    content = config.prompt.replace(TEXT, text)
    message = {"role": "user", "content": content.encode("utf-8", "replace").decode()}
    return {
        "model": config.model,
        "messages": [message],
        "temperature": 0,
        "seed": 0,
        "max_tokens": config.reply_tokens,
    }


def read_score(reply: str, config: JudgeConfig) -> float | None:
    """Return the score in a reply; None if there is none, or it is out of range."""
    found = None
    for found in re.finditer(config.pattern, reply):  # noqa: B007 - the last one counts
        pass
    if found is None:
        return None
    try:
        score = float(found[1] if found.re.groups else found[0])
    except (TypeError, ValueError):
        return None
    return score if config.lowest <= score <= config.highest else None


def _check(config: JudgeConfig) -> None:
    if not (math.isfinite(config.lowest) and math.isfinite(config.highest) and config.lowest < config.highest):
        what = f"no score lies between {config.lowest:g} and {config.highest:g}"
        raise ConfigError(what, where="--range", fix="the lowest and the highest score, e.g. --range 0 5")
    if TEXT not in config.prompt:
        fix = f"write {TEXT} where the document belongs"
        raise ConfigError(f"the prompt does not contain {TEXT}", where="--prompt", fix=fix)
    try:
        re.compile(config.pattern)
    except re.error as error:
        raise ConfigError(
            f"not a regular expression: {error}", where="--pattern", fix="e.g. 'score: ([0-5])'"
        ) from error
