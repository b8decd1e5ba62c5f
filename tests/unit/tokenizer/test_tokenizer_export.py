"""`jprep.tokenizer.export` and `formats.tokenizer_json`: what other libraries load, in each supported version."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer as Exported
from tokenizers.implementations import ByteLevelBPETokenizer
from vocabularies import finished, small

from jprep.corpus.config import make_step
from jprep.corpus.step import describe_step
from jprep.errors import ConfigError
from jprep.tokenizer.export import export_tokenizer, write_tokenizer_files
from jprep.tokenizer.formats.tokenizer_json import bpe_merges, tokenizer_json
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.vocabulary import VocabularyPiece


def test_directory_is_complete_and_deterministic(tmp_path: Path) -> None:
    files = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}
    for model, more in (("bpe", {"spm.model"}), ("unigram", {"spm.model"}), ("byte-bpe", set()), ("wordpiece", set())):
        for folder in (tmp_path / model, tmp_path / f"{model} again"):
            write_tokenizer_files(small(model), [], folder)
        held = {path.name: path.read_bytes() for path in (tmp_path / model).iterdir()}
        assert set(held) == files | more
        assert held == {path.name: path.read_bytes() for path in (tmp_path / f"{model} again").iterdir()}


def test_merges_are_all_pairs_ordered_by_the_rank_of_their_result() -> None:
    texts = ["ab", "abc", "bc", "xyz", "a", "b", "c", "x"]
    pieces = [VocabularyPiece(text, "normal", -float(rank)) for rank, text in enumerate(texts)]
    vocabulary = msgspec.structs.replace(
        small(), pieces=[VocabularyPiece("<0x61>", "byte"), VocabularyPiece("c", "special"), *pieces]
    )
    assert bpe_merges(vocabulary) == [("a", "b"), ("a", "bc"), ("ab", "c"), ("b", "c")]


@pytest.mark.parametrize("known", ["", "<", "<0x41s>"])
def test_unigram_treats_names_of_bytes_and_special_tokens_as_text(known: str) -> None:
    vocabulary = small("unigram")
    vocabulary.pieces[260:260] = [VocabularyPiece(character, "normal", -30.0) for character in known]
    served = tokenizer_json(vocabulary, []) | {"added_tokens": [], "post_processor": None}
    encoded = Exported.from_str(json.dumps(served)).encode("<s><0x41><pad>")
    assert not {"<s>", "<pad>", "<0x41>"} & set(encoded.tokens)


def test_unigram_gives_the_same_ids_with_32_bit_and_64_bit_sums(tmp_path: Path) -> None:
    vocabulary = small("unigram")
    odd = [
        msgspec.structs.replace(piece, score=piece.score / 0.7) if piece.kind == "normal" else piece
        for piece in vocabulary.pieces
    ]
    ours = Tokenizer(finished(tmp_path, msgspec.structs.replace(vocabulary, pieces=odd)))
    exported = Exported.from_file(str(tmp_path / "tokenizer.json"))
    texts = ["も" * count + "の" + "すも" * count for count in range(1, 300)]
    ids, offsets = ours.encode_batch(texts)
    theirs = [encoding.ids for encoding in exported.encode_batch(texts, add_special_tokens=False)]
    assert [ids[start:end].tolist() for start, end in pairwise(offsets)] == theirs


def test_fairseq_dictionary_gives_the_same_ids(tmp_path: Path) -> None:
    vocabulary = small("unigram", special=["roberta", "<sep2>"])
    vocabulary.pieces[300] = VocabularyPiece("全\u3000角 と\n", "normal", -9.0)
    (written,) = export_tokenizer(finished(tmp_path / "ours", vocabulary), "fairseq", tmp_path / "out")
    symbols = ["<s>", "<pad>", "</s>", "<unk>"]
    with written.open(encoding="utf-8") as lines:  # as fairseq.data.Dictionary reads it
        for line in lines:
            word, count = line.rstrip().rsplit(" ", 1)
            assert int(count) and word not in symbols
            symbols.append(word)
    symbols.append("<mask>")
    assert symbols[300] == "<piece 300>"
    assert symbols[301:] == [piece.text for piece in vocabulary.pieces[301:]]
    assert symbols[:300] == [piece.text for piece in vocabulary.pieces[:300]]


def test_gpt2_files_load(tmp_path: Path) -> None:
    ours = Tokenizer(finished(tmp_path / "ours", small("byte-bpe")))
    vocab, pairs = export_tokenizer(ours.folder, "gpt2", tmp_path / "gpt2")
    theirs = ByteLevelBPETokenizer(str(vocab), str(pairs))
    text = "東京都の日本語 the world is"
    assert [theirs.token_to_id(token) for token in theirs.encode("東京都の日本語").tokens] == ours.encode(
        "東京都の日本語"
    )
    assert theirs.decode(ours.encode(text)) == text


def test_bert_and_sentencepiece_files(tmp_path: Path) -> None:
    bert, bpe = small("wordpiece", boundaries="hard"), small()
    vocab, _ = export_tokenizer(finished(tmp_path / "bert", bert), "bert", tmp_path / "for-bert")
    assert vocab.read_text(encoding="utf-8").split("\n")[:-1] == [piece.text for piece in bert.pieces]
    model, listed = export_tokenizer(finished(tmp_path / "bpe", bpe), "sentencepiece", tmp_path / "for-sentencepiece")
    loaded = SentencePieceProcessor(model_file=str(model))
    assert [loaded.id_to_piece(i) for i in range(loaded.get_piece_size())] == [piece.text for piece in bpe.pieces]
    assert listed.read_text(encoding="utf-8").split("\n")[260:263] == ["すも\t-0", "すもも\t-1", "もも\t-2"]


def test_unsupported_format_is_rejected(tmp_path: Path) -> None:
    folder = finished(tmp_path / "ours", small())
    with pytest.raises(ConfigError, match="cannot be exported as 'gpt2'") as raised:
        export_tokenizer(folder, "gpt2", tmp_path / "out")
    assert raised.value.fix == "a bpe tokenizer supports fairseq, sentencepiece"
    with pytest.raises(ConfigError, match="no finished tokenizer"):
        export_tokenizer(tmp_path, "fairseq", tmp_path / "out")


def test_bert_export_requires_continuation_prefixes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a ## prefix") as raised:
        export_tokenizer(finished(tmp_path / "whole", small("wordpiece")), "bert", tmp_path / "out")
    assert raised.value.fix and "AutoTokenizer" in raised.value.fix
    without = small("wordpiece", boundaries="hard", special=["gpt"])
    with pytest.raises(ConfigError, match="requires a sep_token"):
        export_tokenizer(finished(tmp_path / "gpt", without), "bert", tmp_path / "out")
    assert not (tmp_path / "out").exists()


BERT = """
import json, sys
import transformers
loaded = {}
for name in ("BertTokenizer", "BertTokenizerFast", "AutoTokenizer"):
    tokenizer = getattr(transformers, name).from_pretrained(sys.argv[1])
    loaded[name] = [tokenizer(words)["input_ids"] for words in json.loads(sys.argv[2])]
