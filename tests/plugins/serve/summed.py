"""Answers of the test server with the sum of the tokens, which some clients insist on."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse
from tests.models.wire_server import Behaviour, chat


def summed(behaviour: Behaviour) -> Behaviour:
    """The behaviour, with `total_tokens` in its usage."""

    async def behave(body: dict[str, Any]) -> Response:
        answer = json.loads(bytes((await behaviour(body)).body))
        usage = answer["usage"]
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        return JSONResponse(answer)

    return behave


def says(*texts: str) -> list[Behaviour]:
    """One answer after the other."""
    return [summed(chat(text)) for text in texts]
