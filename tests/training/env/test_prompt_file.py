"""The environment speaks with a user's prompt file, and lists tools as asked."""

from pathlib import Path

import pytest

from saccade.episode.settings import SessionLimits
from saccade.errors import SettingsError
from saccade.sandbox.base import MIB
from saccade.training.env.look_again import LookAgainEnv


def test_prompts_tools_and_limits_are_those_of_the_options(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("System prompt:\nMine. {tools}\nUser prompt:\n{query}")
    limits = SessionLimits(wall_seconds=77.0, memory_bytes=900 * MIB)
    env = LookAgainEnv(
        "maze", "vista", prompt_file=tmp_path / "mine.txt", tools=("crop",), tool_list="schema", session=limits
    )
    try:
        observation, _ = env.reset(seed=0)
        assert "Mine. - crop: Cut a box" in observation["text"]
        assert '"additionalProperties"' in observation["text"]
        assert (env.dialect.sandbox.wall_seconds, env.dialect.sandbox.memory_bytes) == (77.0, 900 * MIB)
    finally:
        env.close()


def test_tools_that_a_prompt_does_not_list_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("No list here.")
    with pytest.raises(SettingsError, match=r"has no \{tools\}"):
        LookAgainEnv("maze", "vista", prompt_file=tmp_path / "mine.txt", tools=("crop",))
