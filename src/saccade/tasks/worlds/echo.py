"""World `echo`: a text in the question, which a program is to print: copying alone, there and back.

For a model of a few million parameters copying is a skill to be learned: out of the question into a program, and out of
what was printed into the answer. The picture has nothing on it.
"""

from __future__ import annotations

from PIL import Image

from saccade.tasks.worlds.base import Knobs, Sample, World
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.words import ANIMALS, BOOKS, DAYS, FOODS, MONTHS, PEOPLE, PLACES, THINGS

_SIDE = 28
_VOWELS, _OTHERS = "aeiou", "bcdfghklmnprstvwz"
_QUESTIONS = ("Print {text} and say what was printed.", "Say {text}.", "What does a program print that prints {text}?")


_NAMES = (*DAYS, *MONTHS, *ANIMALS, *FOODS, *PEOPLE, *THINGS, *PLACES, *BOOKS)
_ALL_NAMES = tuple(
    dict.fromkeys((*_NAMES, *(day[:3] for day in (*DAYS, *MONTHS)), *(thing.lower() for thing in THINGS)))
)


class EchoKnobs(Knobs):
    """None."""


def draw(rng: Rng, knobs: EchoKnobs) -> Sample:
    """Numbers, words, names of charts and tables, or several of them, with and without signs between them."""
    kinds = (_whole, _numbers, _decimal, _fraction, _words, _list, _mixed, _braces, _names, _names, _names, _names)
    text = rng.choice(kinds)(rng)
    shade = rng.integer(60, 220)
    return Sample(
        question=rng.choice(_QUESTIONS).format(text=f'"{text}"'),
        media={"image_0": Image.new("RGB", (_SIDE, _SIDE), (shade, shade, shade))},
        answer=text,
        program=f'print("{text}")',
        difficulty=0.0,
        tags=("echo",),
    )


def _whole(rng: Rng) -> str:
    return str(rng.integer(0, 10 ** rng.integer(1, 5) - 1))


def _numbers(rng: Rng) -> str:
    return ", ".join(str(rng.integer(-99, 255)) for _ in range(rng.integer(2, 3)))


def _decimal(rng: Rng) -> str:
    return f"{rng.integer(0, 10 ** rng.integer(1, 3) - 1)}.{rng.integer(0, 99):0{rng.integer(1, 2)}d}"


def _fraction(rng: Rng) -> str:
    return f"{rng.integer(1, 30)}/{rng.integer(2, 99)}"


def _words(rng: Rng) -> str:
    return " ".join(_word(rng) for _ in range(rng.integer(1, 3)))


def _list(rng: Rng) -> str:
    return ", ".join(_word(rng) for _ in range(rng.integer(2, 4)))


def _mixed(rng: Rng) -> str:
    return f"{_word(rng)} {_whole(rng)} {_word(rng).capitalize()}"


def _braces(rng: Rng) -> str:
    return " ".join(f"{_word(rng)}={{{rng.integer(1, 30)}}}" for _ in range(2))


def _names(rng: Rng) -> str:
    """As charts and tables have them."""
    return ", ".join(rng.sample(_ALL_NAMES, rng.integer(1, 4)))


def _word(rng: Rng) -> str:
    """Made up, so that it can only be copied."""
    word = "".join(rng.choice(_OTHERS) + rng.choice(_VOWELS) for _ in range(rng.integer(1, 4)))
    return word.capitalize() if rng.chance(50) else word


WORLD = World("echo@3", "Print a text that the question gives: copying alone.", EchoKnobs, draw)
