"""World `echo`: a text in the question, which a program is to print: copying only, there and back.

For a model of a few million parameters copying is a skill to be learned: out of the question into a program, and out of
what was printed into the answer. The picture has nothing on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PIL import Image

from saccade.plugins.worlds.canvas import ANIMALS, BOOKS, DAYS, FOODS, MONTHS, PEOPLE, PLACES, THINGS
from saccade.plugins.worlds.video import SHAPES, THING_COLOURS
from saccade.record.task import AnswerType
from saccade.tasks.worlds import Knobs, Rng, World, WorldSample

_SIDE = 28
_VOWELS, _OTHERS = "aeiou", "bcdfghklmnprstvwz"
_QUOTED = ("Print {text} and say what was printed.", "Say {text}.", "What does a program print that prints {text}?")
_LISTED = ("Print {text} and say what was printed.", "Say {text}.", "Name {text}, in this order.")
_LETTERS = "ABCDEFG"

_NAMES = (*DAYS, *MONTHS, *ANIMALS, *FOODS, *PEOPLE, *THINGS, *PLACES, *BOOKS)
_ALL_NAMES = tuple(dict.fromkeys((*_NAMES, *(name[:3] for name in (*DAYS, *MONTHS)))))


class EchoKnobs(Knobs):
    """There is nothing to set."""


def draw(rng: Rng, knobs: EchoKnobs) -> WorldSample:
    """Return a text in quotes, names in a sentence, or one of several choices."""
    shade = rng.integer(60, 220)
    kind = rng.choice((_quoted, _quoted, _listed, _chosen))
    return replace(kind(rng), media={"image_0": Image.new("RGB", (_SIDE, _SIDE), (shade, shade, shade))})


def _sample(question: str, answer: str, program: str) -> WorldSample:
    return WorldSample(question=question, media={}, answer=answer, program=program, difficulty=0.0, tags=("echo",))


def _quoted(rng: Rng) -> WorldSample:
    """Return numbers, words, names of charts and tables, or several of them, with and without signs between them."""
    text = rng.choice(_TEXTS)(rng)
    return _sample(rng.choice(_QUOTED).format(text=f'"{text}"'), text, f'print("{text}")')


def _listed(rng: Rng) -> WorldSample:
    """Return names without quotes, as questions about charts and tables have them."""
    names = rng.sample(_ALL_NAMES, rng.integer(1, 3))
    text = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    program = f"names = {names!r}\nprint(*names)"
    return _sample(rng.choice(_LISTED).format(text=text), " ".join(names), program)


def _chosen(rng: Rng) -> WorldSample:
    """Return one of some choices, known by its letter."""
    names = tuple(rng.sample(_ALL_NAMES, rng.integer(3, len(_LETTERS))))
    at = rng.integer(0, len(names) - 1)
    sample = _sample(f"Print choice {_LETTERS[at]}.", names[at], f"print({list(names)!r}[{at}])")
    return replace(sample, choices=names, answer_type=AnswerType.CHOICE)


def _integer(rng: Rng) -> str:
    return str(rng.integer(0, 10 ** rng.integer(1, 5) - 1))


def _names(rng: Rng) -> str:
    """Draw names as charts and tables have them."""
    return ", ".join(rng.sample(_ALL_NAMES, rng.integer(1, 4)))


def _seen(rng: Rng) -> str:
    """Return things of a video, with numbers or without."""
    things = [f"{colour} {rng.choice(SHAPES)}" for colour in rng.sample(THING_COLOURS, rng.integer(1, 4))]
    if rng.chance(60):
        things = [f"{thing} ({number})" for number, thing in enumerate(things, start=1)]
    return ", ".join(things)


def _word(rng: Rng) -> str:
    """Return made-up text, so that it can only be copied."""
    word = "".join(rng.choice(_OTHERS) + rng.choice(_VOWELS) for _ in range(rng.integer(1, 4)))
    return word.capitalize() if rng.chance(50) else word


_FEW: tuple[Callable[[Rng], str], ...] = (
    _integer,
    lambda rng: ", ".join(str(rng.integer(-99, 255)) for _ in range(rng.integer(2, 3))),
    lambda rng: f"{rng.integer(0, 10 ** rng.integer(1, 3) - 1)}.{rng.integer(0, 99):0{rng.integer(1, 2)}d}",
    lambda rng: f"{rng.integer(1, 30)}/{rng.integer(2, 99)}",
    lambda rng: " ".join(_word(rng) for _ in range(rng.integer(1, 3))),
    lambda rng: ", ".join(_word(rng) for _ in range(rng.integer(2, 4))),
    lambda rng: f"{_word(rng)} {_integer(rng)} {_word(rng).capitalize()}",
    *[lambda rng: " ".join(f"{_word(rng)}={{{rng.integer(1, 30)}}}" for _ in range(2))] * 2,
)
_TEXTS = (*_FEW, *[_names] * 4, *[_seen] * 4)

WORLD = World("echo@5", "Print a text that the question gives: copying alone.", EchoKnobs, draw)
