"""Conversations: labels are the answers, documents the conversations, and special tokens come from the template."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.config import make_step
from jprep.corpus.step import describe_step
from jprep.dataset.conversations.config import SftConfig, describe_counts
from jprep.dataset.conversations.encoding import ChatEncoder, Conversations
from jprep.dataset.conversations.example import example_of
from jprep.dataset.conversations.reader import Conversation, read_conversations
from jprep.dataset.conversations.sampler import ConversationSampler
from jprep.errors import ConfigError, InputError
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.tokenizer import Tokenizer
from tests.unit.tokenizer.vocabularies import finished, small

CHAT = ["<|im_start|>", "<|im_end|>"]
TURNS = [{"role": "user", "content": "a"}]
FRAGMENTS = ["<|im_start|>", "<|im_end|>", "<|", "|>", "im_end", "<|endoftext|>", "endo", "text", "user", "\n", " ",
             "東京", "\U000f0000", "{{ eos_token }}", "<s>"]  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "byte-bpe": {"special": ["gpt", *CHAT]}, "bpe": {"special": ["roberta"], "reserved": 2},
    "unigram": {"special": ["sentencepiece"]}, "wordpiece": {"special": ["bert", *CHAT]},
}  # fmt: skip

NEOLOGDN = [describe_step(make_step("normalizer", "neologdn"))]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: finished(tmp_path_factory.mktemp(kind), small(kind, **options)) for kind, options in KINDS.items()}


@pytest.fixture(scope="module")
def tokenizer(folders: dict[str, Path]) -> Tokenizer:
    return load_tokenizer(folders["byte-bpe"])


def conversation(*texts: str, system: str = "") -> Conversation:
    turns = [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]
    return Conversation([{"role": "system", "content": system}, *turns] if system else turns, "here")


def pieces(data: Conversations) -> list[tuple[list[int], list[bool]]]:
    bounds = pairwise(data.offsets.tolist())
    return [(data.ids[start:stop].tolist(), data.answers[start:stop].tolist()) for start, stop in bounds]


turns = st.lists(st.lists(st.sampled_from(FRAGMENTS), max_size=5).map("".join), min_size=2, max_size=6)


@settings(max_examples=60, deadline=None)
@given(texts=turns)
def test_labels_are_the_answers_and_their_ends(tokenizer: Tokenizer, texts: list[str]):
    encoder = ChatEncoder(tokenizer)
    data = encoder.encode([conversation(*texts, system="あ")], 10_000)
    answers = texts[1::2]
    assert tokenizer.decode(data.ids[data.answers]) == "".join(f"{each.strip()}<|im_end|>" for each in answers)
    assert data.counts["answers"] == len(answers)
    assert data.counts["trailing"] == len(texts) % 2
    assert (data.ids[data.answers] == encoder.end).sum() == len(answers)


@settings(max_examples=60, deadline=None)
@given(texts=turns)
def test_no_text_becomes_a_special_token(tokenizer: Tokenizer, texts: list[str]):
    texts = texts[: len(texts) // 2 * 2]
    encoder, special = ChatEncoder(tokenizer), [tokenizer.id_of(token) for token in tokenizer.special.tokens]
    found = encoder.encode([conversation(*texts)], 10_000).ids
    plain = encoder.encode([conversation(*["東"] * len(texts))], 10_000).ids
    assert found[np.isin(found, special)].tolist() == plain[np.isin(plain, special)].tolist()
    whole = "".join(
        f"<|im_start|>{('user', 'assistant')[number % 2]}\n{text.strip()}<|im_end|>\n"
        for number, text in enumerate(texts)
    )
    assert tokenizer.decode(found) == whole.removesuffix("\n")


@pytest.mark.parametrize("text", ["<|im_end|>", "im_end|>", "|>"])
def test_the_template_cannot_complete_a_special_token(tokenizer: Tokenizer, text: str):
    source = "{% for m in messages %}{{ m['role'] }}:<|{{ m['content'] }}{{ eos_token }}{% endfor %}"
    source += "{% if add_generation_prompt %}assistant:<|{% endif %}"
    encoder = ChatEncoder(tokenizer, source)
    found = encoder.encode([conversation(text, text)], 1000)
    assert tokenizer.id_of("<|im_end|>") not in found.ids.tolist()
    assert tokenizer.decode(found.ids) == f"user:<|{text}<|endoftext|>assistant:<|{text}<|endoftext|>"


@pytest.mark.parametrize("start", [" [INST] ", "\u3000", "\u3000[", "\n ", "  "])
@pytest.mark.parametrize("kind", KINDS)
def test_white_space_behind_a_special_token_has_the_ids_of_the_exported_tokenizer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, start: str
):
    folder = finished(tmp_path, small(kind, **KINDS[kind]), NEOLOGDN)
    tokenizer = load_tokenizer(folder)
    end = tokenizer.special.eos or tokenizer.special.sep
    encoder = ChatEncoder(tokenizer, f"{{% for m in messages %}}{end}{start}{{{{ m.content }}}} {end}{{% endfor %}}")
    served = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    messages = conversation("hello 東京", "日本語").messages
    text = encoder.template.render(messages, "here", prompt=False)
    row = encoder.encode([Conversation(messages, "here")], 1000).ids.tolist()
    assert row == served.encode(text, add_special_tokens=False).ids
    assert not caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_have_the_ids_of_the_exported_tokenizer(folders: dict[str, Path], kind: str):
    encoder = ChatEncoder(load_tokenizer(folders[kind]))
    served = tokenizers.Tokenizer.from_file(str(folders[kind] / "tokenizer.json"))
    messages = conversation(
        "東京都の ゲーム は\n\n2020年", "はい。 the code", " 日本語です\n", system="Hello, world"
    ).messages
    text = encoder.template.render(messages, "here", prompt=True)
    assert encoder.encode_prompt(messages) == served.encode(text, add_special_tokens=False).ids
    first = encoder.encode([Conversation(messages, "here")], 1000)
    begun = encoder.encode_prompt(messages[:2])
    assert first.ids[: len(begun)].tolist() == begun
    assert not first.answers[: len(begun)].any()
    assert first.answers[len(begun) :].all()


def test_long_conversations_are_cut_behind_an_answer_and_others_dropped(tokenizer: Tokenizer):
    encoder, long = ChatEncoder(tokenizer), "日本" * 40
    whole = encoder.encode([conversation("東", "京", "都", "の")], 10_000)
    room = len(whole.ids)
    given = [
        conversation("東", "京", "都", "の"), conversation("東", "京", "都", long), conversation("東", long),
        conversation("東"), conversation("東", "京", "都"), conversation("東", long, "都"),
    ]  # fmt: skip
    data = encoder.encode(given, room)
    counts = {"conversations": 6, "cut": 1, "too_long": 2, "unanswered": 1, "trailing": 1, "answers": 4, "empty": 0}
    assert {name: data.counts[name] for name in counts} == counts
    ids = [each for each, _ in pieces(data)]
    assert ids[0] == whole.ids.tolist()
    assert ids[1] == ids[2] == whole.ids[: len(ids[1])].tolist()
    assert tokenizer.decode(ids[1]).endswith("京<|im_end|>")


def test_answers_without_text_are_counted(tokenizer: Tokenizer):
    given = [conversation("東", "京", "都", ""), conversation("東", " \n"), conversation("東", "京")]
    data = ChatEncoder(tokenizer).encode(given, 10_000)
    assert (data.counts["answers"], data.counts["empty"]) == (4, 2)
    assert "with 4 answers, 2 of them empty" in describe_counts(data.counts)
    assert "empty" not in describe_counts({name: count for name, count in data.counts.items() if name != "empty"})


def test_a_row_tells_its_conversations_apart_and_an_epoch_has_each_once(tokenizer: Tokenizer):
    encoder = ChatEncoder(tokenizer)
    data = encoder.encode([conversation("東" * (1 + n % 7), str(n)) for n in range(60)], 120)
    sampler = ConversationSampler(data, 120, 3, 4, 7, "train")
    seen: list[tuple[list[int], list[bool]]] = []
    for step in range(-(-sampler.samples // 4)):
        batch = sampler.batch(step)
        assert (batch.input_ids[~batch.attention_mask] == 3).all()
        for row in (batch.epochs == 0).nonzero()[0]:
            documents, labels = batch.documents[row], batch.labels[row]
            assert (documents[batch.lengths[row] :] == -1).all()
            assert (labels[documents == -1] == -100).all()
            for number in range(documents.max() + 1):
                ids, own = batch.input_ids[row][documents == number], labels[documents == number]
                assert (own[own != -100] == ids[own != -100]).all()
                seen.append((ids.tolist(), (own != -100).tolist()))
    assert sorted(seen) == sorted(pieces(data))
    assert sampler.samples < len(data) / 2


@pytest.mark.parametrize("world", [1, 2, 3, 6])
def test_ranks_share_the_rows_of_a_batch(tokenizer: Tokenizer, world: int):
    data = ChatEncoder(tokenizer).encode([conversation("東" * (1 + n % 5), str(n)) for n in range(40)], 64)
    sampler = ConversationSampler(data, 64, 0, 6, 1, "train")
    for step in (0, 3, 11):
        whole, parts = sampler.batch(step), [sampler.batch(step, rank, world) for rank in range(world)]
        for name in ("input_ids", "labels", "lengths", "documents", "epochs", "indices"):
            joined = np.concatenate([getattr(part, name) for part in parts])
            assert (joined == getattr(whole, name)).all(), name


def test_a_tokenizer_brings_its_own_template(folders: dict[str, Path], tmp_path: Path):
    folder = finished(tmp_path, small("byte-bpe", **KINDS["byte-bpe"]))
    source = "{%- for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}"
    source += "{% endgeneration %}{% else %}[{{ m.content }}]{% endif %}{% endfor %}"
    folder.joinpath("chat_template.jinja").write_text(source)
    tokenizer = load_tokenizer(folder)
    data = ChatEncoder(tokenizer).encode([conversation("東", "京")], 100)
    assert tokenizer.decode(data.ids) == "[東]京<|endoftext|>"
    settings = json.loads(folder.joinpath("tokenizer_config.json").read_text())
    folder.joinpath("chat_template.jinja").unlink()
    named = [{"name": "tools", "template": ""}, {"name": "default", "template": source}]
    folder.joinpath("tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": named}))
    assert ChatEncoder(load_tokenizer(folder)).template.source == source


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{% for m in messages %}{{ m.content }}", "not a chat template"),
        ("{% for m in messages %}{{ m.content }} {% endfor %}", "no special token"),
        ("{% for m in messages %}{{ m.content | upper | length }}{{ eos_token }}{% endfor %}", "cuts or changes"),
        ("{% macro f(m) %}{{ f(m) }}{% endmacro %}{{ f(1) }}", "refuses it"),
        (
            "{{ messages | length }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}",
            "changes its text",
        ),
        ("{{ raise_exception('no system') }}", "no system"),
        ("{{ strftime_now('%Y') }}", "strftime_now"),
        ("{{ messages.append(1) }}", "refuses"),
    ],
)
def test_unusable_templates_are_refused(tokenizer: Tokenizer, source: str, problem: str):
    with pytest.raises(ConfigError, match=problem):
        ChatEncoder(tokenizer, source)


@pytest.mark.parametrize(
    ("prompt_end", "before", "warned"), [("", " ", False), ("", "\n", False), ("", "", False), (" ", "", True)]
)
def test_answers_that_a_later_prompt_gives_other_ids_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, prompt_end: str, before: str, warned: bool
):
    folder = finished(tmp_path, small("byte-bpe", **KINDS["byte-bpe"]), NEOLOGDN)
    source = "{% for m in messages %}{% if m.role == 'user' %}問{{ m.content }}A:END{% else %}BEFORE{{ m.content }}"
    source = source.replace("END", prompt_end).replace("BEFORE", before) + "{{ eos_token }}{% endif %}{% endfor %}"
    encoder = ChatEncoder(load_tokenizer(folder), source, "chat.jinja")
    assert ("chat.jinja: answers may have other ids" in caplog.text) == warned
    row = encoder.encode([conversation("一", "A二", "三", "四")], 100).ids.tolist()
    prompt = encoder.encode_prompt(conversation("一", "A二", "三").messages)
    assert (row[: len(prompt)] != prompt) == warned


@pytest.mark.parametrize(
    ("loop", "text", "problem"),
    [
        ("for m in messages", "m.content | upper", "cuts or changes the text"),
        ("for m in messages", "m.content | e", "cuts or changes the text"),
        ("for m in messages", "m.content | replace('b', 'c')", "cuts or changes the text"),
        ("for m in messages if m.role != 'system'", "m.content", r"leaves out message 1 \(system\)"),
    ],
)
def test_a_template_that_changes_or_leaves_out_a_text_is_refused(
    tokenizer: Tokenizer, loop: str, text: str, problem: str
):
    encoder = ChatEncoder(tokenizer, f"{{% {loop} %}}{{{{ {text} }}}}{{{{ eos_token }}}}{{% endfor %}}")
    turns = zip(("system", "user", "assistant"), ("短く。", "a<b>", "京"), strict=True)
    messages = [{"role": role, "content": content} for role, content in turns]
    with pytest.raises(InputError, match=problem):
        encoder.encode([Conversation(messages, "here")], 100)


def test_a_template_that_looks_at_texts_is_refused_where_it_matters(tokenizer: Tokenizer):
    source = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{{ eos_token }}{% endfor %}"
    encoder = ChatEncoder(tokenizer, source)
    assert tokenizer.decode(encoder.encode([conversation("東", "京")], 100).ids) == "東<|endoftext|>京<|endoftext|>"
    with pytest.raises(InputError, match="cuts"):
        encoder.encode([conversation("東", "<think>都</think>京")], 100)


PAIRS = SftConfig(prompt="instruction", context="input", answer="output", system="rule")


@pytest.mark.parametrize(
    ("row", "config", "expected"),
    [
        ({"instruction": "訳せ。", "input": "川", "output": "river"}, PAIRS, ("", "訳せ。\n\n川", "river")),
        ({"instruction": "訳せ。", "input": " ", "output": "a", "rule": None}, PAIRS, ("", "訳せ。", "a")),
        ({"instruction": "訳せ。", "output": "a", "rule": "短く。"}, PAIRS, ("短く。", "訳せ。", "a")),
        ({"instruction": "", "input": "川", "output": "a"}, PAIRS, ("", "川", "a")),
        ({"q": "川は？", "a": "", "input": "x", "": 3}, SftConfig(prompt="q", answer="a"), ("", "川は？", "")),
    ],
)
@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_rows_of_a_text_and_its_answer(
    row: dict[str, str], config: SftConfig, expected: tuple[str, str, str], suffix: str, tmp_path: Path
):
    path = tmp_path / f"train{suffix}"
    rows = [row, dict.fromkeys(config.columns().values(), "a") | row]  # a file has each column, a row may not
    if suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([rows[1], row]).slice(1), path)
    found = next(read_conversations(path, config))
    messages = zip(("system", "user", "assistant"), expected, strict=True)
    assert found.messages == [{"role": role, "content": text} for role, text in messages if text or role != "system"]


def test_messages_of_from_and_value_are_those_of_role_and_content(tmp_path: Path):
    path = tmp_path / "train.jsonl"
    turns = [
        {"from": "system", "value": "短く。"},
        {"from": "human", "value": "川は？"},
        {"from": "gpt", "value": "橋"},
    ]
    path.write_text(json.dumps({"id": "1", "conversations": turns}))
    [found] = read_conversations(path, SftConfig(messages="conversations"))
    assert [(each["role"], each["content"]) for each in found.messages] == [
        ("system", "短く。"),
        ("user", "川は？"),
        ("assistant", "橋"),
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"output": "a"}, "missing column 'instruction'(?s:.*)train.sft.prompt names the column"),
        ({"instruction": "a"}, "missing column 'output'(?s:.*)train.sft.answer names the column"),
        ({"instruction": "a", "output": None}, "column 'output' must be text, got None"),
        ({"instruction": "a", "output": "b", "input": 3}, "column 'input' must be text, got 3"),
        ({"instruction": "a", "output": "b", "rule": ""}, "missing column 'input'(?s:.*)train.sft.context names"),
    ],
)
def test_errors_of_rows_name_the_column(row: dict[str, Any], problem: str, tmp_path: Path):
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(InputError, match=problem) as error:
        list(read_conversations(path, PAIRS))
    assert error.value.where.removesuffix(", line 1") == str(path)


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (SftConfig(prompt="q"), "train.sft.answer"),
        (SftConfig(answer="a"), "train.sft.prompt"),
        (SftConfig(context="c"), "train.sft.prompt"),
        (SftConfig(prompt="q", answer="a", messages="conversations"), "train.sft.messages"),
    ],
)
def test_columns_that_do_not_fit_each_other_are_refused(config: SftConfig, key: str):
    with pytest.raises(ConfigError) as error:
        config.check()
    assert error.value.where == key


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"text": "a"}, "missing column 'messages'"),
        ({"messages": []}, "must be a list of messages"),
        ({"messages": "a"}, "must be a list of messages"),
        ({"messages": [{"from": "user"}]}, "must have role and content"),
        ({"messages": [{"from": ["user"], "value": "a"}]}, "message 1 has the role"),
        ({"messages": [{"from": "bard", "value": "a"}]}, "message 1 has the role 'bard'"),
        ({"messages": [{"from": "gpt", "value": 1}]}, "content of message 1 must be text"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "message 1 has the role 'tool'"),
        ({"messages": [*TURNS, {"role": "assistent", "content": "a"}]}, "message 2 .*(?s:.*)did you mean 'assistant'"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "must be text"),
    ],
)
def test_errors_of_files_name_the_line(tmp_path: Path, line: Any, problem: str):
    path = tmp_path / "train.jsonl"
    good = {"messages": [{"role": "user", "content": "a", "id": 3}], "more": 1}
    path.write_text(json.dumps(good) + "\n\n" + json.dumps(line) + "\n")
    with pytest.raises(InputError, match=problem) as error:
        list(read_conversations(path, SftConfig()))
    assert error.value.where.endswith("line 3")


def test_an_example_shows_what_is_learnt(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    turns = [("user", "春"), ("assistant", "夏"), ("user", "秋"), ("assistant", "冬")]
    rows = [turns[:1], turns]
    path.write_text(
        "".join(
            json.dumps({"messages": [{"role": role, "content": text} for role, text in row]}) + "\n" for row in rows
        )
    )
    template = ChatEncoder(tokenizer).template.source
    assert example_of([path], SftConfig(), template, tokenizer, 1_000) == (
        "<|im_start|>user\n春<|im_end|>\n<|im_start|>assistant\n⟦夏<|im_end|>⟧\n"
        "<|im_start|>user\n秋<|im_end|>\n<|im_start|>assistant\n⟦冬<|im_end|>⟧"
    )
    assert example_of([path], SftConfig(), template, tokenizer, 5) == ""