print(json.dumps(loaded))
"""
WORDS_APART = [
    "東京 都 です ゲーム の",
    "日本語 です が する",
    "龘 ゲーム the code 2020 年代",
    "すもも も もも 、 「 の 」 です 。",
]


RAW = [
    "東京都です。ゲーム, the code!",
    "日本語 です が する",
    "龘の Python3 [x] ##a ﾊﾝｶｸ é\u0301 が\u3000の\n次\u200b\x00行",
    "すもももも、「の」です。#print(２０)",
    "안녕 하세요 日本",
]


@pytest.mark.backends
@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("version", [4, 5])
def test_bert_tokenizers_give_the_same_ids_for_raw_text(version: int, split: bool, tmp_path: Path) -> None:
    if not (python := os.environ.get(f"JPREP_TRANSFORMERS{version}")):
        pytest.skip(f"no transformers {version}: JPREP_TRANSFORMERS{version} names no python")
    ours = Tokenizer(finished(tmp_path / "ours", small("wordpiece", boundaries="bert", handle_chinese_chars=split)))
    export_tokenizer(ours.folder, "bert", tmp_path / "bert")
    expected = [[ours.id_of("[CLS]"), *ours.encode(text), ours.id_of("[SEP]")] for text in RAW]
    command = [python, "-c", BERT, str(tmp_path / "bert"), json.dumps(RAW)]
    env = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=600)
    assert json.loads(done.stdout) == dict.fromkeys(("BertTokenizer", "BertTokenizerFast", "AutoTokenizer"), expected)


@pytest.mark.backends
@pytest.mark.parametrize("special", ["bert", "roberta"])
@pytest.mark.parametrize("version", [4, 5])
def test_bert_tokenizers_give_the_same_ids(version: int, special: str, tmp_path: Path) -> None:
    if not (python := os.environ.get(f"JPREP_TRANSFORMERS{version}")):
        pytest.skip(f"no transformers {version}: JPREP_TRANSFORMERS{version} names no python")
    ours = Tokenizer(finished(tmp_path / "ours", small("wordpiece", boundaries="hard", special=[special])))
    export_tokenizer(ours.folder, "bert", tmp_path / "bert")
    around = [ours.id_of(ours.special.cls)], [ours.id_of(ours.special.sep)]
    expected = [
        around[0] + ours.encode("\x1f" + words.replace(" ", "\x1f"), normalized=True) + around[1]
        for words in WORDS_APART
    ]
    command = [python, "-c", BERT, str(tmp_path / "bert"), json.dumps(WORDS_APART)]
    env = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=600)
    assert json.loads(done.stdout) == dict.fromkeys(("BertTokenizer", "BertTokenizerFast", "AutoTokenizer"), expected)


KINDS: dict[str, dict[str, Any]] = {
    "bpe": {},
    "unigram": {"model": "unigram", "special": ["t5"], "model_max_length": 77},
    "hf-unigram": {"model": "unigram", "special": ["hf-unigram"]},
    "byte-bpe": {"model": "byte-bpe"},
    "wordpiece": {"model": "wordpiece", "special": ["bert", "<sep2>"]},
    "hard": {"model": "wordpiece", "boundaries": "hard"},
    "words": {"model": "words"},
    "spaces": {"boundaries": "spaces", "special": ["sentencepiece"]},
    "bert": {"model": "wordpiece", "boundaries": "bert"},
}
PLAIN = [
    "ﾊﾝｶｸと Ｐｙｔｈｏｎ は日本語〜  the code",
    "if x:\n\tprint(y)\n\n",
    "家族👨‍👩‍👧‍👦と龘",
    "",
    " すもも",
]
MARKED = ["すもも\x1fも\x1fもも\x1e東京都\x1f \x1fthe\x1f龘", "\x1fa"]
LOADING = """
import json, sys, warnings, logging
folder, out, texts = sys.argv[1], sys.argv[2], json.load(open(sys.argv[3], encoding="utf-8"))
from transformers import AutoTokenizer, logging as noise
heard = []
class Ear(logging.Handler):
    def emit(self, record):
        heard.append(record.getMessage())
