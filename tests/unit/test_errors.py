"""Errors keep what commands decide by, in other processes and with other words."""

import pickle

from jprep.errors import DamagedError, InputError, Setting


def test_errors_are_pickled_with_all_arguments() -> None:
    error = InputError("bad", where="a.jsonl", fix="allow it", setting=Setting("max_bad", 0.5))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is InputError and str(again) == str(error)
    assert again.setting == Setting("max_bad", 0.5)


def test_an_error_with_other_words_keeps_its_kind_and_its_options() -> None:
    error = DamagedError("damaged", where="c", fix="build it", options=("--restart",), command="jprep corpus build")
    other = error.replace(fix="delete it")
    assert type(other) is DamagedError and (other.what, other.where, other.fix) == ("damaged", "c", "delete it")
    assert (other.options, other.command) == (("--restart",), "jprep corpus build")
