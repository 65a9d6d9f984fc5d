r"""A model that says what it was told to say: for tests, demos and measurements without a key or a GPU.

    model = ScriptedModel(["<code>1 + 1</code>", "<answer>2</answer>"])      # one text after the other
    model = ScriptedModel(lambda messages: f"I read {len(messages)} messages")

Stop strings and `max_tokens` cut a text as they do on a real backend. A token is one word (`\w+`) or any other single
character; that is a rule for counting, not a tokenizer, and there are no token ids. A list is played once, by whoever
asks first: episodes that run side by side need a function or a model each. `temperature` and `seed` change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from saccade.errors import ModelRefusedError, SettingsError
from saccade.models.base import Completion, MediaReader, Request, StopWatch, Usage
from saccade.models.registry import Provider
from saccade.record.content import Message
from saccade.record.trajectory import FinishReason

Reply = str | Completion | BaseException
"""A text; a whole completion, given as it is; or an exception, raised."""
Script = Sequence[Reply] | Callable[[tuple[Message, ...]], Reply]

_TOKEN = re.compile(r"\w+|\W")


class ScriptedModel:
    """Plays a list of replies, or asks a function for each."""

    def __init__(self, script: Script, *, name: str = "scripted") -> None:
        self.name = name
        self._script = script if callable(script) else tuple(script)
        self._played = 0

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the next reply; `on_text` hears it token by token. Raises `ModelRefusedError` after the last one."""
        reply = self._next(request)
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, Completion):
            if on_text is not None and reply.text:
                on_text(reply.text)
            return replace(reply, model=reply.model or self.name)
        return speak(reply, request, self.name, on_text)

    async def close(self) -> None:
        """Do nothing: nothing is held that needs closing."""

    def _next(self, request: Request) -> Reply:
        if callable(self._script):
            return self._script(request.messages)
        if self._played >= len(self._script):
            raise ModelRefusedError(
                f"the script of {self.name} has {len(self._script)} replies and was asked for one more. "
                "Add replies, or give a function of the messages."
            )
        self._played += 1
        return self._script[self._played - 1]


def scripted_from_file(path: Path) -> ScriptedModel:
    """Return the model that plays the JSON list of texts in `path`. Raises `SettingsError` where there is none."""
    try:
        texts = TypeAdapter(list[str]).validate_json(path.read_bytes(), strict=True)
    except (OSError, ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no JSON list of texts"
        raise SettingsError(f"{path} is no script: {reason}. Write a JSON list of texts, one for each turn.") from error
    return ScriptedModel(texts, name=f"scripted:{path}")


def speak(text: str, request: Request, model: str, on_text: Callable[[str], None] | None = None) -> Completion:
    """Return what a backend gives when its model, named `model`, would write next `text`: cut and counted as above."""
    watch = StopWatch(request.stop)
    limit = request.max_tokens
    finish = FinishReason.STOP
    sampled = 0
    for token in _TOKEN.findall(text):
        if watch.stopped is not None:
            break
        if sampled == limit:
            finish = FinishReason.LENGTH
            break
        sampled += 1
        piece = watch.feed(token)
        if on_text is not None:
            on_text(piece)
    if watch.stopped is not None:
        finish = FinishReason.STOP_STRING
    prompt = sum(len(_TOKEN.findall(message.text)) for message in request.messages)
    return Completion(
        text=watch.text, finish=finish, usage=Usage(prompt_tokens=prompt, sampled_tokens=sampled), model=model
    )


SCRIPTED = Provider(
    name="scripted",
    description="A JSON list of texts, played in order, as in `scripted:FILE.json`.",
    make=lambda provider, name: scripted_from_file(Path(name)),
    samples=False,
    stop_strings="the script's reader",
    continues=True,
)
