"""The agent loop that verl 0.9.1 calls for each rollout (`verl/experimental/agent_loop/agent_loop.py`).

An output has the ids as they were played; nothing is tokenised twice and nothing is cut. A rollout that is lost, or
ended before a turn was written, is one token that nothing trains on: the sampler drops it. Imports verl.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from saccade.plugins.verl.agent_loop import (
    AskedRollout,
    Carried,
    EpisodeWorker,
    PlayedRollout,
    keep_text_plain,
    open_worker,
)
from saccade.tokens.segments import image_parts

_workers: dict[Path, asyncio.Task[EpisodeWorker]] = {}


class SaccadeLoop(AgentLoopBase):  # type: ignore[misc]
    """One rollout of a recipe."""

    def __init__(self, *args: Any, out: str, **more: Any) -> None:
        """`out` is the folder of the run; everything else is verl's."""
        super().__init__(*args, **more)
        self._out = Path(out)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Return the rollout of a row of the run's data set; how it is sampled is the recipe's."""
        keep_text_plain(self.processor)
        if self._out not in _workers:
            _workers[self._out] = asyncio.ensure_future(open_worker(self._out))
        worker = await asyncio.shield(_workers[self._out])
        more = row["extra_info"]
        asked = AskedRollout(
            str(row["uid"]), int(row["session_id"]), int(more["index"]), str(more["task"]), bool(more["validation"])
        )
        return _output(await worker.play(asked, self.server_manager), worker.policy.encoder.end_id)


def _output(played: PlayedRollout, end_id: int) -> AgentLoopOutput:
    rollout, engine, timing = played.rollout, played.engine, played.timing
    versions = engine.versions or [0]
    carried = Carried(rollout, timing.decoding, timing.waiting, timing.replayed)
    extra = {
        # verl 0.9.1 ends the run without these two.
        "min_global_steps": min(versions),
        "max_global_steps": max(versions),
        "reward_extra_info": {},
        **carried.packed(),
    }
    tokens = rollout.tokens
    if tokens is None:
        ids, prompt, mask, logprobs, images = [end_id, end_id], 1, [False], [0.0], []
    else:
        ids, prompt = tokens.ids().tolist(), len(tokens.segments[0].ids)
        mask = tokens.loss_mask()[prompt:].tolist()
        logprobs = np.nan_to_num(tokens.logprobs()[prompt:], nan=0.0).tolist()
        images = [engine.image(part) for part in image_parts(tokens.pictures, engine.name)]
    return AgentLoopOutput(
        prompt_ids=ids[:prompt],
        response_ids=ids[prompt:],
        response_mask=[int(sampled) for sampled in mask],
        response_logprobs=logprobs,
        multi_modal_data={"images": images} if images else {},
        reward_score=float(rollout.reward.total or 0.0),
        num_turns=2 * len(rollout.trajectory.turns),
        metrics=AgentLoopMetrics(generate_sequences=timing.decoding, tool_calls=timing.waiting),
        extra_fields=extra,
    )
