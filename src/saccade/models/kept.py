"""A model whose replies are kept on the disk: the same request to the same model is asked once.

A reply is found by the model's name and everything in the request, its seed included; so whoever wants another reply to
the same messages asks with another seed. That a provider changes a model under the same name is not noticed. Token ids
and log-probabilities are not kept: a kept reply is for reading, not for training.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from saccade.errors import SettingsError
from saccade.models.base import Completion, MediaReader, Model, Request
from saccade.record.action import ToolCall
from saccade.record.base import Record, Text, clean_text
from saccade.record.disk import write_atomic
from saccade.record.turn import FinishReason

_log = logging.getLogger(__name__)


class _Reply(Record):
    text: Text
    finish: FinishReason = FinishReason.STOP
    tool_calls: tuple[ToolCall, ...] = ()
    model: Text = ""


class KeptModel:
    """Asks `model` for what `folder` does not hold yet. Any number of processes may share a folder."""

    def __init__(self, model: Model, folder: Path, *, before: Callable[[Request], str] | None = None) -> None:
        """`before` gives what earlier versions took the digest of, where a folder may hold replies of theirs."""
        self.name = model.name
        self._model = model
        self._folder = folder
        self._before = before

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The kept reply, or a new one that is kept. Raises what the model raises; a failure is not kept.

        Raises:
            SettingsError: a file of the folder is no kept reply, or the provider's sandbox is asked for.
        """
        if request.hosted:
            raise SettingsError("replies with calls of a provider's own sandbox are not kept; ask the model itself")
        file = self._file(self._asked(request))
        if self._before is not None and not file.exists() and (old := self._file(self._before(request))).exists():
            file = old
        try:
            reply = _Reply.model_validate_json(file.read_bytes())
        except FileNotFoundError:
            completion = await self._model.complete(request, media, on_text=on_text)
            _write(file, completion)
            return completion
        except ValidationError as error:
            raise SettingsError(f"{file} is no kept reply of a model; delete it: {error}") from error
        _log.debug("%s: kept reply %s.", self.name, file.stem[:12])
        if on_text is not None and reply.text:
            on_text(reply.text)
        return Completion(text=reply.text, finish=reply.finish, tool_calls=reply.tool_calls, model=reply.model)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    def _asked(self, request: Request) -> str:
        asked = {
            "model": self.name,
            "messages": [message.model_dump(mode="json") for message in request.messages],
            "stop": request.stop,
            "sampling": request.sampling.model_dump(mode="json"),
            "tools": [[tool.name, tool.description, tool.parameters] for tool in request.tools],
        }
        return json.dumps(asked, sort_keys=True)

    def _file(self, asked: str) -> Path:
        digest = sha256(asked.encode()).hexdigest()
        return self._folder / digest[:2] / f"{digest}.json"


def _write(file: Path, completion: Completion) -> None:
    reply = _Reply(
        text=clean_text(completion.text),
        finish=completion.finish,
        tool_calls=completion.tool_calls,
        model=clean_text(completion.model),
    )
    write_atomic(file, reply.model_dump_json())
