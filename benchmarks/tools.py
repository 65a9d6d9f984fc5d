"""`python -m benchmarks tools`: calls of typed tools by many episodes at once, in worker processes and behind a server.

Every episode is played by the one loop with a model that answers in no time, on a drawn chart of its own. Each figure
is shown with what the tool alone allows: the same calls in plain processes, one on each core, with nothing of ours
around them. The CPU time of such a call is a row too; other programs lengthen it less. The row `in this process` has no
workers: a thread each, behind the tool's lock. A detector is measured where torch and transformers are installed: with
the weights that the setup of tools names, else with random ones.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Figure
from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.drive import equipped, run_episode
from saccade.episode.flow import Plan
from saccade.errors import ToolLostError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.plugins.worlds.charts.bars_lines import WORLD
from saccade.record.content import Answer, ToolCall
from saccade.record.task import Task
from saccade.tasks.worlds import make_task
from saccade.tools.context import ToolContext
from saccade.tools.registry import lacking, make_tool
from saccade.tools.setup import VARIABLE, tool_setup
from saccade.tools.toolbox import Toolbox
from saccade.tools.workers import close_shared_pools

DETECTOR = "grounding_dino"
CAPTION = "a red bar. a label. a line."
_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "a", "red", "bar", "label", "line")


@contextmanager
def detector(folder: Path) -> Iterator[str]:
    """Give the detector weights within the block; yield what they are, or empty if it cannot be loaded here.

    Those that the user's setup names are taken; without any, random ones are written to `folder`.
    """
    if tool_setup(DETECTOR).weights:
        yield "" if lacking(DETECTOR) else "the weights of your setup"
        return
    before = os.environ.get(VARIABLE)
    try:
        write_random_detector(folder / "weights")
    except ImportError:
        yield ""
        return
    setup = folder / "setup.toml"
    setup.write_text(f"[{DETECTOR}]\nweights = '{folder / 'weights'}'\n", encoding="utf-8")
    os.environ[VARIABLE] = str(setup)
    try:
        yield "" if lacking(DETECTOR) else "random weights"
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def write_random_detector(folder: Path) -> None:
    """Write a checkpoint as its authors' are, of about a million weights. Raises ImportError without transformers."""
    import torch
    from transformers import (
        BertConfig,
        BertTokenizer,
        GroundingDinoConfig,
        GroundingDinoForObjectDetection,
        GroundingDinoProcessor,
        SwinConfig,
    )  # fmt: skip
    from transformers.models.grounding_dino.image_processing_pil_grounding_dino import GroundingDinoImageProcessorPil

    folder.mkdir(parents=True)
    words = folder / "vocab.txt"
    words.write_text("\n".join(_WORDS) + "\n", encoding="utf-8")
    tokenizer = BertTokenizer(str(words))
    swin = SwinConfig(
        image_size=224, embed_dim=24, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 8], window_size=7,
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    bert = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
    )
    config = GroundingDinoConfig(
        backbone_config=swin, text_config=bert, d_model=64, encoder_layers=1, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=100,
        num_feature_levels=3, fusion_droppath=0.0, encoder_n_points=2, decoder_n_points=2,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        GroundingDinoForObjectDetection(config).save_pretrained(folder)
    images = GroundingDinoImageProcessorPil(size={"shortest_edge": 224, "longest_edge": 448})
    GroundingDinoProcessor(images, tokenizer).save_pretrained(folder)


CALLS: Final = 2
"""Calls of an episode."""
TOOLS: Final[Mapping[str, Mapping[str, Any]]] = {"color_stats": {}, "ocr": {}, DETECTOR: {"caption": CAPTION}}
TARGET: Final = 4.4
"""OCR calls per second of 24 episodes on two cores."""
_TARGET_EPISODES: Final = 24


@dataclass(frozen=True, slots=True)
class ToolScale:
    """Sizes of a run."""

    episodes: tuple[int, ...] = (1, 8, 24, 64)
    """Side by side."""
    cheap_calls: int = 192
    ocr_calls: int = 48

    def total(self, tool: str, at_once: int) -> int:
        """Return the episodes of a row: enough to keep `at_once` busy."""
        calls = self.cheap_calls if tool == "color_stats" else self.ocr_calls
        return max(at_once, min(calls // CALLS, 8 * at_once))


FULL_TOOLS: Final = ToolScale()
QUICK_TOOLS: Final = ToolScale(episodes=(1, 8), cheap_calls=32, ocr_calls=8)


@dataclass(frozen=True, slots=True)
class AloneFigures:
    """What a tool does in plain processes, one on each core."""

    rate: float
    """Calls per second of all together."""
    cpu_seconds: float
    """CPU time of one call."""


def measure_tools(
    scale: ToolScale, on_progress: Callable[[str], None] = lambda what: None, only: Sequence[str] = ()
) -> list[Figure]:
    """Measure every figure, or those of some of `TOOLS`. Raises `ToolLostError` if a call does not do its work."""
    with tempfile.TemporaryDirectory(prefix="saccade-bench-") as folder:
        store = MediaStore(folder)
        tasks = [make_task(WORLD, "test", index, store) for index in range(max(scale.episodes))]
        with detector(Path(folder)) as weights:
            tools = tuple(name for name in only or TOOLS if name != DETECTOR or weights)
            on_progress(
                f"the detector has {weights}" if weights else "no detector: it wants pip install saccade-vlm[local]"
            )
            with _server(tools) as url:
                figures = _rows(tools, url, scale, (store, tasks), on_progress)
    close_shared_pools()
    return [replace(item, name=f"{item.name} ({weights})") if DETECTOR in item.name else item for item in figures]


def _rows(
    names: Sequence[str],
    url: str,
    scale: ToolScale,
    material: tuple[MediaStore, Sequence[Task]],
    on_progress: Callable[[str], None],
) -> list[Figure]:
    figures = []
    store, tasks = material
    for tool in names:
        on_progress(f"{tool} alone")
        alone = _alone(tool, scale.total(tool, 8) * CALLS, store.root, tasks)
        figures.append(Figure(f"{tool} alone, CPU time of a call", 1000 * alone.cpu_seconds, "ms"))
        ways = {
            "worker processes": equipped(load_dialect("vista"), [tool]),
            "served": equipped(load_dialect("vista"), [f"{url}#{tool}"]),
        }
        in_process = (ways["worker processes"][0], Toolbox([make_tool(tool)]))
        rows: list[tuple[str, int, tuple[Dialect, Toolbox | None]]]
        rows = [("in this process", _TARGET_EPISODES, in_process)] if scale == FULL_TOOLS else []
        rows += [(way, count, box) for count in scale.episodes for way, box in ways.items()]
        for way, count, (dialect, tools) in rows:
            on_progress(f"{tool}, {count} episodes, {way}")
            assert tools is not None
            rate = asyncio.run(_rate(tool, scale.total(tool, count), count, (dialect, tools), (store, tasks)))
            figures.append(_figure(tool, count, way, rate, alone.rate, judged=scale == FULL_TOOLS))
    return figures


def _figure(tool: str, count: int, way: str, rate: float, alone: float, *, judged: bool) -> Figure:
    goal = tool == "ocr" and count == _TARGET_EPISODES and way != "in this process"
    return Figure(
        f"{tool}, {count} episodes, {way}",
        rate,
        "calls per second",
        "the tool alone on every core",
        alone,
        f"≥ {TARGET} on two cores" if goal else "",
        rate >= TARGET if goal and judged else None,
    )


async def _rate(
    tool: str,
    episodes: int,
    at_once: int,
    offered: tuple[Dialect, Toolbox],
    material: tuple[MediaStore, Sequence[Task]],
) -> float:
    """Return calls per second; the first episodes, which load the tool, are not counted."""
    store, tasks = material
    gate = asyncio.Semaphore(at_once)

    async def play(number: int) -> None:
        async with gate:
            await _episode(tool, tasks[number % len(tasks)], offered, store, number)

    await asyncio.gather(*(play(number) for number in range(min(at_once, os.cpu_count() or 1))))  # warm
    start = time.perf_counter()
    await asyncio.gather(*(play(number) for number in range(episodes)))
    return episodes * CALLS / (time.perf_counter() - start)


async def _episode(tool: str, task: Task, offered: tuple[Dialect, Toolbox], store: MediaStore, number: int) -> None:
    dialect, tools = offered
    call = dialect.write(ToolCall(name=tool, arguments=dict(TOOLS[tool])), "I look.")
    texts = [*[call] * CALLS, dialect.write(Answer(text="seen"), "Seen.")]
    limits = dialect.limits.model_copy(update={"turns": CALLS + 2})
    plan = Plan(task, dialect, given_limits=limits, rollout=number)
    played = await run_episode(plan, ScriptedModel(texts), None, store, tools=tools)
    if played.answer != "seen" or any(turn.execution and turn.execution.status != "ok" for turn in played.turns):
        raise ToolLostError(f"an episode of the benchmark ended as {played.stop}: {played.stop_detail}")


def _alone(tool: str, calls: int, root: Path, tasks: Sequence[Task]) -> AloneFigures:
    """Make the same calls in plain processes, one on each core, each with one thread."""
    cores = os.cpu_count() or 1
    pictures = [str(MediaStore(root).path(task.media[0].part.sha256)) for task in tasks]
    code = "import sys; from benchmarks.tools import plain; plain(sys.argv[1], int(sys.argv[2]), sys.argv[3:])"
    each = max(1, calls // cores)
    command = [sys.executable, "-c", code, tool, str(each), *pictures]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, env=environment) for _ in range(cores)
    ]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()  # loaded
    start = time.perf_counter()
    spent = sum(map(float, run_together(running)))
    return AloneFigures(each * cores / (time.perf_counter() - start), spent / (each * cores))


def run_together(waiting: Sequence[subprocess.Popen[bytes]]) -> list[bytes]:
    """Let processes go that wait for a line, all before the first is waited for; return what they print then.

    Raises:
        ToolLostError: one of them failed.
    """
    for process in waiting:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    printed = [process.communicate()[0] for process in waiting]
    if any(process.returncode for process in waiting):
        raise ToolLostError("a plain process of the benchmark failed; what it printed says why.")
    return printed


def plain(tool: str, calls: int, pictures: Sequence[str]) -> None:
    """Work as one of the plain processes: load, wait for a line, call, and print the CPU seconds of the calls."""
    from PIL import Image

    made = make_tool(tool)
    context = [ToolContext({"image_0": Image.open(path).convert("RGB")}) for path in pictures]
    made.call(dict(TOOLS[tool]), context[0])
    sys.stdout.write("loaded\n")
    sys.stdout.flush()
    sys.stdin.readline()
    begun = time.process_time()
    for number in range(calls):
        if not made.call(dict(TOOLS[tool]), context[number % len(context)]).ok:
            raise ToolLostError(f"{tool} failed alone")
    sys.stdout.write(f"{time.process_time() - begun}\n")


@contextmanager
def _server(tools: Sequence[str]) -> Iterator[str]:
    """Serve these tools, one worker on each core for each of them; yield the address."""
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tools.toml"
        file.write_text("".join(f'[groups.{tool}]\ntools = ["{tool}"]\nworkers = {cores}\n' for tool in tools))
        code = "import sys; from saccade.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "tools", "serve", str(file), "--port", "0", "--no-token"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                if not line:
                    raise ToolLostError("the server of the benchmark did not start; what it printed says why.")
                yield line.split()[-1]
            finally:
                process.terminate()
