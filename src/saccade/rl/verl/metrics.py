"""verl's log as our metrics.jsonl, so that `saccade report` reads a run on verl as any other.

`OUT/verl/log-N.jsonl` is the log of the N-th start; a step that was made again counts once. Numbers that have no name
of ours stay in that log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from saccade.record.disk import write_atomic
from saccade.rl.verl.journal import BEGINNING, VALIDATIONS

NAMES: Final[Mapping[str, str]] = {
    "actor/loss": "loss",
    "actor/grad_norm": "gradient_norm",
    "actor/pg_clipfrac": "clip_fraction",
    "actor/kl_loss": "kl",
    "actor/entropy_loss": "entropy",
    "actor/logprob_gap": "logprob_gap",
    "actor/lr": "learning_rate",
    "timing_s/gen": "seconds/rollouts",
    "timing_s/update_actor": "seconds/update",
    "timing_s/update_weights": "seconds/weights",
    "timing_s/testing": "seconds/validation",
}
"""verl's name of a number -> ours."""


def new_log(out: Path) -> Path:
    """The file for the log of a start that is to come."""
    return out / "verl" / f"log-{len(_logs(out))}.jsonl"


def write_metrics(out: Path, updates: int) -> int:
    """Write OUT/metrics.jsonl and OUT/samples.jsonl from verl's logs; the last step that is there.

    `updates` are those of a step.
    """
    steps: dict[int, dict[str, Any]] = {}
    for path in _logs(out):
        for line in _lines(path):
            steps[int(line["step"])] = {"step": int(line["step"]), **_ours(line["data"], updates)}
    made = [line for _, line in sorted(steps.items()) if len(line) > 1]
    held_out = {int(line["step"]): line for line in _lines(out / "verl" / VALIDATIONS)}
    answers = [
        {"step": step, **{f"validation/{name}": value for name, value in line["values"].items()}}
        for step, line in sorted(held_out.items())
    ]
    samples = [{"step": step, **sample} for step, line in sorted(held_out.items()) for sample in line["samples"]]
    _write(out / "metrics.jsonl", sorted([*made, *answers], key=lambda line: int(line["step"])))
    _write(out / "samples.jsonl", samples)
    return max(steps, default=0)


def _ours(data: Mapping[str, Any], updates: int) -> dict[str, Any]:
    found = {name.removeprefix(BEGINNING): value for name, value in data.items() if name.startswith(BEGINNING)}
    if not found:
        return {}
    mapped = {ours: data[theirs] for theirs, ours in NAMES.items() if theirs in data}
    return found | mapped | {"updates": updates if found.get("trained_rollouts") else 0}


def _logs(out: Path) -> list[Path]:
    return sorted((out / "verl").glob("log-*.jsonl"), key=lambda path: int(path.stem.removeprefix("log-")))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines alone: a process that was killed may have cut the last one."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)


def _write(path: Path, lines: list[dict[str, Any]]) -> None:
    write_atomic(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
