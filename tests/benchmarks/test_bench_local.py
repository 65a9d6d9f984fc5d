import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.local import LocalScale, measure_local


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
