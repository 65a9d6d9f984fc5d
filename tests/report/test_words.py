import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from saccade.report.words import cut_end, one_line, readable


def test_terminal_sequences_are_dropped() -> None:
    assert readable("\x1b[1;31mred\x1b[0m \x1b]0;title\x07done\x1b(B") == "red done"


def test_hidden_characters_are_written_out() -> None:
    assert readable("a\u202eb\x00\u200b\ufeff\u2028") == "a⟨U+202E⟩b⟨U+0000⟩⟨U+200B⟩⟨U+FEFF⟩⟨U+2028⟩"


def test_what_people_write_stays() -> None:
    text = "日本語 naïve 👩\u200d👧 مرحبا\n\tx = 1"
    assert readable(text) == text


def test_a_lone_carriage_return_shows_what_it_hid() -> None:
    assert readable("true\rfalse\r\nend") == "true␍\nfalse\nend"


@given(st.text(max_size=60))
def test_nothing_that_acts_is_left(text: str) -> None:
    for character in readable(text):
        assert character in "\n\t\u200c\u200d" or unicodedata.category(character) not in ("Cc", "Cf", "Zl", "Zp")


@given(st.text(max_size=60), st.integers(1, 40))
def test_cuts(text: str, longest: int) -> None:
    assert len(one_line(text, longest)) <= longest
    cut = cut_end(text, longest)
    assert cut == text if len(text) <= longest else re.search(rf"{len(text) - longest} more characters", cut)
