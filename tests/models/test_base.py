from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.wire_rules import broken_rule

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


CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
USER = {"role": "user", "content": "What?"}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKS: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TELLS = {"role": "tool", "tool_call_id": "a", "content": "x"}

WORDS = {"type": "text", "text": "What?"}
IMAGE = {"type": "image", "source": {"data": "x"}}
USES = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a"}


def turns(*contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[at % 2], "content": content} for at, content in enumerate(contents)]


def test_right_requests_break_none() -> None:
    assert broken_rule(CHAT, {"messages": [USER, ASKS, TELLS, USER]}) is None
    body = {
        "model": "claude-opus-4-8",
        "messages": turns([WORDS], [WORDS, USES], [RESULT, WORDS]),
        "tools": [{}],
    }
    assert broken_rule(MESSAGES, body) is None


@pytest.mark.parametrize(
    ("messages", "fields", "words"),
    [
        ([USER, ASKS, USER], {}, "without a tool message"),
        ([USER, ASKS], {}, "without a tool message"),
        ([USER, TELLS], {}, "no open call"),
        ([USER, ASKS, TELLS, TELLS], {}, "no open call"),
        ([USER, ASKS, {**TELLS, "content": [WORDS]}], {}, "is a text"),
        ([USER, {**ASKS, "tool_calls": [CALL, CALL]}, TELLS, TELLS], {}, "unique"),
        ([USER, {**ASKS, "tool_calls": []}], {}, "not none"),
        ([USER, {**ASKS, "tool_calls": None}], {}, "a text or a list"),
        ([USER, {"role": "assistant", "content": "x"}], {}, "continue_final_message"),
        ([USER], {"continue_final_message": True, "add_generation_prompt": False}, "continue_final_message"),
        ([USER], {"parallel_tool_calls": False}, "only with tools"),
    ],
)
def test_wrong_chats(messages: list[dict[str, Any]], fields: dict[str, Any], words: str) -> None:
    assert words in (broken_rule(CHAT, {"messages": messages, **fields}) or "")


@pytest.mark.parametrize(
    ("contents", "fields", "words"),
    [
        ([[WORDS], [USES], [WORDS]], {}, "are answered by"),
        ([[WORDS], [USES]], {}, "without a result"),
        ([[RESULT]], {}, "are answered by"),
        ([[WORDS], [USES], [WORDS, RESULT]], {}, "come first"),
        ([[WORDS], [USES], [RESULT], [USES], [RESULT]], {}, "unique"),
        ([[WORDS], [USES], [RESULT]], {"tools": []}, "only with tools"),
        ([[WORDS], [{**USES, "id": "a.b"}], [{**RESULT, "tool_use_id": "a.b"}]], {}, "few characters"),
        ([[WORDS], []], {}, "no message is empty"),
        ([[{**WORDS, "text": "\n"}]], {}, "non-whitespace"),
        ([[WORDS], [IMAGE, WORDS], [WORDS]], {}, "not permitted within assistant"),
        ([[WORDS], [WORDS]], {"model": "claude-sonnet-4-6"}, "prefill"),
        ([[WORDS], [{**WORDS, "text": "a "}]], {"model": "claude-opus-4-5"}, "trailing whitespace"),
    ],
)
def test_wrong_messages(contents: list[list[dict[str, Any]]], fields: dict[str, Any], words: str) -> None:
    body = {"model": "claude-opus-4-8", "tools": [{}], "messages": turns(*contents), **fields}
    assert words in (broken_rule(MESSAGES, body) or "")
