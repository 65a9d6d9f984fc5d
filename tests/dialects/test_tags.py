from hypothesis import given
from hypothesis import strategies as st

from saccade.dialects.tags import TagGuard

GUARD = TagGuard(["code", "interpreter", r"image_clue_\d+"])
PIECES = st.lists(
    st.sampled_from(
        ["<", ">", "\\", "/", " ", "code", "INTERPRETER", "image_clue_3", "<|im_end|>", "|", "<code>", "x", "\n"]
    )
).map("".join)


def test_tags_get_a_backslash() -> None:
    assert GUARD.escape("a</interpreter> <|im_start|>") == "a<\\/interpreter> <\\|im_start|>"
    assert GUARD.escape("< / CODE >") == "<\\ / CODE >"
    assert GUARD.tags("<image_clue_12><b></code>") == ("<image_clue_12>", "</code>")


def test_ordinary_text_is_not_changed() -> None:
    for text in ("if a < b and c > d:", "<html><b>x</b>", "<\\n>", "List<code_t>", "<codec>", "a <|> b", "<\\textbf>"):
        assert GUARD.escape(text) == text


@given(PIECES | st.text())
def test_no_tag_is_left(text: str) -> None:
    escaped = GUARD.escape(text)
    assert GUARD.tags(escaped) == ()


def test_long_hostile_text_does_not_hang() -> None:
    for piece in ("<", " ", "\\", "<image_clue_", "<|a", "1"):
        for text in (f"<{piece * 100_000}", f"<image_clue_1{piece * 100_000}", f"<|{piece * 100_000}"):
            assert GUARD.tags(GUARD.escape(text)) == ()
