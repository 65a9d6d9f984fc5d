"""One question about one picture to a model behind an endpoint, from a thread that waits.

The model is named as for `--model` and made anew for each question, since connections belong to the loop in which it
runs. Retries are those of `saccade.core.retry`.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from io import BytesIO
from typing import Final

from PIL import Image

from saccade.core import sync
from saccade.core.retry import RetryPolicy
from saccade.errors import MissingMediaError, ModelError, ModelLostError, SaccadeError, ToolLostError, UnavailableError
from saccade.models.base import Request
from saccade.models.registry import load_model
from saccade.record.content import ImagePart, Message, TextPart
from saccade.record.trajectory import Sampling
from saccade.tools.setup import ToolSetup

_TRIES: Final = 3
"""Within the seconds of the setup; a call of a tool has a time limit of its own."""


class _Held:
    """The bytes of the one picture."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sha256 = sha256(data).hexdigest()

    def get_bytes(self, sha256: str) -> bytes:
        """The picture. Raises `MissingMediaError` for any other."""
        if sha256 != self.sha256:
            raise MissingMediaError(f"there is no picture {sha256}")
        return self.data


def ask(setup: ToolSetup, picture: Image.Image, said: Sequence[str]) -> str:
    """The model's reply.

    Args:
        setup: Which model, and how patient.
        picture: What it looks at.
        said: Prompt, its reply, our next words, ...: an odd number of texts.

    Raises:
        ToolLostError: it was not reached within the retries.
        UnavailableError: it cannot be made, or refuses.
    """
    buffer = BytesIO()
    picture.save(buffer, format="PNG")
    held = _Held(buffer.getvalue())
    shown = ImagePart(sha256=held.sha256, width=picture.width, height=picture.height)
    first, *others = said
    messages = [Message(role="user", parts=(shown, TextPart(text=first)))]
    for turn, text in enumerate(others):
        messages.append(Message(role="user" if turn % 2 else "assistant", parts=(TextPart(text=text),)))
    request = Request(tuple(messages), sampling=Sampling(temperature=0.0, max_tokens=setup.max_tokens))
    try:
        return sync.run(_asked(setup, request, held))
    except ModelLostError as error:
        raise ToolLostError(f"the model {setup.model} was not reached: {error}") from error
    except ModelError as error:
        raise UnavailableError(f"the model {setup.model} did not answer: {error}") from error
    except SaccadeError as error:
        raise UnavailableError(f"the model {setup.model} cannot be used: {error}") from error


async def _asked(setup: ToolSetup, request: Request, held: _Held) -> str:
    retry = RetryPolicy(tries=_TRIES, seconds=setup.seconds, total_seconds=setup.seconds)
    model = load_model(setup.model, retry)
    try:
        return (await model.complete(request, held)).text
    finally:
        await model.close()
