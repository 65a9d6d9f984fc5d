"""Which questions go to the shipped model where no model is named."""

from pathlib import Path

import pytest

from saccade.cli import ask_tiny
from saccade.errors import SettingsError, UnavailableError

DOT = "What colour is the dot on the green sign?"


@pytest.mark.parametrize(("question", "choices"), [("Count the pentagons in the image.", []), (DOT, ["red", "blue"])])
def test_a_question_that_was_learned(monkeypatch: pytest.MonkeyPatch, question: str, choices: list[str]) -> None:
    monkeypatch.setattr(ask_tiny, "tiny_weights", lambda: Path("weights"))
    asked = ask_tiny.tiny_by_default(question, choices, "Name a model.")
    assert asked == "tiny"


def test_any_other_question_says_what_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_tiny, "tiny_weights", lambda: Path("weights"))
    with pytest.raises(SettingsError, match=r"Name a model\.\n.*crossings of two coloured lines"):
        ask_tiny.tiny_by_default("What is the mood of this picture?", [], "Name a model.")


def test_without_weights_a_model_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> Path:
        raise UnavailableError("no weights")

    monkeypatch.setattr(ask_tiny, "tiny_weights", lost)
    with pytest.raises(SettingsError, match=r"^Name a model\.$"):
        ask_tiny.tiny_by_default("Count the pentagons in the image.", [], "Name a model.")


def test_what_was_learned_with_possible_answers_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_tiny, "tiny_weights", lambda: Path("weights"))
    with pytest.raises(SettingsError, match="--choice red"):
        ask_tiny.tiny_by_default(DOT, ["red"], "Name a model.")
