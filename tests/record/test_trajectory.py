"""The one table of stop reasons covers them all, and names limits that exist."""

from __future__ import annotations

from saccade.record.trajectory import STOPS, EpisodeLimits, StopReason


def test_every_stop_reason_is_in_words_of_its_own() -> None:
    assert set(STOPS) == set(StopReason)
    assert len({facts.words for facts in STOPS.values()}) == len(StopReason)
    assert all(facts.words.endswith(".") for facts in STOPS.values())


def test_limits_are_those_of_an_episode() -> None:
    limits = {reason: facts.limit for reason, facts in STOPS.items() if facts.limit}
    assert set(limits.values()) <= set(EpisodeLimits.model_fields)
    assert limits.keys() == {StopReason.STUCK} | {reason for reason in StopReason if reason.value.endswith("_limit")}
