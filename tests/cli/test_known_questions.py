"""The kinds of questions by their wording: generated ones are known, others are of no kind."""

import pytest

from saccade.plugins.worlds.tiny import known_kind
from saccade.tasks.worlds.base import draw_sample, load_world


@pytest.mark.parametrize(
    ("world", "kind"),
    [
        ("shape-count", {"counting", "nested-squares"}),
        ("line-crossings", {"line-crossings"}),
        ("nested-squares", {"nested-squares"}),
        ("grid-count", {"rows-columns"}),
        ("touching-circles", {"two-circles"}),
        ("sign-close-up", {"sign", "dot"}),
        ("chart-bar", {"chart"}),
        ("chart-line", {"chart"}),
        ("chart-pie", {"chart"}),
        ("chart-scatter", {"chart"}),
        ("table-arithmetic", {"table"}),
        ("rotated-dark-text", {"word"}),
        ("pixel-colour", {"colour"}),
    ],
)
def test_generated_questions_are_known(world: str, kind: set[str]) -> None:
    loaded = load_world(world)
    knobs = loaded.knobs(kinds=("letter", "dot")) if world == "sign-close-up" else None
    found = [known_kind(draw_sample(loaded, "test", index, knobs).question) for index in range(30)]
    assert sum(item in kind for item in found) >= 27, found


@pytest.mark.parametrize(
    "question",
    [
        "What is the mood of this picture?",
        "Who is this?",
        "How many people are in the photo?",
        "What does the sign say?",
        "What stands in the table?",
        "What is the area of the park?" + " And which words are written on its gate?",
        "",
    ],
)
def test_other_questions_are_of_no_kind(question: str) -> None:
    assert known_kind(question) is None
