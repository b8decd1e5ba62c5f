"""Personal data is masked, counted by kind, and told from other numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.normalizers.pii.match import simplified
from jprep.corpus.normalizers.pii.normalizer import PiiNormalizer, find_personal_data
from jprep.corpus.normalizers.pii.numbers import luhn, my_number_is_valid
from jprep.testing.conformance.normalizer import NormalizerSuite

MASKED = {
    "お問い合わせは03-5550-1234、または０９０－１２３４－５６７８まで。": "お問い合わせは<PHONE>、または<PHONE>まで。",
    "電話（０４５）２３４－５６７８": "電話<PHONE>",
    "TEL:0312345678": "TEL:<PHONE>",
    "+81-3-5550-1234、0120-123-456": "<PHONE>、<PHONE>",
    "(090)1234-5678、（０８０）１２３４　５６７８": "<PHONE>、<PHONE>",
    "+1 (212) 555-1234、+81 (3) 1234-5678": "<PHONE>、<PHONE>",
    "フリーダイヤル0120123456": "フリーダイヤル<PHONE>",
    "mail: taro.yamada@example.co.jp。": "mail: <EMAIL>。",
    "taro@example.co.jp：田中、From: taro@example.com:": "<EMAIL>：田中、From: <EMAIL>:",
    "info@example.co.jp:8時から": "<EMAIL>:8時から",
    "_taro_@example.ne.jp、.taro@example.com": "<EMAIL>、<EMAIL>",
    "〒100-0005 東京都千代田区丸の内1-2-3 丸の内ビル5階": "<POSTAL_CODE> <ADDRESS>",
    "北海道札幌市中央区北1条西2丁目3番地": "<ADDRESS>",
    "個人番号は123456789018です": "個人番号は<MY_NUMBER>です",
    "カード 4111 1111 1111 1111": "カード <CARD>",
    "普通預金 1234567": "普通預金 <BANK_ACCOUNT>",
    "記号12340 番号1234567": "記号<BANK_ACCOUNT> 番号<BANK_ACCOUNT>",
    "品川 300 あ 12-34の車": "<LICENCE_PLATE>の車",
    "接続元は133.11.0.5と2400:4050::8888": "接続元は<IP_ADDRESS>と<IP_ADDRESS>",
}
OTHER = [
    "2020-01-02から2021年3月、12:30-14:00",
    "型番 090-1234-5678、ISBN 4-00-310101-4、978-4-00-310101-8",
    "東京都港区の人口は1-2倍、大阪府では3-4",
    "版数10.2.3.4、バージョン 100.20.30.40、192.168.0.1と127.0.0.1",
    "口座数は1234567件ではなく、4111 1111 1111 1112はカード番号でない",
    "123-4567通の手紙、1,234,567円、-0.123456789",
    "scp a.txt user@host.example.co.jp:/tmp、user@host.example.com:8080",
    "me@1x.webp、package@1.2.3.tgz、...@example.com",
    "東京都新宿区2021-04-15 更新、大阪府大阪市2019-12-31現在、長野県上田市1-0で勝利",
]


class TestPii(NormalizerSuite):
    step = PiiNormalizer
    pairs = tuple(MASKED.items())


@pytest.mark.parametrize("text", OTHER)
def test_other_numbers_stay(text: str) -> None:
    assert PiiNormalizer().apply(text) == text


def test_kinds_and_placeholders_are_options() -> None:
    step = PiiNormalizer(PiiNormalizer.Config(kinds=("email",), placeholder="[{kind}]"))
    assert step.apply("a@example.jp 03-5550-1234") == "[EMAIL] 03-5550-1234"
    assert step.tally == {"email": 1, "lines_changed": 1}


def test_one_account_is_one_placeholder() -> None:
    step = PiiNormalizer()
    assert step.apply("ゆうちょ口座 記号番号 10120-12345671") == "ゆうちょ口座 記号番号 <BANK_ACCOUNT>"
    assert step.tally == {"bank_account": 1, "lines_changed": 1}


def test_each_changed_line_is_counted_once() -> None:
    step = PiiNormalizer()
    step.apply("a@example.jp b@example.jp\n\n何もない\nc@example.jp\nd@example.jp")
    assert step.tally == {"email": 4, "lines_changed": 3}


@given(st.text())
def test_a_simplified_text_has_the_same_length(text: str) -> None:
    assert len(simplified(text)) == len(text)


@given(st.text(alphabet="0123456789-@.:()〒 東京都港区丁目番号品川あ電話普通\n", max_size=80))
def test_places_are_in_order_and_do_not_overlap(text: str) -> None:
    places = [match for match, _ in find_personal_data(text)]
    assert all(first.end <= second.start for first, second in pairwise(places))


def test_check_digits() -> None:
    assert luhn("4111111111111111")
    assert not luhn("4111111111111112")
    assert my_number_is_valid("123456789018")
    assert not my_number_is_valid("123456789019")
