"""Episodes of a server as an environment of TRL's `GRPOTrainer`, whose tools give pictures back to the policy.

    trainer = GRPOTrainer(..., environment_factory=episodes("http://127.0.0.1:8722"))

TRL reads the tools of the policy from the methods and their docstrings. It speaks through the chat template's own tool
calls, so the server's dialect is one without a form of its own in the prompt: `native`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from saccade.serve.openenv.client import SaccadeClient, blocks, called
from saccade.serve.openenv.wire import LookObservation


class LookEpisodes:
    """One session; `reset` begins its next episode. Public methods but `reset` and `get_reward` are the tools."""

    def __init__(self, client: SaccadeClient) -> None:
        self._client = client.sync()
        self._reward: float | None = None
        self._over = False

    def reset(self, **row: Any) -> list[dict[str, Any]]:
        """Begin an episode: with the task that the row's column `task` names, or a random one by its column `seed`."""
        chosen = {name: row[name] for name in ("task", "seed") if row.get(name) is not None}
        self._reward, self._over = 0.0, False
        return blocks(self._client.reset(**chosen).observation)

    def run_python(self, code: str) -> list[dict[str, Any]]:
        """Run Python on the pictures of the question. They are the variables image_0, image_1, ...

        Args:
            code: The code of one cell. What it prints and the pictures that it shows come back.

        Returns:
            What was printed, and the pictures.
        """
        return self._play("run_python", code=code)

    def answer(self, text: str) -> list[dict[str, Any]]:
        """Answer the question, which ends the episode.

        Args:
            text: The answer alone.

        Returns:
            That the episode is over.
        """
        return self._play("answer", text=text)

    def get_reward(self) -> float | None:
        """The reward of the episode; None, which TRL leaves out, after an outage of the server."""
        return self._reward

    def _play(self, tool: str, **arguments: str) -> list[dict[str, Any]]:
        if self._over:
            return [{"type": "text", "text": "The episode is over."}]
        seen: LookObservation = self._client.step(called(tool, **arguments)).observation
        self._over = seen.done
        if seen.done:
            self._reward = None if seen.lost else float(seen.reward or 0.0)
        shown = blocks(seen)
        return [*shown, {"type": "text", "text": "The episode is over."}] if seen.done else shown


def episodes(url: str, token: str | None = None, *, seconds: float = 120.0) -> Callable[[], LookEpisodes]:
    """What TRL's `environment_factory` takes; each call opens a session with the server.

    Args:
        url: address of a `saccade openenv`.
        token: that of the server.
        seconds: longest wait for the server's reply.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def opened_session() -> LookEpisodes:
        return LookEpisodes(SaccadeClient(base_url=url, message_timeout_s=seconds, headers=headers))

    return opened_session
