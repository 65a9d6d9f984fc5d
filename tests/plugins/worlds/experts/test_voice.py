from __future__ import annotations

import re

import pytest

from saccade.plugins.worlds.experts.plays import LONG, SHORT, PhraseTable, say
from saccade.tasks.worlds.rng import Rng

SLOTS = {
    "subject": "the sign",
    "noun": "letter",
    "box": "(1, 2, 3, 4)",
    "answer": "B",
    "error": "NameError: x",
    "place": "on the left",
    "tool": "ocr",
}


def test_alternatives_nest_and_slots_come_last() -> None:
    said = {say(Rng(seed), "[a [red|blue] {what}|nothing][.|!]", what="[box|{what}]") for seed in range(60)}
    assert said == {"A red [box|{what}]", "A blue [box|{what}]", "Nothing"} or said == {
        f"{start}{end}" for start in ("A red [box|{what}]", "A blue [box|{what}]", "Nothing") for end in (".", "!")
    }


def test_a_slot_that_is_not_given_is_named() -> None:
    with pytest.raises(KeyError, match="what"):
        say(Rng(0), "{what}")


@pytest.mark.parametrize("voice", [SHORT, LONG], ids=["short", "long"])
def test_every_template_can_be_said_and_leaves_no_marks(voice: PhraseTable) -> None:
    for occasion, templates in voice.items():
        for template in templates:
            for seed in range(8):
                said = say(Rng(seed), template, **SLOTS)
                assert not re.search(r"[\[\]{}|]|  |<|`", said), (occasion, said)
                assert said[0] == said[0].upper()


def test_both_voices_know_the_same_occasions() -> None:
    assert SHORT.keys() == LONG.keys()


def test_long_thoughts_have_hundreds_of_forms() -> None:
    assert len({say(Rng(seed), LONG["look"], **SLOTS) for seed in range(1000)}) > 150
    assert len({say(Rng(seed), LONG["compute"], **SLOTS) for seed in range(1000)}) > 80
