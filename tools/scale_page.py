"""Writes the figures of docs/scale.md, and what follows from them, from docs/scale.json: `make scale`.

The JSON is what `saccade bench scale --json docs/scale.json` wrote; a test fails while the page is another than this
makes of it. Everything that is assumed rather than measured is a constant here and a row of the page.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "scale.md"
FIGURES = ROOT / "docs" / "scale.json"

GPU_BYTES, GPU_BANDWIDTH, IN_USE = 80e9, 3.35e12, 0.9
REACH = 0.5
TURNS, TOKENS, PROMPT, PICTURE = 10, 300, 700, 999
LOADED = 0.7
GPUS, NODES, NODE_CORES = 8, 64, 112
NETWORK = 50e9
"""Bytes per second of one of a node's ports."""


@dataclass(frozen=True)
class Policy:
    """A checkpoint in bfloat16, and how many GPUs serve a copy of it."""

    name: str
    parameters: float
    layers: int
    key_value_heads: int
    gpus: int

    @property
    def weights(self) -> float:
        """Bytes."""
        return 2 * self.parameters

    @property
    def cache(self) -> int:
        """Bytes of a token's keys and values, heads of 128."""
        return 2 * self.layers * self.key_value_heads * 128 * 2


POLICIES = (Policy("7B", 8.29e9, 28, 4, 1), Policy("32B", 33.5e9, 64, 8, 2))


@dataclass(frozen=True)
class Measured:
    """What the arithmetic takes from a run; of several sizes the largest."""

    host_ms: float
    box_ms: float
    host_mib: float
    box_mib: float
    sent: float
    """MB that one picture takes in a request."""
    kept: float
    """MB that a turn's picture takes on the disk."""

    @classmethod
    def of(cls, report: dict[str, Any]) -> Measured:
        """From the JSON of a run."""
        rows = [row for row in report["figures"] if re.match(r"\d+ (local|remote): ", row["name"])]

        def most(name: str, key: str) -> float:
            return max(row[key] for row in rows if name in row["name"])

        looks = next(int(found[1]) for row in rows if (found := re.search(r"engine, (\d+) turns", row["name"]))) - 1
        return cls(
            most("CPU of the host", "value"),
            most("CPU of the host", "other"),
            most("memory of the host, peak", "value"),
            most("memory of the host, peak", "other"),
            most("sent to the engine", "value") / ((looks + 2) / 2),
            most("sent to the engine", "other") * (looks + 1) / looks,
        )


@dataclass(frozen=True)
class Rate:
    """How fast a policy can be at most, and what that asks of everything around the GPUs."""

    policy: Policy

    @property
    def context(self) -> float:
        """Mean tokens that an episode holds while it decodes."""
        return PROMPT + PICTURE + (TURNS - 1) / 2 * (TOKENS + PICTURE) + TOKENS / 2

    @property
    def episodes(self) -> float:
        """That one copy decodes at once."""
        room = self.policy.gpus * GPU_BYTES * IN_USE - self.policy.weights
        return room / (self.context * self.policy.cache)

    @property
    def step(self) -> float:
        """Seconds of a token: weights and all keys and values are read once."""
        read = self.policy.weights + self.episodes * self.context * self.policy.cache
        return read / (self.policy.gpus * GPU_BANDWIDTH) / REACH

    @property
    def turns(self) -> float:
        """Per second and GPU."""
        return self.episodes / self.step / TOKENS / self.policy.gpus


