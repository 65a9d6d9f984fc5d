import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import SettingsError
from saccade.models.base import StopWatch, apply_stops, can_be_inferred, check_stops, first_stop, unclosed
from saccade.record.trajectory import FinishReason

# Few letters, so that stop strings occur, overlap and repeat often.
TEXT = st.text("ab<", max_size=30)
STOPS = st.lists(st.text("ab<", min_size=1, max_size=4), max_size=4).map(tuple)


def slow_end(text: str, stops: tuple[str, ...]) -> int | None:
    """The definition, word by word: the shortest beginning of the text that ends with a stop string."""
    return next((n for n in range(1, len(text) + 1) if text[:n].endswith(stops)), None) if stops else None


@given(TEXT, STOPS)
def test_the_stop_that_is_complete_first_wins(text: str, stops: tuple[str, ...]) -> None:
    hit = first_stop(text, stops)
    assert (hit and hit[0]) == slow_end(text, stops)
    if hit:
        assert text[: hit[0]].endswith(hit[1])
        assert all(len(stop) <= len(hit[1]) for stop in stops if text[: hit[0]].endswith(stop))


@given(st.lists(st.text("ab<", max_size=4), max_size=12), STOPS)
def test_pieces_say_what_the_whole_says(pieces: list[str], stops: tuple[str, ...]) -> None:
    watch = StopWatch(stops)
    heard = "".join(watch.feed(piece) for piece in pieces)
    joined = "".join(pieces)
    hit = first_stop(joined, check_stops(stops))
    assert heard == watch.text == (joined[: hit[0]] if hit else joined)
    assert watch.stopped == (hit[1] if hit else None)


@given(TEXT, STOPS.filter(bool))
def test_swallowed_included_and_beyond_are_the_same(text: str, stops: tuple[str, ...]) -> None:
    hit = first_stop(text, stops)
    if hit is None:
        return
    end, stop = hit
    expected = (text[:end], FinishReason.STOP_STRING)
    assert apply_stops(text, stops, FinishReason.STOP) == expected
    assert apply_stops(text[:end], stops, FinishReason.STOP) == expected
    assert apply_stops(text[: end - len(stop)], stops, FinishReason.STOP, swallowed=stop) == expected


@given(TEXT, STOPS, st.sampled_from(list(FinishReason)))
def test_applying_twice_changes_nothing(text: str, stops: tuple[str, ...], finish: FinishReason) -> None:
    once = apply_stops(text, stops, finish)
    assert apply_stops(once[0], stops, once[1]) == once
    assert text.startswith(once[0])


def test_a_stop_that_was_cut_mid_way_is_no_stop() -> None:
    assert apply_stops("x</co", ("</code>",), FinishReason.LENGTH) == ("x</co", FinishReason.LENGTH)
    assert apply_stops("x</co", ("</code>",), FinishReason.LENGTH, swallowed="</code>")[1] is FinishReason.LENGTH


def test_a_stop_that_was_not_asked_for_is_not_put_back() -> None:
    assert apply_stops("x", ("</code>",), FinishReason.STOP, swallowed="###") == ("x", FinishReason.STOP)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<code>a", "</code>"),
        ("<code>a</code>", None),
        ("<code>a</code><answer>b", "</answer>"),
        ("<code><answer>b", "</answer>"),
        ('<code lang="py">a', "</code>"),
        ("codes", None),
        ("<coder>", None),
    ],
)
def test_a_swallowed_closing_tag_is_found_by_what_it_leaves_open(text: str, expected: str | None) -> None:
    assert unclosed(text, ("</code>", "</answer>", "###")) == expected


def test_only_closing_tags_can_be_inferred() -> None:
    assert can_be_inferred(("</code>", "</tool_call>"))
    assert not can_be_inferred(("</code>", "\nObservation:"))


def test_an_empty_stop_is_refused_and_repetitions_fall_away() -> None:
    with pytest.raises(SettingsError, match="empty"):
        check_stops(("a", ""))
    assert check_stops(("a", "b", "a")) == ("a", "b")
