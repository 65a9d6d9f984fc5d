"""Writes the figures of docs/scale.md, and what follows from them, from docs/scale.json: `make scale`.

`python -m benchmarks scale --out docs/scale.json` writes the JSON; while there is none, the page says so. A test fails
while the page is another than this makes of it. All that is assumed is a constant here and a row of the page.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
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
SIZES = ["64", "256", "1024"]
"""Of a whole run."""
MISSING = "*Not measured yet on a machine with nothing else to do: `make scale` writes it here.*"


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
            return max(float(row[key]) for row in rows if name in row["name"])

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


def _command(report: dict[str, Any]) -> str:
    """What printed the report, by what is in it."""
    command, names = "python -m benchmarks scale", [row["name"] for row in report["figures"]]
    if all(row["met"] is None for row in report["figures"]):
        return f"{command} --quick"
    sizes = list(dict.fromkeys(found[1] for name in names if (found := re.match(r"(\d+) (?:local|remote):", name))))
    if sizes != SIZES:
        command += "".join(f" --episodes {number}" for number in sizes)
    return command if any(name.startswith("growth ") for name in names) else f"{command} --many 0"


def figures_table(report: dict[str, Any]) -> str:
    """The figures as the command prints them."""
    machine = report["machine"]
    busy = "; other work ran beside it: trust ratios only" if machine["busy"] else ""
    head = (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, Python {machine['python']}, "
    )
    lines = [
        f"Printed by `{_command(report)}` on {head}load {machine['load']:.2f}{busy}.",
        "",
        "| what | value | beside | that | ratio | target | |",
    ]
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


Row = tuple[str, str, list[float]]
"""What, how it follows, and a value for each policy."""


def of_gpus(rates: Sequence[Rate]) -> list[Row]:
    """What GPUs allow, of which nothing is measured here."""
    context = f"{PROMPT} + {PICTURE} + {(TURNS - 1) / 2:g} × ({TOKENS} + {PICTURE}) + {TOKENS // 2}"
    room = f"(GPUs × 80 GB × {IN_USE:g} − weights) ÷ (context × keys and values)"
    token = f"(weights + keys and values of all) ÷ (GPUs × 3.35 TB/s) ÷ {REACH:g}"
    copies = [GPUS / rate.policy.gpus for rate in rates]
    return [
        ("GPUs of a copy", "assumed", [rate.policy.gpus for rate in rates]),
        ("keys and values of a token, kB", "2 × layers × heads × 128 × 2 bytes", [r.policy.cache / 1e3 for r in rates]),
        ("mean context, tokens", context, [rate.context for rate in rates]),
        ("episodes that a copy decodes at once", room, [rate.episodes for rate in rates]),
        ("ms of a token", token, [1000 * rate.step for rate in rates]),
        ("seconds of a turn", f"× {TOKENS}", [TOKENS * rate.step for rate in rates]),
        ("turns a second of a GPU", "episodes ÷ seconds of a turn ÷ GPUs", [rate.turns for rate in rates]),
        ("**node:** turns a second", f"× {GPUS}", [GPUS * rate.turns for rate in rates]),
        ("episodes at once", "copies × episodes", [n * r.episodes for n, r in zip(copies, rates, strict=True)]),
        (f"**{NODES} nodes:** turns a second", f"× {NODES}", [NODES * GPUS * rate.turns for rate in rates]),
        (
            "weights for an update, TB",
            f"{NODES} × weights, once a node",
            [NODES * r.policy.weights / 1e12 for r in rates],
        ),
    ]


def of_hosts(rates: Sequence[Rate], measured: Measured) -> list[Row]:
    """What that asks of everything around the GPUs of a node, and of all nodes."""
    turns = [GPUS * rate.turns for rate in rates]
    episodes = [GPUS / rate.policy.gpus * rate.episodes for rate in rates]
    pictures = (TURNS + 1) / 2
    node: list[Row] = [
        ("cores for sandboxes", f"turns × {measured.box_ms:.0f} ms ÷ {LOADED:g}", [measured.box_ms / 1e3 / LOADED]),
        ("cores of the host", f"turns × {measured.host_ms:.0f} ms ÷ {LOADED:g}", [measured.host_ms / 1e3 / LOADED]),
        ("to the engines, MB/s", f"turns × {pictures:g} × {measured.sent:.2f} MB", [pictures * measured.sent]),
        ("from the sandboxes, MB/s", f"turns × {measured.kept:.2f} MB", [measured.kept]),
        ("to the disk, TB a day", "the same × 86,400 s", [measured.kept * 86_400 / 1e6]),
    ]
    node = [(what, how, [each * value for each in turns]) for what, how, (value,) in node]
    cores, host = node[0][2], node[1][2]
    node.insert(1, ("cores for sandboxes, for each GPU", f"÷ {GPUS}", [value / GPUS for value in cores]))
    memory = [each * measured.box_mib / 1024 for each in episodes]
    node.append(("memory of sandboxes, GiB", f"episodes × {measured.box_mib:.1f} MiB", memory))
    memory = [each * measured.host_mib / 1024 for each in episodes]
    node.append(("memory of the host, GiB", f"episodes × {measured.host_mib:.1f} MiB", memory))
    processes = [float(math.ceil(value)) for value in host]
    node.append(("processes that play, at least", "cores of the host, rounded up", processes))
    nodes = [(what, f"× {NODES}", [NODES * value for value in values]) for what, _, values in node if "GPU" not in what]
    hosts = [float(math.ceil(NODES * value / NODE_CORES)) for value in cores]
    nodes.append((f"hosts of {NODE_CORES} cores for sandboxes", f"÷ {NODE_CORES}, rounded up", hosts))
    return [*_named("node", node), *_named(f"{NODES} nodes", nodes)]


def _named(whose: str, rows: Sequence[Row]) -> list[Row]:
    return [(f"**{whose}:** {rows[0][0]}", *rows[0][1:]), *rows[1:]]


def table(rows: Sequence[Row]) -> str:
    """In Markdown; three figures, thousands with commas."""
    head = f"| | how | {' | '.join(policy.name for policy in POLICIES)} |\n|---|---|{'---|' * len(POLICIES)}"
    shown = [(what, how, [f"{v:,.0f}" if v >= 100 else f"{v:.3g}" for v in values]) for what, how, values in rows]
    return "\n".join([head, *(f"| {what} | {how} | {' | '.join(values)} |" for what, how, values in shown)])


def stored() -> dict[str, Any] | None:
    """The report of the last run, None where there is none."""
    return json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else None


def page(text: str, report: dict[str, Any] | None) -> str:
    """`text` with what is between its marks written anew."""
    rates = [Rate(policy) for policy in POLICIES]
    blocks = {"figures": MISSING, "GPUs": table(of_gpus(rates)), "hosts": MISSING}
    if report is not None:
        blocks["figures"] = figures_table(report)
        blocks["hosts"] = table(of_hosts(rates, Measured.of(report)))
    for mark, block in blocks.items():
        start, end = f"<!-- {mark} -->\n", f"\n<!-- end of {mark} -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        if not found:
            raise SystemExit(f"{PAGE} has no place for {mark}: {start.strip()} ... {end.strip()}")
        text = f"{before}{start}\n{block}\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), stored()), "utf-8")