def figures_table(report: dict[str, Any]) -> str:
    """The figures as the command prints them."""
    machine = report["machine"]
    busy = "; other work ran beside it: trust ratios only" if machine["busy"] else ""
    head = (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, Python {machine['python']}, "
    )
    lines = [f"{head}load {machine['load']:.2f}{busy}.", "", "| what | value | beside | that | ratio | target | |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in report["figures"]:
        other, value = row["other"], row["value"]
        ratio = "" if not other else f"{value / other:.2f}"
        verdict = {None: "not judged", True: "met", False: "missed"}[row["met"]] if row["target"] else ""
        shown = "" if other is None else f"{other:.3g}"
        lines.append(
            f"| {row['name']} | {value:.3g} {row['unit']} | {row['beside']} | {shown} | {ratio} | {row['target']} "
            f"| {verdict} |"
        )
    return "\n".join(lines)


def worked_out(measured: Measured) -> str:
    """A column for each policy, a row for each step of the arithmetic."""
    pictures = (TURNS + 1) / 2
    rows: list[tuple[str, str, list[str]]] = []

    def row(name: str, how: str, cells: list[str]) -> None:
        rows.append((name, how, cells))

    rates = [Rate(policy) for policy in POLICIES]
    node = [GPUS * rate.turns for rate in rates]
    row("GPUs of a copy", "assumed", [f"{rate.policy.gpus}" for rate in rates])
    row(
        "keys and values of a token, kB",
        "2 × layers × heads × 128 × 2 bytes",
        [_n(r.policy.cache / 1e3) for r in rates],
    )
    row(
        "mean context, tokens",
        f"{PROMPT} + {PICTURE} + {(TURNS - 1) / 2:g} × ({TOKENS} + {PICTURE}) + {TOKENS // 2}",
        [_n(r.context) for r in rates],
    )
    row(
        "episodes that a copy decodes at once",
        "(GPUs × 80 GB × 0.9 − weights) ÷ (context × keys and values)",
        [_n(r.episodes) for r in rates],
    )
    row(
        "ms of a token",
        f"(weights + keys and values of all) ÷ (GPUs × 3.35 TB/s) ÷ {REACH:g}",
        [_n(1000 * r.step) for r in rates],
    )
    row("turns a second of a GPU", f"episodes ÷ seconds of a token ÷ {TOKENS} ÷ GPUs", [_n(r.turns) for r in rates])
    row("**node:** turns a second", f"× {GPUS}", [_n(value) for value in node])
    row("episodes at once", "copies × episodes", [_n(GPUS / r.policy.gpus * r.episodes) for r in rates])
    row(
        "cores for sandboxes",
        f"turns × {measured.box_ms:.0f} ms ÷ {LOADED:g}",
        [_n(v * measured.box_ms / 1000 / LOADED) for v in node],
    )
    row("the same for each GPU", f"÷ {GPUS}", [_n(v * measured.box_ms / 1000 / LOADED / GPUS) for v in node])
    row(
        "cores of the host",
        f"turns × {measured.host_ms:.0f} ms ÷ {LOADED:g}",
        [_n(v * measured.host_ms / 1000 / LOADED) for v in node],
    )
    row(
        "memory of sandboxes, GiB",
        f"episodes × {measured.box_mib:.1f} MiB",
        [_n(GPUS / r.policy.gpus * r.episodes * measured.box_mib / 1024) for r in rates],
    )
    row(
        "to the engines, MB/s",
        f"turns × {pictures:g} pictures × {measured.sent:.2f} MB",
        [_n(v * pictures * measured.sent) for v in node],
    )
    row("from the sandboxes, MB/s", f"turns × {measured.kept:.2f} MB", [_n(v * measured.kept) for v in node])
    row("to the disk, TB a day", "the same × 86,400 s", [_n(v * measured.kept * 86_400 / 1e6) for v in node])
    row(f"**{NODES} nodes:** turns a second", f"× {NODES}", [_n(v * NODES) for v in node])
    row("episodes at once", f"× {NODES}", [_n(NODES * GPUS / r.policy.gpus * r.episodes) for r in rates])
    cores = [v * NODES * measured.box_ms / 1000 / LOADED for v in node]
    row("cores for sandboxes", f"× {NODES}", [_n(v) for v in cores])
    row(
        f"hosts of {NODE_CORES} cores for them", f"÷ {NODE_CORES}, rounded up", [_n(-(-v // NODE_CORES)) for v in cores]
    )
    row(
        "cores of the hosts of episodes", f"× {NODES}", [_n(v * NODES * measured.host_ms / 1000 / LOADED) for v in node]
    )
    row("from the sandboxes, GB/s", f"× {NODES}", [_n(v * NODES * measured.kept / 1e3) for v in node])
    row("to the disk, TB a day", f"× {NODES}", [_n(v * NODES * measured.kept * 86_400 / 1e6) for v in node])
    row(
        "weights from the shared disk for an update, TB",
        f"{NODES} × weights, once a node",
        [_n(NODES * r.policy.weights / 1e12) for r in rates],
    )
    head = ["| | how | " + " | ".join(policy.name for policy in POLICIES) + " |", "|---|---|" + "---|" * len(POLICIES)]
    return "\n".join([*head, *(f"| {name} | {how} | {' | '.join(cells)} |" for name, how, cells in rows)])


def page(text: str, report: dict[str, Any]) -> str:
    """`text` with what is between its marks written anew."""
    for mark, block in (("figures", figures_table(report)), ("worked out", worked_out(Measured.of(report)))):
        start, end = f"<!-- {mark} -->\n", f"\n<!-- end of {mark} -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        if not found:
            raise SystemExit(f"{PAGE} has no place for {mark}: {start.strip()} ... {end.strip()}")
        text = f"{before}{start}\n{block}\n{end}{after}"
    return text


def _n(value: float) -> str:
    """Three figures, thousands with commas."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), json.loads(FIGURES.read_text(encoding="utf-8"))), "utf-8")
