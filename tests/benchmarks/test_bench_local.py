"""The benchmarks of a model in this process, and of rollouts with it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.figures import Peak
from benchmarks.local import LocalScale, measure_local
from benchmarks.rollout import RolloutScale, measure_rollout


def test_a_small_measurement() -> None:
    lines: list[str] = []
    figures = measure_local(LocalScale(turns=2, tokens=3, episodes=2), on_progress=lines.append)
    values = {figure.name: figure.value for figure in figures}
    assert lines == ["one episode", "2 episodes side by side"]
    assert 0 < values["one episode, tokens"] <= 2 * 3
    assert values["one episode, tokens"] < values["2 episodes side by side, tokens"] <= 2 * 2 * 3
    assert all(value > 0 for value in values.values())


@pytest.mark.slow
def test_an_episode_ends_where_the_context_is_full() -> None:
    """A checkpoint that reads 2048 tokens has no room for so many turns; the figures say how many it played."""
    figures = measure_local(LocalScale(turns=60, tokens=96, episodes=1))
    turns = {figure.name: (figure.value, figure.other) for figure in figures if "turns" in figure.name}
    assert [asked for _, asked in turns.values()] == [60, 60]
    assert all(1 < played < asked for played, asked in turns.values() if asked is not None)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # TRL's, where it is installed
def test_a_small_measurement_of_rollouts() -> None:
    lines: list[str] = []
    figures = measure_rollout(RolloutScale(tasks=1, group=2, turns=2, tokens=4), "", 1, lines.append)
    values = {(figure.name, figure.beside.partition(",")[0]): figure for figure in figures}
    for name in ("sampling", "peak memory"):
        assert values[name, "generate"].value > 0
        assert values[name, "generate"].ratio is not None
    assert values["playing, sandboxes included", "generate alone"].ratio is not None
    (waiting,) = (figure for figure in figures if figure.name.startswith("waiting for sandboxes"))
    assert 0 < waiting.value < 100
    (update,) = (figure for figure in figures if figure.name == "update")
    assert update.value > 0
    assert (update.other is None) == ("not installed" in update.beside)
    assert {figure.met for figure in figures} == {None}
    assert len(lines) == 4


def test_the_peak_is_of_what_was_held_at_once() -> None:
    with Peak(torch.device("cpu")) as peak:
        for _ in range(2):
            torch.ones(8, 2**20).sum()
    assert peak.mib is not None
    assert 30 < peak.mib < 60
