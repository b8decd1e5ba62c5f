"""Labels by a language model: retries, budgets, caching, and their use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from jprep.corpus.config import make_step
from jprep.corpus.document import Document
from jprep.corpus.quality.judging.endpoint import EndpointOptions, check_endpoint
from jprep.corpus.quality.judging.labels import Label, LabelLog, read_labels
from jprep.corpus.quality.judging.run import Budget, JudgeConfig, JudgeResult, judge, read_score
from jprep.corpus.quality.labelled import add_labels
from jprep.corpus.quality.training import TrainingInput
from jprep.corpus.signals.batch import TextBatch
from jprep.errors import ConfigError, DamagedError, Interrupted, MachineError, MismatchError
from tests.conftest import PATIENCE, digests
from tests.fakes.chat_server import ChatServer, Reply, chat_server, completion

DOCS = [Document(f"own:{number}", "own", "", "", f"文書{number}") for number in range(12)]
ALL = Budget()
CONFIG = JudgeConfig(model="tiny", prompt="採点：{text}")
SCORES = {f"採点：文書{number}": number % 6 for number in range(12)}


def good_answer(prompt: str, attempt: int) -> Reply:
    return completion(f"10点満点ではない。Score: {SCORES[prompt]}")


def run(
    server: ChatServer, folder: Path, budget: Budget = ALL, timeout_s: float = PATIENCE, **options: object
) -> JudgeResult:
    endpoint = EndpointOptions(server.url, "secret-key", timeout_s=timeout_s, retry_for_s=PATIENCE)
    config = msgspec.structs.replace(CONFIG, **{key: options.pop(key) for key in ("model",) if key in options})
    return judge(lambda: iter(DOCS), config, budget, endpoint, folder, **options)  # type: ignore[arg-type]


def failing_first(failure: Callable[[], Reply | None]) -> Callable[[str, int], Reply | None]:
    return lambda prompt, attempt: failure() if attempt == 1 and prompt.endswith("3") else good_answer(prompt, attempt)


TIMEOUT = 5.0
"""Seconds after which a request is given up that hangs: others take so long only if this process is suspended."""


def hang() -> None:
    time.sleep(TIMEOUT + 1)


FAILURES: dict[str, Callable[[], Reply | None]] = {
    "rate limit": lambda: (429, {"Retry-After": "1"}, b"slow down"),
    "server error": lambda: (500, {}, b"oops"),
    "not implemented": lambda: (501, {}, b""),
    "overloaded": lambda: (529, {}, b""),
    "closed": lambda: None,
    "hangs": hang,
    "garbage": lambda: (200, {}, b"\xff{not json"),
    "other json": lambda: (200, {}, b'{"choices": []}'),
    "cut off": lambda: (200, {}, b'{"choices": [{"message": {"content": "Sco'),
    "too long": lambda: (200, {}, b" " * (2 << 20)),
    "wrong date": lambda: (429, {"Retry-After": "Mon, 23 Nov 2026 07:00:00 GMT"}, b""),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_retried_and_do_not_change_the_labels(name: str, tmp_path: Path) -> None:
    with chat_server(good_answer) as server:
        run(server, tmp_path / "calm")
    with chat_server(failing_first(FAILURES[name])) as server:
        found = run(server, tmp_path / "rough", timeout_s=TIMEOUT if name == "hangs" else PATIENCE)
        assert found.retries == 1 and found.asked == 12 and server.prompts["採点：文書3"] == 2
    assert digests(tmp_path / "rough") == digests(tmp_path / "calm")
    assert {each.id: each.score for each in read_labels(tmp_path / "rough")} == {
        f"own:{number}": number % 6 for number in range(12)
    }


def test_no_document_is_asked_about_twice_and_a_larger_sample_continues(tmp_path: Path) -> None:
    with chat_server(good_answer) as server:
        first = run(server, tmp_path / "labels", Budget(sample=5, concurrency=2))
        assert first.asked == 5 and server.most <= 2
        again = run(server, tmp_path / "labels", Budget(sample=5))
        assert again.asked == 0 and again.card == first.card
        run(server, tmp_path / "labels", Budget(sample=100))
        assert set(server.prompts.values()) == {1} and len(server.prompts) == 12
        run(server, tmp_path / "whole")
    assert digests(tmp_path / "labels") == digests(tmp_path / "whole")


def test_another_model_is_refused_unless_restarted(tmp_path: Path) -> None:
    with chat_server(good_answer) as server:
        run(server, tmp_path / "labels")
        with pytest.raises(MismatchError):
            run(server, tmp_path / "labels", model="other")
        assert run(server, tmp_path / "labels", model="other", restart=True).asked == 12
        assert server.bodies[-1]["model"] == "other" and server.bodies[-1]["temperature"] == 0


def test_budgets_stop_and_can_be_raised(tmp_path: Path) -> None:
    with chat_server(good_answer) as server:
        found = run(server, tmp_path / "labels", Budget(max_requests=4))
        assert (found.asked, found.missing) == (4, 8) and server.prompts.total() == 4
        assert run(server, tmp_path / "labels", Budget(max_requests=4)).asked == 0
        assert run(server, tmp_path / "labels", Budget(max_tokens=65, concurrency=1)).asked == 3  # at 40 of 65 tokens
        assert run(server, tmp_path / "labels").missing == 0
        assert server.prompts.total() == 12


def test_a_dead_server_is_given_up_and_replies_are_kept(tmp_path: Path) -> None:
    def answer(prompt: str, attempt: int) -> Reply | None:
        return None if prompt.endswith("7") else good_answer(prompt, attempt)

    with chat_server(answer) as server:
        endpoint = EndpointOptions(server.url, timeout_s=PATIENCE, retry_for_s=0.2)
        with pytest.raises(MachineError, match="no usable answer"):
            judge(lambda: iter(DOCS), CONFIG, Budget(concurrency=1), endpoint, tmp_path / "labels")
    with chat_server(good_answer) as server:
        assert run(server, tmp_path / "labels").asked == 12 - 7
        assert "採点：文書0" not in server.prompts


def test_a_page_instead_of_a_reply_is_shown_without_the_key(tmp_path: Path) -> None:
    page = "<html>ログイン secret-key \x1b[2J</html>" + " " * 5000
    with chat_server(lambda prompt, attempt: (200, {}, page.encode())) as server:
        endpoint = EndpointOptions(server.url, "secret-key", timeout_s=PATIENCE, retry_for_s=0.2)
        with pytest.raises(MachineError, match="ログイン") as error:
            judge(lambda: iter(DOCS), CONFIG, Budget(), endpoint, tmp_path / "labels")
    assert "secret-key" not in str(error.value) and "\x1b" not in str(error.value) and len(str(error.value)) < 1500
    assert "--retry-for" in error.value.fix


@pytest.mark.parametrize("status", [301, 401, 403, 404])
def test_a_refusal_ends_the_run_and_does_not_show_the_key(status: int, tmp_path: Path) -> None:
    headers = {"Location": "http://127.0.0.1:9/"} if status == 301 else {}
    with chat_server(lambda prompt, attempt: (status, headers, b"bad key secret-key \x1b[2J")) as server:
        with pytest.raises(ConfigError) as error:
            run(server, tmp_path / "labels")
        assert server.keys[0] == "Bearer secret-key" and len(server.keys) <= 4
    assert str(status) in str(error.value) and "secret-key" not in str(error.value) and "\x1b" not in str(error.value)
    assert not (tmp_path / "labels").exists()


def test_the_key_is_not_stored(tmp_path: Path) -> None:
    with chat_server(good_answer) as server:
        run(server, tmp_path / "labels")
    assert all(b"secret" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("key", ["sk-1\n", "sk 1", "sk-鍵", "sk-\x7f"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="API key") as error:
        judge(lambda: iter(DOCS), CONFIG, ALL, EndpointOptions("http://127.0.0.1:9/v1", key), tmp_path / "labels")
    assert "sk" not in str(error.value) and not (tmp_path / "labels").exists()


def test_replies_without_a_score_and_refused_documents_are_counted(tmp_path: Path) -> None:
    def answer(prompt: str, attempt: int) -> Reply:
        if prompt.endswith("4"):
            return 400, {}, b"too long"
        return completion("no idea" if prompt.endswith("5") else "Score: 9" if prompt.endswith("6") else "Score: 2")

    with chat_server(answer) as server:
        found = run(server, tmp_path / "labels")
        assert found.card.counts == {"labels": 12, "without_score": 3, "tokens": 110}
        assert run(server, tmp_path / "labels").asked == 0


@pytest.mark.parametrize("count", [12, 500])
def test_a_server_that_refuses_all_documents_is_an_error_and_labels_none(count: int, tmp_path: Path) -> None:
    docs = [Document(str(number), "own", "", "", f"文書{number}") for number in range(count)]
    refusal = (400, {}, b"`seed` is not supported \x1b[2J secret-key")
    with chat_server(lambda prompt, attempt: refusal) as server:
        endpoint = EndpointOptions(server.url, "secret-key")
        with pytest.raises(ConfigError, match="`seed` is not supported") as error:
            judge(lambda: iter(docs), CONFIG, Budget(), endpoint, tmp_path / "labels")
        assert "\x1b" not in str(error.value) and "secret-key" not in str(error.value)
        assert len(server.bodies) < 40
    assert not (tmp_path / "labels").exists()


def test_refused_documents_are_kept_once_the_endpoint_has_replied_and_say_why(tmp_path: Path) -> None:
    def answer(prompt: str, attempt: int) -> Reply:
        return good_answer(prompt, attempt) if prompt.endswith("3") else (413, {}, b"too long \x1b")

    with chat_server(answer) as server:
        assert run(server, tmp_path / "labels", Budget(concurrency=1)).card.counts["without_score"] == 11
        labels = {each.id: each for each in read_labels(tmp_path / "labels")}
        assert labels["own:3"].problem == "" and labels["own:3"].score == 3
        assert labels["own:0"].problem == r"HTTP status 413: too long \x1b"
        assert set(server.prompts.values()) == {1}


def test_the_last_refused_documents_are_labels_if_an_earlier_run_had_replies(tmp_path: Path) -> None:
    with chat_server(good_answer) as server:
        run(server, tmp_path / "labels", Budget(max_requests=10))
    with chat_server(lambda prompt, attempt: (400, {}, b"too long")) as server:
        assert run(server, tmp_path / "labels").card.counts == {"labels": 12, "without_score": 2, "tokens": 100}


def test_a_reply_is_on_the_disk_while_the_next_documents_are_sought(tmp_path: Path) -> None:
    passes = list[int]()

    def read() -> Iterator[Document]:
        passes.append(len(passes))
        yield DOCS[0]
        deadline = time.monotonic() + PATIENCE
        while passes[-1] == 1 and not list(tmp_path.rglob("replies")) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert passes[-1] == 0 or list(tmp_path.rglob("replies"))
        yield from DOCS[1:]

    with chat_server(good_answer) as server:
        judge(read, CONFIG, ALL, EndpointOptions(server.url), tmp_path / "labels")


def test_documents_behind_the_last_chosen_one_are_not_read_again(tmp_path: Path) -> None:
    seen = list[str]()

    def read() -> Iterator[Document]:
        for doc in DOCS:
            seen.append(doc.id)
            yield doc

    with chat_server(good_answer) as server:
        judge(read, CONFIG, Budget(sample=1), EndpointOptions(server.url), tmp_path / "labels")
        asked = next(iter(server.prompts)).removeprefix("採点：文書")
    assert len(seen) <= 12 + int(asked) + 2


@pytest.mark.parametrize("after", [5, 15])
def test_an_interrupt_is_noticed_while_documents_are_read(after: int, tmp_path: Path) -> None:
    seen = list[str]()

    def read() -> Iterator[Document]:
        for doc in DOCS:
            seen.append(doc.id)
            yield doc

    with chat_server(good_answer) as server, pytest.raises(Interrupted):
        endpoint = EndpointOptions(server.url)
        judge(read, CONFIG, ALL, endpoint, tmp_path / "labels", stopping=lambda: len(seen) >= after)
    assert len(seen) == after


def test_labels_that_were_sealed_but_not_cleaned_up_count_once(tmp_path: Path) -> None:
    with chat_server(good_answer) as server:
        run(server, tmp_path / "labels", Budget(max_requests=4))
        log = LabelLog(tmp_path / "labels" / ".jprep" / "replies")
        for label in read_labels(tmp_path / "labels"):
            log.append(label)
        log.close()
        assert run(server, tmp_path / "labels", Budget(max_tokens=65, concurrency=1)).asked == 3


def test_a_limit_of_tokens_needs_a_server_that_counts_them(tmp_path: Path) -> None:
    with chat_server(lambda prompt, attempt: completion("3", None)) as server:
        with pytest.raises(ConfigError, match="does not count tokens"):
            run(server, tmp_path / "labels", Budget(max_tokens=100, concurrency=1))
        assert len(server.bodies) == 1
        assert run(server, tmp_path / "labels").card.counts == {"labels": 12, "without_score": 0, "tokens": 0}
        assert set(server.prompts.values()) == {1}


def test_an_interrupted_run_resumes(tmp_path: Path) -> None:
    with chat_server(good_answer) as server:
        with pytest.raises(Interrupted):
            run(server, tmp_path / "labels", Budget(concurrency=1), stopping=lambda: server.prompts.total() >= 3)
        assert run(server, tmp_path / "labels").card.counts["labels"] == 12
        assert set(server.prompts.values()) == {1}


def test_a_torn_line_is_dropped_and_a_damaged_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "replies"
    log = LabelLog(path)
    for number in range(3):
        log.append(Label(f"{number:032x}", str(number), 1.0, "1", 1, "文"))
    log.close()
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    log = LabelLog(path)
    assert [each.id for each in log.labels] == ["0", "1"]
    log.append(Label(f"{2:032x}", "2", 1.0, "1", 1, "文"))
    log.close()
    assert path.read_bytes() == data
    path.write_bytes(data.replace(b'"score":1.0', b'"score":2.0', 1))
    with pytest.raises(DamagedError):
        LabelLog(path)


def test_labels_are_a_signal_and_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with chat_server(good_answer) as server:
        run(server, tmp_path / "labels", Budget(sample=6))
    labels = read_labels(tmp_path / "labels")
    signal = make_step("signal", {"use": "judge", "labels": str(tmp_path / "labels")})
    values = signal.measure(TextBatch(DOCS))["judge_score"]
    assert {doc.id: value for doc, value in zip(DOCS, values, strict=True) if not np.isnan(value)} == {
        each.id: each.score for each in labels
    }
    assert len(signal.provenance()["labels"]) == 64
    monkeypatch.setenv("HOME", str(tmp_path))
    assert make_step("signal", {"use": "judge", "labels": "~/labels"}).provenance() == signal.provenance()
    empty = TrainingInput([], lambda: iter(()))
    good, bad = add_labels((empty, empty), tmp_path / "labels", 3)
    assert {doc.id for doc in good.read()} == {each.id for each in labels if (each.score or 0) >= 3}
    assert len(list(good.read())) + len(list(bad.read())) == 6


@pytest.mark.parametrize(
    ("reply", "score"),
    [("3", 3.0), ("満点5のうち 2.5", 2.5), ("-1", None), ("6", None), ("点", None), ("", None), ("9" * 400, None)],
)
def test_the_last_number_in_range_is_the_score(reply: str, score: float | None) -> None:
    assert read_score(reply, CONFIG) == score


def test_patterns_and_prompts_are_checked(tmp_path: Path) -> None:
    config = JudgeConfig(model="m", prompt="{text}", pattern=r"点数[:：](\d)?")
    assert read_score("点数：4 (5段階)", config) == 4 and read_score("点数：", config) is None
    endpoint = EndpointOptions("http://127.0.0.1:9/v1")
    for wrong in (JudgeConfig(model="m", prompt="no place"), JudgeConfig(model="m", prompt="{text}", pattern="(")):
        with pytest.raises(ConfigError):
            judge(lambda: iter(DOCS), wrong, Budget(), endpoint, tmp_path / "labels")
    for low, high in ((5, 0), (1, 1), (float("nan"), 5), (0, float("inf"))):
        with pytest.raises(ConfigError, match="no score lies"):
            limits = JudgeConfig(model="m", prompt="{text}", lowest=low, highest=high)
            judge(lambda: iter(DOCS), limits, Budget(), endpoint, tmp_path / "labels")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "localhost:8000",
        "http://user:pass@host/v1",
        "http://",
        "http://[::1/v1",
        "http://host:80a/v1",
        "http://例え.jp/v1",
        "http://host/v 1",
        "http://host/v1?key=1",
        "http://host:99999/v1",
    ],
)
def test_addresses_are_checked(url: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_endpoint(url)
    assert "pass" not in str(error.value).replace("password", "") and error.value.where == "--endpoint"


def test_addresses_of_servers_are_accepted() -> None:
    for url in ("http://localhost:8000/v1", "https://api.example.com/v1/", "http://[::1]:8000/v1"):
        check_endpoint(url)
