"""A model of inspect_ai as the loop asks it, and a conversation as inspect_ai's viewer shows it.

Retries, limits, caching and logs of model calls are inspect_ai's: what its model raises goes through unchanged, so a
sample that meets a limit or an outage ends as any other of its samples.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentImage,
    ContentText,
    GenerateConfig,
    Model,
)

from saccade.errors import SettingsError
from saccade.models.base import Completion, MediaReader, Request, Usage
from saccade.models.stops import apply_stops, unclosed
from saccade.record.content import ImagePart, Message, TextPart
from saccade.record.turn import FinishReason

_FINISHES = {
    "stop": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.FILTERED,
}


class InspectModel:
    """A model that inspect_ai has, as the loop asks it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name = f"inspect:{model}"

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The model's next message. Text is not told as it comes. Raises what inspect_ai's model raises."""
        if request.tools:
            raise SettingsError("this dialect speaks through function calling, which is not passed on to inspect_ai")
        sampling = request.sampling
        config = GenerateConfig(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=sampling.seed,
            max_tokens=request.max_tokens,
            stop_seqs=list(request.stop) or None,
        )
        output = await self._model.generate(chat_messages(request.messages, media), config=config)
        finish = _FINISHES.get(output.stop_reason, FinishReason.STOP)
        # Most providers swallow the stop string and name none; of closing tags it can be told which one it was.
        swallowed = unclosed(output.completion, request.stop) if finish is FinishReason.STOP else None
        text, finish = apply_stops(output.completion, request.stop, finish, swallowed=swallowed)
        used = output.usage
        usage = (
            Usage()
            if used is None
            else Usage(
                prompt_tokens=used.input_tokens + (used.input_tokens_cache_read or 0),
                cached_tokens=used.input_tokens_cache_read,
                sampled_tokens=used.output_tokens,
                dollars=used.total_cost,
            )
        )
        return Completion(text, finish, usage=usage, model=output.model)

    async def close(self) -> None:
        """Nothing: the model is inspect_ai's."""


def chat_messages(messages: Iterable[Message], media: MediaReader) -> list[ChatMessage]:
    """The messages with their pictures as data URLs. Raises `SettingsError` for a video, which has no place there."""
    return [_message(message, media) for message in messages]


def _message(message: Message, media: MediaReader) -> ChatMessage:
    content: list[Any] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            content.append(ContentText(text=part.text))
        elif isinstance(part, ImagePart):
            content.append(ContentImage(image=data_url(part, media)))
        else:
            raise SettingsError(
                "this dialect shows a video as it is, which inspect_ai's models do not take. Show its frames: "
                "settings={'frames': {'fps': 1}} and a dialect for pictures."
            )
    if message.role == "assistant":
        return ChatMessageAssistant(content=message.text)
    if message.role == "system":
        return ChatMessageSystem(content=message.text if not message.media else content)
    return ChatMessageUser(content=content)


def data_url(part: ImagePart, media: MediaReader) -> str:
    """The picture as a data URL."""
    return f"data:{part.mime};base64,{base64.b64encode(media.get_bytes(part.sha256)).decode()}"
