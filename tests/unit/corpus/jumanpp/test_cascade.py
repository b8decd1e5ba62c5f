"""The option `certainty` of `pointwise`: sentences in doubt go to Juman++."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.pointwise import Pointwise
from jprep.corpus.segmenters.pointwise.dictionary import make_dictionary
from jprep.corpus.segmenters.pointwise.features import FeatureConfig
from jprep.corpus.segmenters.pointwise.model_file import write_model
from jprep.corpus.segmenters.pointwise.training.trainer import TrainingConfig, train
from jprep.corpus.step import describe_step
from jprep.testing.conformance.segmenter import SENTENCES

SIZES = FeatureConfig(characters=8, pairs=8, triples=8, quadruples=8, neighbours=8, words=8, second=8)
SURE, DOUBTFUL = "あいうえお", "東京タワーへ行く"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model that is sure that no word begins at hiragana, and has no idea otherwise."""
    made = train([["あ", "い"]], make_dictionary((), SIZES), TrainingConfig(passes=1, features=SIZES))
    kinds = made.weights.direct[0] * 0
    kinds[(np.arange(len(kinds)) >> 6) & 7 == 1] = -200
    rest = [table * 0 for table in made.weights.direct[1:]]
    rows = [table * 0 for table in made.weights.rows]
    weights = msgspec.structs.replace(
        made.weights, rows=rows, direct=[kinds, *rest], second=made.weights.second * 0, bias=0
    )
    path = tmp_path_factory.mktemp("cascade") / "words.model"
    write_model(path, msgspec.structs.replace(made, weights=weights))
    return path


@pytest.fixture
def cascade(model, either):
    segmenter = Pointwise(Pointwise.Config(model=str(model), certainty=0.9, jumanpp=either.config))
    yield segmenter
    segmenter.close()


def test_only_sentences_in_doubt_go_to_jumanpp(cascade, either):
    assert cascade.segment([SURE, DOUBTFUL, SURE]) == [SURE, either.segment([DOUBTFUL])[0], SURE]
    assert cascade.tally == {"cascaded": 1}


def test_the_words_of_all_texts_join_to_them(cascade):
    texts = [*SENTENCES, SURE, "", DOUBTFUL, " # 東京", "\0"]
    assert [words.replace(WORD, "") for words in cascade.segment(texts)] == texts
    assert set(cascade.tally) == {"cascaded"}


def test_without_the_option_nothing_is_asked(model):
    segmenter = Pointwise(Pointwise.Config(model=str(model)))
    assert segmenter.segment([DOUBTFUL]) == [DOUBTFUL] and not segmenter.tally
    assert set(segmenter.provenance()) == {"model"}


def test_the_provenance_names_both(cascade):
    assert {"model", "cascade", "cascade jumanpp", "cascade jumanpp --model"} <= set(cascade.provenance())


def test_the_fingerprint_has_what_changes_the_words_and_no_places_or_limits(model, either):
    def described(**options):
        jumanpp = msgspec.structs.replace(either.config, **options)
        return describe_step(Pointwise(Pointwise.Config(model=str(model), certainty=0.9, jumanpp=jumanpp)))

    assert described() == described(timeout=7.0, memory_mb=4096, batch=3)
    assert described() != described(max_run=20)
    assert either.config.program not in str(described())


def test_a_sentence_that_fails_changes_no_other(cascade, monkeypatch):
    answers = {"東京 大学": "東京 大学", "東京": None}
    monkeypatch.setattr(cascade._jumanpp, "try_segment", lambda texts: [answers[text] for text in texts])
    assert cascade.segment(list(answers)) == list(answers)
    assert cascade.tally == {"cascaded": 2, "cascaded.failed": 1}


def test_where_jumanpp_fails_the_words_of_the_model_are_kept(model, make):
    text = "い東京 罠大学"
    alone = Pointwise(Pointwise.Config(model=str(model))).segment([text])
    failing = make("--fake-fault=die")
    segmenter = Pointwise(Pointwise.Config(model=str(model), certainty=0.9, jumanpp=failing.config))
    assert segmenter.segment([text, "タワー"]) == [*alone, "タワー"] and WORD in alone[0]
    assert segmenter.tally == {"cascaded": 2, "cascaded.failed": 1}
    segmenter.close()
