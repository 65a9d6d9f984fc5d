r"""A client of the environment behind OpenEnv's protocol; all of its methods are those of OpenEnv's `EnvClient`.

    with SaccadeClient(base_url="http://127.0.0.1:8722").sync() as env:
        result = env.reset(seed=0)
        result = env.step(turn("<answer>\n\\boxed{red}\n</answer>"))

Each client is a session of its own on the server.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient

from saccade.serve.openenv.wire import LookMessage, LookObservation, LookPicture, LookState, TurnAction

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
    """The action that calls a tool of the server.

    A call that is refused is no turn; the text of its observation says why.
    """
    return TurnAction(type="call_tool", tool_name=tool, arguments=arguments)


def turn(text: str) -> TurnAction:
    """The action that says `text`."""
    return TurnAction(text=text)


def blocks(observation: LookObservation) -> list[dict[str, Any]]:
    """What a model reads of an observation, as the content blocks of a chat template.

    Texts are `{"type": "text", "text": ...}`, pictures `{"type": "image", "image": a Pillow image}`. Roles are left
    out: what is new in an episode has one, but for the prompt, whose system message is then the first block.
    """
    found: list[dict[str, Any]] = []
    for message in observation.messages:
        for part in message.content:
            if part.type == "text":
                found.append({"type": "text", "text": part.text or ""})
            elif part.picture is not None:
                found.append({"type": "image", "image": opened(observation.pictures[part.picture])})
    return found


def chat(observation: LookObservation) -> list[dict[str, Any]]:
    """The messages of an observation as OpenAI's Chat Completions take them, pictures as data URLs."""
    return [_chat_message(message, observation.pictures) for message in observation.messages]


def opened(picture: LookPicture) -> Image:
    """The picture, decoded."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(picture.data)))
    image.load()
    return image


def _of_tool(observation: dict[str, Any]) -> dict[str, Any]:
    """The observation inside what an MCP tool gave back; any other as it is."""
    if "tool_name" not in observation:
        return observation
    if error := observation.get("error"):
        part = {"type": "text", "text": error["message"]}
        return {"text": error["message"], "messages": [{"role": "tool", "content": [part]}]}
    found: dict[str, Any] = observation["result"]["structured_content"]
    return found


def _chat_message(message: LookMessage, pictures: list[LookPicture]) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    for part in message.content:
        if part.type == "text":
            content.append({"type": "text", "text": part.text or ""})
        elif part.picture is not None:
            shown = pictures[part.picture]
            content.append({"type": "image_url", "image_url": {"url": f"data:{shown.mime};base64,{shown.data}"}})
    return {"role": message.role, "content": content}
