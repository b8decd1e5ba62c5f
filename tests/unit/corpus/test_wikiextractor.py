"""Articles from the program wikiextractor, of versions with and without JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jprep.corpus.document import Document, Reject
from jprep.corpus.readers.mediawiki import wikiextractor
from jprep.errors import InputError

JSON = """{"id": "5", "url": "u?curid=5", "title": "琴 \\"川\\"", "text": "高度 < 42度\\n地理.\\n記号 &lt; である。"}
{"id": "6", "url": "u?curid=6", "title": "空", "text": ""}
"""
MARKED = """<doc id="5" url="u?curid=5" title="琴 "川"">
琴 "川"

高度 &lt; 42度
地理.
記号 &amp;lt; である。

</doc>
<doc id="6" url="u?curid=6" title="空">
空

</doc>
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Return a function that installs a program with a help text and an output."""

    def install(help_text: str, output: str, code: int = 0) -> None:
        (tmp_path / "output").write_text(output, encoding="utf-8")
        script = f'#!/bin/sh\n[ "$1" = --help ] && echo "{help_text}" && exit\ncat "{tmp_path}/output"\nexit {code}\n'
        (tmp_path / "wikiextractor").write_text(script)
        (tmp_path / "wikiextractor").chmod(0o755)
        wikiextractor._writes_json.cache_clear()

    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    yield install
    wikiextractor._writes_json.cache_clear()


@pytest.mark.parametrize(("help_text", "output"), [("[--json]", JSON), ("[--html]", MARKED)])
def test_both_forms_of_output_give_the_same_articles(program: Callable[..., None], help_text: str, output: str) -> None:
    program(help_text, output)
    (article, original), (empty, nothing) = wikiextractor.articles("dump.xml", [0], "wiki")
    assert original.rstrip("\n") == "高度 < 42度\n地理.\n記号 &lt; である。" and nothing == ""
    assert isinstance(article, Document) and isinstance(empty, Reject)
    assert (article.id, article.title, article.url) == ("wiki:5", '琴 "川"', "u?curid=5")
    assert article.text == "高度 < 42度\n地理.\n記号 &lt; である。"
    assert (empty.id, empty.title) == ("wiki:6", "空")


def test_a_program_that_fails_is_an_error(program: Callable[..., None]) -> None:
    program("[--json]", JSON, 1)
    with pytest.raises(InputError, match="exited with code 1"):
        list(wikiextractor.articles("dump.xml", [0], "wiki"))
