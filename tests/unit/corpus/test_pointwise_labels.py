"""Sentences that `pointwise` is trained on: files of words, treebanks, and text that another segmenter labels."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from jprep.corpus.segmenters.pointwise.training.labelled import label_text, read_words
from jprep.corpus.segmenters.spaces import SpacesSegmenter
from jprep.errors import InputError


class TestLabelledSentences:
    def read(self, tmp_path: Path, content: str, name: str = "words.txt") -> list[list[str]]:
        (tmp_path / name).write_bytes(content.encode())
        return list(read_words(str(tmp_path / name)))

    def test_words_with_spaces_between_them(self, tmp_path):
        assert self.read(tmp_path, "足利 \u3000 尊氏\n\n犬  だ \r\n[ １ ]\n") == [
            ["足利", "\u3000", "尊氏"], ["犬", "だ"], ["[", "１", "]"],
        ]  # fmt: skip

    def test_lists_of_words(self, tmp_path):
        lines = [["a b", "は"], ["犬"]]
        assert self.read(tmp_path, "".join(json.dumps(words) + "\n" for words in lines)) == lines

    def test_a_treebank(self, tmp_path):
        rows = ["1-2\tでは", "1\tで", "2\tは", "2.1\tx", "3\tthe", "4\tend"]
        lines = [f"{row}{chr(9)}{'_	' * 7}{'_' if 'the' in row else 'SpaceAfter=No'}" for row in rows]
        content = "\n".join(["# text = …", *lines, "", "# text = …", f"1\t犬{chr(9)}{'_	' * 7}_", ""])
        assert self.read(tmp_path, content) == [["では", "the", " ", "end"], ["犬"]]

    def test_compressed_files(self, tmp_path):
        (tmp_path / "a.gz").write_bytes(gzip.compress("犬 だ\n".encode()))
        assert list(read_words(str(tmp_path / "a.gz"))) == [["犬", "だ"]]

    @pytest.mark.parametrize(
        "content",
        [
            b"\xff\xfe a\n",
            b'["a", 1]\n',
            b"[" * 5000 + b"\n",
            b"# x\n1\tx\n",
            b"a\x1fb\n",
            b'{"text": "a"}\n',
            b'["a", "\\u001f"]\n',
            b"# x\n1\t" + b"\t_" * 8 + b"\n",
            b"# x\n" + b"1" * 5000 + b"\tx" + b"\t_" * 8 + b"\n",
            b"a\n1\tx" + b"\t_" * 8 + b"\n",
        ],
    )
    def test_damaged_files_name_the_line(self, tmp_path, content):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(InputError) as caught:
            list(read_words(str(tmp_path / "bad")))
        assert "line " in caught.value.where

    def test_a_teacher_labels_text(self, tmp_path):
        (tmp_path / "text").write_text("犬 だ\n\n猫\n", encoding="utf-8")
        labelled = label_text(str(tmp_path / "text"), SpacesSegmenter(), tally := Counter[str]())
        assert list(labelled) == [["犬", " ", "だ"], ["猫"]] and not tally

    def test_texts_that_the_teacher_cannot_segment_are_counted(self, tmp_path):
        (tmp_path / "text").write_text("犬だ\n猫\n水だ\n", encoding="utf-8")
        labelled = label_text(str(tmp_path / "text"), RefusingSegmenter(), tally := Counter[str]())
        assert list(labelled) == [["犬だ"], ["猫"]] and tally == {"unsegmented": 1}

    @pytest.mark.parametrize("before", ["\ufeff", "\n", "#sent_id = 1\n", "# text = 犬だ\n"])
    def test_a_treebank_is_recognised(self, tmp_path, before):
        rows = ["1\t犬" + "\t_" * 7 + "\tSpaceAfter=No", "2\tだ" + "\t_" * 8]
        (tmp_path / "bank").write_text(before + "\n".join(rows) + "\n\n", encoding="utf-8")
        assert list(read_words(str(tmp_path / "bank"))) == [["犬", "だ"]]

    def test_a_byte_order_mark_is_no_character(self, tmp_path):
        (tmp_path / "words").write_text("\ufeff犬 だ\n", encoding="utf-8")
        assert list(read_words(str(tmp_path / "words"))) == [["犬", "だ"]]


class RefusingSegmenter(SpacesSegmenter):
    """Cannot segment texts about water."""

    def segment(self, texts):
        self.tally["unsegmented.changed"] += sum("水" in text for text in texts)
        return list(texts)
