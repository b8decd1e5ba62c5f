"""What the command line of ssh shows to every user of the host."""

import pytest

from jprep.train.hosts.starting import _variables


def test_secrets_stay_out_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"HF_TOKEN": "hf_secret_1", "JPREP_JUDGE_KEY": "secret-2", "JPREP_PASSWORD": "secret_3"}
    for name, value in (secrets | {"NCCL_DEBUG": "INFO", "JPREP_LOCKS": "none"}).items():
        monkeypatch.setenv(name, value)
    shown = _variables()
    assert "NCCL_DEBUG=INFO" in shown and "JPREP_LOCKS=none" in shown
    assert not any(name in shown or value in shown for name, value in secrets.items())
