r"""A client of the environment behind OpenEnv's protocol; all of its methods are those of OpenEnv's `EnvClient`.

    with SaccadeClient(base_url="http://127.0.0.1:8722").sync() as env:
        result = env.reset(seed=0)
        result = env.step(turn("<answer>\n\\boxed{red}\n</answer>"))

Each client is a session of its own on the server.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient

from saccade.plugins.integrations.openenv.wire import LookObservation, LookPicture, LookState, TurnAction

if TYPE_CHECKING:
    from PIL.Image import Image


class SaccadeClient(EnvClient[TurnAction, LookObservation, LookState]):  # type: ignore[misc]
    """A session with a server of the environment. A token goes into `headers`, as `Authorization: Bearer TOKEN`."""

    def _step_payload(self, action: TurnAction) -> dict[str, Any]:
        payload: dict[str, Any] = action.model_dump(exclude_none=True, exclude_defaults=True)
        return payload

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[LookObservation]:
        outcome = {"done": payload.get("done", False), "reward": payload.get("reward")}
        observation = LookObservation.model_validate({**_of_tool(payload.get("observation", {})), **outcome})
        return StepResult(observation=observation, reward=observation.reward, done=observation.done)

    def _parse_state(self, payload: dict[str, Any]) -> LookState:
        state: LookState = LookState.model_validate(payload)
        return state


def called(tool: str, **arguments: Any) -> TurnAction:
    """Return the action that calls a tool of the server.

    A call that is refused is no turn; the text of its observation says why.
    """
    return TurnAction(type="call_tool", tool_name=tool, arguments=arguments)


def turn(text: str) -> TurnAction:
    """Return the action that says `text`."""
    return TurnAction(text=text)


def blocks(observation: LookObservation) -> list[dict[str, Any]]:
    """Return an observation as the content blocks of a chat template.

    Texts are `{"type": "text", "text": ...}`, pictures `{"type": "image", "image": a Pillow image}`. Roles are left
    out: what is new in an episode has one, but for the prompt, whose system message is then the first block.
    """
    return [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "image": opened(part)}
        for message in observation.messages
        for part in observation.shown(message)
    ]


def chat(observation: LookObservation) -> list[dict[str, Any]]:
    """Return the messages of an observation as OpenAI's Chat Completions take them, pictures as data URLs."""
    return [
        {
            "role": message.role,
            "content": [
                {"type": "text", "text": part}
                if isinstance(part, str)
                else {"type": "image_url", "image_url": {"url": f"data:{part.mime};base64,{part.data}"}}
                for part in observation.shown(message)
            ],
        }
        for message in observation.messages
    ]


def opened(picture: LookPicture) -> Image:
    """Return the picture, decoded."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(picture.data)))
    image.load()
    return image


def _of_tool(observation: dict[str, Any]) -> dict[str, Any]:
    """Return the observation inside what an MCP tool gave back; any other as it is."""
    if "tool_name" not in observation:
        return observation
    if error := observation.get("error"):
        part = {"type": "text", "text": error["message"]}
        return {"text": error["message"], "messages": [{"role": "tool", "content": [part]}]}
    found: dict[str, Any] = observation["result"]["structured_content"]
    return found


# Episodes of a server as an environment of TRL's `GRPOTrainer`, whose tools give pictures back to the policy.
#
#     trainer = GRPOTrainer(..., environment_factory=episodes("http://127.0.0.1:8722"))
#
# TRL reads the tools of the policy from the methods and their docstrings. It speaks through the chat template's own
# tool calls, so the server's dialect is one without a form of its own in the prompt: `native`.


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
            text: The answer only.

        Returns:
            That the episode is over.
        """
        return self._play("answer", text=text)

    def get_reward(self) -> float | None:
        """Return the reward of the episode; None, which TRL leaves out, after an outage of the server."""
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
    """Return a factory for TRL's `environment_factory`; each call opens a session with the server.

    Args:
        url: address of a `saccade openenv`.
        token: that of the server.
        seconds: longest wait for the server's reply.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def opened_session() -> LookEpisodes:
        return LookEpisodes(SaccadeClient(base_url=url, message_timeout_s=seconds, headers=headers))

    return opened_session
