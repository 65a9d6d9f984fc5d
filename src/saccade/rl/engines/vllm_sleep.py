"""A vLLM server that gives its GPU's memory back, and takes it again: `/sleep` and `/wake_up`, read in version 0.32.0.

Weights are thrown away (level 2), because new ones follow. They have room again first, are read, and only then is there
room for keys and values: what is read and what is kept need not fit beside each other. On a CPU vLLM does all of this
and keeps its memory; no server on a GPU was met.
"""

from __future__ import annotations

from typing import Literal

from saccade.errors import ModelRefusedError
from saccade.rl.engines.server_http import Connection


async def put_to_sleep(connection: Connection) -> None:
    """Raises `ModelRefusedError` if the server cannot sleep or did not; `ModelLostError` if it is not there."""
    try:
        await connection.post("/sleep?level=2")
        answer = await connection.get("/is_sleeping")
    except ModelRefusedError as error:
        raise ModelRefusedError(f"{error} {_NEEDS}") from error
    if not isinstance(answer, dict) or answer.get("is_sleeping") is not True:
        raise ModelRefusedError(f"{connection.address} was told to sleep and did not. {_NEEDS}")


async def wake_up(connection: Connection, part: Literal["weights", "kv_cache"]) -> None:
    """Let a part have memory again, weights first; raises what `put_to_sleep` raises."""
    answer = await connection.post(f"/wake_up?tags={part}")
    expected = "sleeping" if part == "weights" else "awake"
    if not isinstance(answer, dict) or answer.get("status") != expected:
        raise ModelRefusedError(f"{connection.address} did not wake: {answer!r}. {_NEEDS}")


_NEEDS = (
    "engine.shared needs vLLM servers on GPUs with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1, as the run starts "
    "them."
)
