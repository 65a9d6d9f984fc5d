"""Select the rollouts of a step on verl, and give them advantages, by the recipe's rules.

It takes the place of verl 0.9.1's replay buffer (`trainer.v1.sampler.custom_sampler`) and uses TransferQueue's public
functions only. Groups that are played lie there under `uid`, their rollouts under `uid_number_0`. Advantages are
written in place of rewards, and verl's estimator of the plug-in takes them as they are: verl's own gets no more
than a sum for each rollout, which has neither turns nor what a selection dropped. Imports verl's environment; import
this module late.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transfer_queue
from tensordict import TensorDict

from saccade.core.settings import load_settings
from saccade.errors import TrainingError
from saccade.plugins.verl.agent_loop import Carried
from saccade.plugins.verl.launch import VerlJournal
from saccade.plugins.verl.mapping import verl_of
from saccade.plugins.verl.said import keep_warnings
from saccade.training.rl.rollout import Rollout, RolloutGroup, group_of
from saccade.training.rl.settings import RlSettings
from saccade.training.rl.step import check_judged, check_lost
from saccade.training.settings import SETTINGS

_log = logging.getLogger(__name__)
_LOOK = 0.5
"""Seconds between two looks at the queue."""
_TRAIN = "train"
_OVER = ("finished", "failure")


@dataclass(frozen=True, slots=True)
class QueuedRollout:
    """A rollout in the queue."""

    key: str
    tag: dict[str, Any]
    carried: Carried

    @property
    def uid(self) -> str:
        return self.key.split("_")[0]


class SelectingSampler:
    """Source of the rollouts of each step and of each validation for verl's trainer."""

    def __init__(self, *, sampler_kwargs: Mapping[str, Any], refill_fn: Callable[[int], object], **more: Any) -> None:
        """`sampler_kwargs.out` is the folder of the run; `refill_fn` has more tasks played. The rest is not used."""
        out = Path(sampler_kwargs["out"])
        keep_warnings(out)
        self._settings = load_settings(RlSettings, out / SETTINGS)
        self._refill = refill_fn
        self._journal = VerlJournal(out, self._settings)

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, float]]:
        """Return verl's `KVBatchMeta` of step `global_steps` (from 1), and numbers for its log.

        Raises `TrainingError`: every rollout was lost, no judge gave a verdict, or nothing was played for too long.
        """
        began = time.perf_counter()
        if partition_id != _TRAIN:
            return self._validated(global_steps, partition_id), {}
        rounds, recipe = self._settings.recipe.rounds, self._settings.recipe
        for number in range(rounds.rounds):
            if number:
                self._refill(rounds.tasks)
            queued, asked = self._finished(_TRAIN)
            groups = _groups(queued)
            check_judged(groups)
            selection = recipe.selection(groups)
            if len(selection.kept) >= rounds.groups:
                break
        check_lost(groups)
        compared = recipe.advantage(selection)
        played = [item for group in groups for item in group.rollouts]
        rollouts = list({item.id: item for item in (*played, *compared)}.values())
        trained = self._trained(queued, compared)
        batch = _batch(_TRAIN, [item for item, _ in trained], queued, asked)
        _write_advantages(batch, trained)
        seconds = time.perf_counter() - began
        return batch, self._journal.step(global_steps, rollouts, selection, [item.carried for item in queued], seconds)

    def _validated(self, step: int, partition: str) -> Any:
        queued, asked = self._finished(partition)
        self._journal.validation(step, _groups(queued))
        # verl makes numbers of its own of these, and cannot make any of none.
        return _batch(partition, [item for item in queued if _has_tokens(item)] or queued[:1], queued, asked)

    def _trained(
        self, queued: Sequence[QueuedRollout], compared: Sequence[Rollout]
    ) -> list[tuple[QueuedRollout, Rollout]]:
        """Return what enters the update: the rollouts that were selected, or one that changes nothing."""
        by_id = {item.carried.rollout.id: item for item in queued}
        if compared:
            return [(by_id[rollout.id], rollout) for rollout in compared]
        _log.warning("Nothing was selected in this step; verl has no step without an update, so advantages are 0.")
        idle = next((item for item in queued if _has_tokens(item)), None)
        if idle is None:
            raise TrainingError("no rollout of a step has a turn, so there is nothing to make a step of")
        return [(idle, idle.carried.rollout.with_advantage(0.0))]

    def _finished(self, partition: str) -> tuple[list[QueuedRollout], list[str]]:
        """Return every rollout in the queue, once nothing is being played, and the uids of all groups."""
        end = time.monotonic() + verl_of(self._settings).step_seconds
        while True:
            items: dict[str, dict[str, Any]] = (transfer_queue.kv_list(partition) or {}).get(partition, {})
            states = [tag["status"] for tag in items.values() if tag.get("is_prompt")]
            if states and all(state in _OVER for state in states):
                break
            if time.monotonic() > end:
                raise TrainingError(
                    f"episodes have not ended within {verl_of(self._settings).step_seconds:g} s (trainer.step_seconds)"
                    f": {sum(state not in _OVER for state in states)} groups of {len(states)} are being played"
                )
            time.sleep(_LOOK)
        if failed := states.count("failure"):
            _log.warning("%d of %d groups failed in part; verl's log says why.", failed, len(states))
        keys = [key for key, tag in items.items() if not tag.get("is_prompt")]
        if not keys:
            raise TrainingError("no group of a step came to an end; verl's log says why")
        fields = transfer_queue.kv_batch_get(keys=keys, partition_id=partition, select_fields=["extra_fields"])
        found = [Carried.unpacked(extra) for extra in list(fields["extra_fields"])]
        queued = [QueuedRollout(key, items[key], one) for key, one in zip(keys, found, strict=True)]
        return queued, [key for key, tag in items.items() if tag.get("is_prompt")]


def _has_tokens(item: QueuedRollout) -> bool:
    return item.carried.rollout.tokens is not None and not item.carried.rollout.lost


def _groups(queued: Sequence[QueuedRollout]) -> list[RolloutGroup]:
    """Group in the order of their tasks, each in the order of its rollouts."""
    found: dict[str, list[QueuedRollout]] = {}
    for item in queued:
        found.setdefault(item.uid, []).append(item)
    groups = [group_of([one.carried.rollout for one in sorted(items, key=_number)]) for items in found.values()]
    return sorted(groups, key=lambda group: _place(group.id))


def _number(item: QueuedRollout) -> int:
    return int(item.key.split("_")[1])


def _place(name: str) -> tuple[int, str]:
    place = name.rpartition("@")[2]
    return (int(place) if place.isdigit() else 0, name)


def _batch(partition: str, kept: Sequence[QueuedRollout], queued: Sequence[QueuedRollout], asked: Sequence[str]) -> Any:
    """Make verl's batch of what is `kept`; all else, and the marks of all groups `asked` for, leave the queue."""
    keys = [item.key for item in kept]
    gone = [item.key for item in queued if item.key not in keys] + list(asked)
    transfer_queue.kv_clear(keys=gone, partition_id=partition)
    return transfer_queue.KVBatchMeta(partition_id=partition, keys=keys, tags=[item.tag for item in kept])


def _write_advantages(batch: Any, trained: Sequence[tuple[QueuedRollout, Rollout]]) -> None:
    """Write in place of rewards, one for each token of the response."""
    rows = []
    for _, rollout in trained:
        prompt = len(rollout.trained_tokens().segments[0].ids)
        rows.append(torch.from_numpy(rollout.token_advantages()[prompt:]))
    values = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    fields = TensorDict({"rm_scores": values}, batch_size=len(rows))
    transfer_queue.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)
