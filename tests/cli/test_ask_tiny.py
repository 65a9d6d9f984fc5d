"""Which questions go to the shipped model where no model is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.cli import ask
from saccade.cli.ask import NO_MODEL
from saccade.episode.asking import Question
from saccade.errors import SettingsError, UnavailableError
from saccade.plugins.worlds import tiny

DOT = "What colour is the dot on the green sign?"


@pytest.fixture(autouse=True)
def weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny, "tiny_weights", lambda: Path("weights"))


@pytest.mark.parametrize(("question", "choices"), [("Count the pentagons in the image.", ()), (DOT, ("red", "blue"))])
def test_a_question_that_was_learned(question: str, choices: tuple[str, ...]) -> None:
    assert ask._default_model(Question(question, (), choices)) == "tiny"


def test_any_other_question_says_what_can_be_asked() -> None:
    with pytest.raises(SettingsError, match=r"no model is named(.|\n)*crossings of two coloured lines"):
        ask._default_model(Question("What is the mood of this picture?", (), ()))


def test_what_was_learned_with_possible_answers_needs_them() -> None:
    with pytest.raises(SettingsError, match="--choice red"):
        ask._default_model(Question(DOT, (), ("red",)))


def test_without_weights_a_model_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> Path:
        raise UnavailableError("no weights")

    monkeypatch.setattr(tiny, "tiny_weights", lost)
    with pytest.raises(SettingsError) as refused:
        ask._default_model(Question("Count the pentagons in the image.", (), ()))
    assert str(refused.value) == NO_MODEL
