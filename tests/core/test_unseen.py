"""Letters that nobody can see are spelled out: these and no others."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from saccade.core.unseen import spelled

LISTED = (
    "00-08 0b-1f 7f-9f ad-ad 34f-34f 61c-61c 115f-1160 17b4-17b5 180b-180f 200b-200f 2028-202e 2060-206f 2800-2800 "
    "3164-3164 d800-dfff fe00-fe0f feff-feff ffa0-ffa0 fff0-fffb 1bca0-1bca3 1d173-1d17a e0000-e0fff"
)
"""Controls but tab and newline, marks of direction, lines and paragraphs, blank letters, variants, tags, surrogates."""


def test_the_letters_that_are_spelled_out_are_these_and_no_others() -> None:
    ranges = [[int(edge, 16) for edge in part.split("-")] for part in LISTED.split()]
    expected = {code for first, last in ranges for code in range(first, last + 1)}
    assert {code for code in range(0x110000) if spelled(chr(code)) != chr(code)} == expected
    assert expected - {code for code in expected if spelled(chr(code), joined=True) != chr(code)} == {
        *(0x200C, 0x200D, 0xFE0E, 0xFE0F)
    }
    assert spelled("a\x00\xad\u061c\ufeff\U000e0001b") == r"a\x00\xad\u061c\ufeff\U000e0001b"
    assert spelled("\u2764\ufe0f \u0645\u06cc\u200c\u062e", joined=True) == "\u2764\ufe0f \u0645\u06cc\u200c\u062e"


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left_and_nothing_is_lost(text: str) -> None:
    text = text.replace("\\", "/")
    plain = spelled(text)
    kinds = {unicodedata.category(letter) for letter in plain if letter not in "\n\t"}
    assert kinds.isdisjoint({"Cc", "Zl", "Zp", "Cs"})
    escapes = re.compile(r"\\(?:x(..)|u(.{4})|U(.{8}))")
    assert escapes.sub(lambda found: chr(int("".join(filter(None, found.groups())), 16)), plain) == text.replace(
        "\\", "/"
    )
