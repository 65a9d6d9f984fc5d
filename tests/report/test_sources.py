"""What a report says that a training run was trained on."""

from __future__ import annotations

import tomllib

import pytest

from saccade.report.runs import flat
from saccade.report.write import _sources


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('[tasks]\nsource = ["a/b/photos/", "maze=0.3"]', "photos, maze=0.3"),
        ('[tasks]\nsource = "a/b/photos"', "photos"),
        ('[tasks]\nsource = []\n[[recipe.source]]\nname = "x/geo"\n[[recipe.source]]\nname = "maze"', "geo, maze"),
        ("[tasks]\nmost = 3", ""),
    ],
)
def test_sources_without_the_paths_of_a_machine(settings: str, said: str) -> None:
    assert _sources(dict(flat(tomllib.loads(settings)))) == said