noise.add_handler(Ear())
report = {}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for name in texts:
        loaded = AutoTokenizer.from_pretrained(f"{folder}/{name}")
        ids = loaded(texts[name], add_special_tokens=False)["input_ids"]
        mask = loaded.mask_token and loaded.encode(f"the {loaded.mask_token}", add_special_tokens=False)
        report[name] = {
            "ids": ids, "texts": [loaded.decode(each) for each in ids], "mask": mask, "length": len(loaded),
            "max": loaded.model_max_length, "inputs": list(loaded.model_input_names),
            "roles": {key: value for key, value in loaded.special_tokens_map.items() if isinstance(value, str)},
            "special": sorted(loaded.all_special_tokens), "pair": loaded("the", "def"),
        }
        report[name]["pair"] = dict(report[name]["pair"])
        loaded.save_pretrained(f"{out}/{name}")
json.dump([report, heard + [str(each.message) for each in caught]], sys.stdout)
"""


@cache
def loading(version: int, folder: Path, texts: Path) -> tuple[dict[str, Any], list[str]]:
    """Load directories with `AutoTokenizer` of a major version of transformers; return results and warnings."""
    python = os.environ.get(f"JPREP_TRANSFORMERS{version}")
    if not python:
        pytest.skip(f"no transformers {version}: JPREP_TRANSFORMERS{version} names no python")
    env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9", "TOKENIZERS_PARALLELISM": "false"}
    command = [python, "-c", LOADING, str(folder), f"{folder}-saved{version}", str(texts)]
    done = subprocess.run(command, env=env, capture_output=True, check=True, timeout=600)
    report, complaints = json.loads(done.stdout)
    return report, complaints


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a directory of tokenizers, and a file of texts for each."""
    root = tmp_path_factory.mktemp("made")
    for name, options in KINDS.items():
        remove = name not in ("words", "spaces")
        neologdn = make_step("normalizer", {"use": "neologdn", "tilde": "ignore", "remove_space": remove})
        finished(root / name, small(**options), [describe_step(neologdn)])
    texts = {name: MARKED if name == "hard" else PLAIN for name in KINDS}
    (root / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    return root, root / "texts.json"


@pytest.mark.backends
@pytest.mark.parametrize("version", [4, 5])
def test_auto_tokenizer_loads_the_directory(version: int, made: tuple[Path, Path]) -> None:
    report, complaints = loading(version, *made)
    assert complaints == []
    for name, seen in report.items():
        ours = Tokenizer(made[0] / name)
        special = {f"{role}_token": getattr(ours.special, role) for role in ("bos", "eos", "unk", "pad", "mask")}
        texts = MARKED if name == "hard" else PLAIN
        assert seen["ids"] == [ours.encode(text) for text in texts], name
        assert seen["texts"] == [ours.decode(ids) for ids in seen["ids"]], name
        assert {role: token for role, token in special.items() if token}.items() <= seen["roles"].items()
        assert (seen["length"], seen["special"]) == (ours.vocab_size, sorted(ours.special.tokens))
        assert seen["max"] == (ours.card.config.model_max_length or ours.special.max_length)
        assert ("token_type_ids" in seen["inputs"]) == (ours.card.config.model == "wordpiece")
        assert seen["mask"] == (
            [ours.id_of("the"), ours.mask] if ours.special.mask else None
        )  # the space is the mask's


PAIRS = {
    "bpe": "<s> the </s> </s> def </s>",
    "unigram": "the </s> def </s>",
    "hf-unigram": "[CLS] the [SEP] def [SEP]",
    "byte-bpe": "the def",
    "wordpiece": "[CLS] the [SEP] def [SEP]",
    "words": "<s> the </s> </s> def </s>",
    "spaces": "the def",
    "bert": "[CLS] the [SEP] def [SEP]",
}


@pytest.mark.backends
@pytest.mark.parametrize("version", [4, 5])
def test_auto_tokenizer_adds_special_tokens(version: int, made: tuple[Path, Path]) -> None:
    report, _ = loading(version, *made)
    for name, expected in PAIRS.items():
        ours = Tokenizer(made[0] / name)
        assert [ours.piece_of(i) for i in report[name]["pair"]["input_ids"]] == expected.split()
    assert report["wordpiece"]["pair"]["token_type_ids"] == [0, 0, 0, 1, 1]
    tokens = ["[CLS]", "[SEP]", "<unk>", "<pad>", "[MASK]"]
    assert [Tokenizer(made[0] / "hf-unigram").piece_of(i) for i in range(5)] == tokens


@pytest.mark.backends
def test_version_5_loads_what_version_4_saves(made: tuple[Path, Path]) -> None:
    before, _ = loading(4, *made)
    after, complaints = loading(5, made[0].with_name(f"{made[0].name}-saved4"), made[1])
    assert complaints == []
    assert after == before
