"""`saccade rl` and `saccade sft`: train a vision-language model on its own rollouts, or on stored trajectories."""

from __future__ import annotations

import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from saccade.cli.ask import named
from saccade.cli.output import ToolNames, logged, plain_column, plain_console
from saccade.core.recipes import find_recipe, recipe_list
from saccade.core.registry import install
from saccade.errors import SettingsError, UnavailableError
from saccade.models.registry import checkpoint_named
from saccade.training.launch import is_first
from saccade.training.rl.metrics import RlCallback
from saccade.training.settings import Metrics, TrainingCallback
from saccade.training.sft.examples import SftCallback, TrainingExamples, check_run

if TYPE_CHECKING:
    from saccade.training.memory import MemoryPlan, PlannedWeights
    from saccade.training.rl.settings import OtherTrainer, RlSettings
    from saccade.training.sft.settings import SftSettings

RecipeArgument: TypeAlias = Annotated[str, typer.Argument(help="Name of a recipe (`list` names them), or a TOML file.")]
ModelOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Checkpoint to begin with: a folder, a name on the hub, or `tiny`.")
]
Out: TypeAlias = Annotated[Path, typer.Option(help="Folder of the run.")]
Resume: TypeAlias = Annotated[bool, typer.Option("--resume", help="Resume the run in OUT.")]
Several: TypeAlias = Annotated[
    int, typer.Option("--processes", min=1, help="Processes, one for each GPU; `accelerate launch` starts them too.")
]
Shard: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--shard-model/--no-shard-model",
        help="Divide weights, gradients and the optimizer's state among the processes (model.shard); a model of 7 "
        "billion weights needs it.",
    ),
]
PlanOption: TypeAlias = Annotated[
    bool, typer.Option("--plan", help="Print what each GPU will hold, and whether it fits; load and train nothing.")
]
GpuMemory: TypeAlias = Annotated[
    float | None, typer.Option(min=0.1, help="GiB of each GPU, for --plan; that of the first GPU here if not said.")
]
_NEEDED = ("torch", "transformers", "accelerate", "safetensors")


def need_training() -> None:
    """Check, before torch is imported, that it can be. Raises `UnavailableError` if it cannot be."""
    for package in _NEEDED:
        if importlib.util.find_spec(package) is None:
            raise UnavailableError(f"the package `{package}` is not installed. Run: {install('train')}")
    # Threads of torch that wait by spinning are many times slower when anything else runs on the machine.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def model_settings(model: str | None, shard: bool | None) -> dict[str, object]:
    """Return the table `model` of two options."""
    source: dict[str, object] = {} if model is None else {"source": checkpoint_named(model)}
    return source if shard is None else {**source, "shard": shard}


def show_plan(
    plan: Callable[[str, float], MemoryPlan],
    memory: float | None,
    more: Callable[[MemoryPlan], Iterable[str]] = lambda made: (),
) -> None:
    """Print what `plan(device, GiB)` gives, and `more` lines.

    Raises `SettingsError`: it does not fit, or there is neither a GPU nor a `memory`.
    """
    import torch

    if memory is None and not torch.cuda.is_available():
        raise SettingsError("there is no GPU here whose memory could be read: say how much each has, --gpu-memory 80")
    given = memory or torch.cuda.get_device_properties(0).total_memory / 2**30
    made = plan("cuda", given)
    print(made.text(given))
    for line in more(made):
        print(line)
    made.check(given)
    print("It fits.")


def with_screen(
    train: Callable[..., object], screen: Callable[[], TrainScreen], settings: Any, out: Path, resume: bool
) -> None:
    """Train, and show how far it is."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # ours is there
    with screen() as callback:
        train(settings, out, resume=resume, callback=callback)


def run(program: Callable[..., None], settings: Any, out: Path, resume: bool, processes: int) -> None:
    """Run `program(settings, out, resume)` in as many processes; after Ctrl-C a line says how to resume."""
    from saccade.training.launch import complete, launch, launched

    try:
        if launched():
            complete(program, (settings, out, resume))
        elif processes > 1:
            launch(logged(program), (settings, out, resume), processes)
        else:
            program(settings, out, resume)
    except KeyboardInterrupt:
        print(f"saccade: stopped. The same command with --resume continues from the last checkpoint in {out}.")
        raise


rl_verb = typer.Typer(add_completion=False, rich_markup_mode=None)
sft_verb = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "OUT holds settings.toml (all of them, resolved), metrics.jsonl (one line for each step), samples.jsonl, "
    "rollouts/ (a run folder; `saccade show` reads it), tensorboard/, checkpoints/, and in the end model/, which "
    "`saccade ask --model local:OUT/model` runs. The same command with --resume resumes a run that was stopped or "
    "killed. Several GPUs: --processes N, or accelerate launch --num_processes N -m saccade rl ... Exit codes: 0 "
    "trained; 2 a setting, a file or the machine is wrong; 130 stopped with Ctrl-C. docs/rl.md says what each "
    "setting does."
)


@rl_verb.command(epilog=EPILOG)
def rl(
    recipe: RecipeArgument,
    model: ModelOption = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE[=WEIGHT]",
            help="A world, a benchmark, a file or a folder (docs/your-data.md), in place of the recipe's sources. May "
            "be repeated; with weights each has its share.",
        ),
    ] = None,
    out: Out = Path("runs/rl"),
    profile: Annotated[
        str | None, typer.Option(help="Profile of the recipe, such as tiny; several with commas.")
    ] = None,
    tools: ToolNames = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the recipe (steps=20, optimizer.learning_rate=1e-5, rollout.group_size=16, tools, ...) "
            "or of the run (model.language=lora, generation.max_concurrency=64, validation.every=10, ...).",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Who samples the rollouts: vLLM or SGLang servers, http://host:port,..., or `vllm` for servers that "
            "the run starts and ends itself (engine.gpus)."
        ),
    ] = None,
    processes: Several = 1,
    shard: Shard = None,
    resume: Resume = False,
    plan: PlanOption = False,
    gpu_memory: GpuMemory = None,
    throughput: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS|FOLDER",
            help="For --plan: sampled tokens a second of the whole run, or the folder of a run like it, for hours.",
        ),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="TRAINER", help="The trainer, where it is not Saccade's own: verl on Ray (docs/engines.md)."
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="With --on verl: machines (trainer.nodes).")] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="With --on verl: GPUs of each (trainer.gpus).")] = None,
) -> None:
    """Train a checkpoint (Qwen-VL, InternVL, GLM-V, Gemma; docs/models.md) by reinforcement learning, also on verl."""
    if recipe == "list":
        print(recipe_list("rl"))
        return
    from saccade.training.rl.settings import OtherTrainer, load_rl_settings

    cluster = named(nodes=nodes, gpus=gpus)
    if cluster and on is None:
        raise SettingsError(
            f"--{next(iter(cluster))} is for another trainer, and Saccade's own is asked for. Add --on verl, or say "
            "--processes N for N GPUs of this machine."
        )
    tables = {
        "model": model_settings(model, shard),
        "tasks": named(source=tasks),
        "engine": named(source=engine),
        "trainer": {**named(name=on), **cluster},
    }
    given = {**named(tools=tools), **{name: table for name, table in tables.items() if table}}
    settings = load_rl_settings(recipe, profile, option or (), given)
    if throughput is not None and not plan:
        raise SettingsError("--throughput is for --plan; leave it out, or add --plan.")
    if isinstance(settings.trainer, OtherTrainer):
        if gpu_memory is not None:
            raise SettingsError(f"--gpu-memory is for the plan of Saccade's own trainer; with --on {on} leave it out.")
        if processes > 1:
            raise SettingsError(
                f"--processes is for Saccade's own trainer; {on} starts its own: set --nodes and --gpus."
            )
        _elsewhere(settings.trainer, settings, out, resume, throughput if plan else None, plan=plan)
    elif plan:
        _show_plan(settings, processes, gpu_memory, throughput)
    else:
        _train_here(settings, out, resume, processes)


def _elsewhere(
    trainer: OtherTrainer, settings: RlSettings, out: Path, resume: bool, throughput: str | None, *, plan: bool
) -> None:
    """Train on another trainer than Saccade's own, or with `plan` print what it will be told and asked for."""
    if plan:
        for line in (*trainer.plan(settings, out), *(f"# {line}" for line in _run_plan(settings, 1, None, throughput))):
            print(line)
        return
    for note in trainer.notes(settings):
        print(f"note: {note}")
    try:
        model = trainer.train(settings, out, resume=resume)
    except KeyboardInterrupt:
        print(f"saccade: stopped. The same command with --resume continues from the last checkpoint in {out}.")
        raise
    print(f"trained: {model}")


def _run_plan(
    settings: RlSettings, processes: int, weights: PlannedWeights | None, throughput: str | None
) -> Iterable[str]:
    from saccade.training.rl.plan import RunPlan, throughput_of

    given = {} if throughput is None else throughput_of(throughput)
    return RunPlan(settings, processes, weights, **given).lines()


def _show_plan(settings: RlSettings, processes: int, gpu_memory: float | None, throughput: str | None) -> None:
    from saccade.training.rl.settings import check_machine

    check_machine(settings)
    need_training()
    from saccade.training.rl.run import plan_memory

    show_plan(
        lambda device, gib: plan_memory(settings, processes, device, gib),
        gpu_memory,
        lambda made: _run_plan(settings, processes, made.weights, throughput),
    )


def _train_here(settings: RlSettings, out: Path, resume: bool, processes: int) -> None:
    need_training()
    from saccade.training.rl.tasks import check_run, check_sources

    check_run(settings, out, resume)
    check_sources(settings)
    run(_train, settings, out, resume, processes)


def _train(settings: RlSettings, out: Path, resume: bool) -> None:
    from saccade.training.rl.run import train

    with_screen(train, RlScreen, settings, out, resume)


SFT_EPILOG = (
    "OUT holds settings.toml (all of them, resolved), metrics.jsonl, samples.jsonl (greedy answers to held-out "
    "prompts), tensorboard/, checkpoints/, and in the end model/, which `saccade ask --model local:OUT/model` runs. "
    "With --resume the same command resumes a run that was stopped or killed, with the same result. Several GPUs: "
    "--processes N, or accelerate launch --num_processes N -m saccade sft ... Exit codes: 0 trained; 2 a setting, a "
    "file or the data are wrong; 130 stopped with Ctrl-C. docs/training.md says what each setting does."
)


@sft_verb.command(epilog=SFT_EPILOG)
def sft(
    recipe: RecipeArgument,
    data: Annotated[
        list[str] | None, typer.Option(help="Run folder to learn from. May be repeated; the order counts.")
    ] = None,
    model: ModelOption = None,
    out: Out = Path("runs/sft"),
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="optimizer.learning_rate=1e-5, batch.trajectories=64, batch.tokens=8192, model.language=lora, "
            "model.vision=projector, loss.error_turns=skip, epochs=3, "
            "data.prompt_file=mine.txt, ... A wrong name suggests the right one.",
        ),
    ] = None,
    processes: Several = 1,
    shard: Shard = None,
    resume: Resume = False,
    plan: PlanOption = False,
    gpu_memory: GpuMemory = None,
) -> None:
    """Train a checkpoint (Qwen-VL, InternVL, GLM-V, Gemma; docs/models.md) on trajectories.

    The loss is on what the model wrote, never on what it was shown.
    """
    if recipe == "list":
        print(recipe_list("sft"))
        return
    from saccade.core.settings import load_settings
    from saccade.training.sft.settings import SftSettings

    given = {"model": model_settings(model, shard), "data": named(runs=data)}
    settings = load_settings(SftSettings, find_recipe("sft", recipe), option or (), given)
    if not settings.model.source:
        raise SettingsError("no checkpoint is named: give one with --model, or as model.source in the recipe")
    if plan:
        need_training()
        from saccade.training.sft.run import plan_memory

        show_plan(lambda device, gib: plan_memory(settings, processes, device, gib), gpu_memory)
        return
    if not settings.data.runs:
        raise SettingsError("no run folder is named: give at least one with --data, or as data.runs in the recipe")
    check_run(settings, out, resume)
    need_training()
    run(_train_sft, settings, out, resume, processes)


def _train_sft(settings: SftSettings, out: Path, resume: bool) -> None:
    from saccade.training.sft.run import train

    with_screen(train, SftScreen, settings, out, resume)


_LINES = 20
"""Lines that a whole run prints where the bar cannot be drawn."""


class TrainScreen(TrainingCallback, ABC):
    """A callback that draws on standard error, for every trainer; a context manager.

    Of several processes only the first draws.
    """

    def __init__(self) -> None:
        self.console = plain_console(stderr=True)
        self.progress = Progress(
            plain_column("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            plain_column("{task.fields[summary]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            disable=not (self.console.is_terminal and is_first()),
        )
        self._steps = self.progress.add_task("Training", total=None, summary="", visible=False)
        self._total = 0

    def __enter__(self) -> Self:
        """Draw."""
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing."""
        self.progress.stop()

    def begins(self, done: int, total: int) -> None:
        """Draw the bar where it stands."""
        self._total = total
        self.progress.update(self._steps, total=total, completed=done, visible=True)

    def step(self, number: int, values: Metrics) -> None:
        """Move the bar; without a terminal, print a line now and then."""
        summary = self.summary(values)
        self.progress.update(self._steps, completed=number, summary=summary)
        if not self.console.is_terminal and (number % max(1, self._total // _LINES) == 0 or number == self._total):
            self.print(f"step {number}/{self._total}  {summary}")

    @abstractmethod
    def summary(self, values: Metrics) -> str:
        """Return the numbers of a step as a short text."""

    def saved(self, path: Path) -> None:
        """Print the folder of the trained model; checkpoints on the way are not mentioned."""
        if path.name == "model":
            self.print(f"trained model: {path}")

    def print(self, line: str) -> None:
        """Print a line above the bar."""
        self.progress.console.print(line, highlight=False, markup=False, soft_wrap=True)


class RlScreen(TrainScreen, RlCallback):
    """Shows reward, accuracy and calls of each step of `saccade rl`."""

    def __init__(self) -> None:
        super().__init__()
        self._choosing = self.progress.add_task("Choosing tasks", total=None, summary="", visible=False)

    def takes(self, sources: Sequence[str]) -> None:
        for line in sources:
            self.print(f"trained on {line}")

    def choosing(self, done: int, total: int) -> None:
        self.progress.update(self._choosing, completed=done, total=total, visible=done < total)

    def chose(self, tasks: int, total: int) -> None:
        self.print(f"{tasks} of {total} tasks have a pass rate in the curriculum's band, and are trained on")

    def summary(self, values: Metrics) -> str:
        shown = [name for name in ("reward", "accuracy", "tool_calls") if name in values]
        return "  ".join(f"{name} {values[name]:.3f}" for name in shown)

    def validated(self, number: int, values: Metrics) -> None:
        right, calls = values.get("validation/accuracy"), values.get("validation/tool_calls", 0.0)
        grade = "could not be graded" if right is None else f"{right:.1%} right"
        self.print(f"after {number} steps, held-out tasks: {grade}, {calls:.2f} calls")


class SftScreen(TrainScreen, SftCallback):
    """Shows the data of `saccade sft`, then loss and speed of each step."""

    def __init__(self) -> None:
        super().__init__()
        self._examples: TrainingExamples | None = None
        self._reading = self.progress.add_task("Reading", total=None, summary="")

    def reading(self, trajectories: int) -> None:
        """Move the first bar."""
        self.progress.update(self._reading, completed=trajectories)

    def learns_from(self, examples: TrainingExamples) -> None:
        self._examples = examples

    def begins(self, done: int, total: int) -> None:
        """Print what is learned from, and what is left out."""
        if (examples := self._examples) is not None:
            tokens = sum(len(row) for row in examples.train)
            learned = sum(int(row.trained.sum()) for row in examples.train)
            self.print(
                f"{len(examples.train)} trajectories of {tokens} tokens, {learned} of them learned; "
                f"{len(examples.validation)} held out; {total} steps" + (f", {done} of them done" if done else "")
            )
            for reason, count in examples.left_out.items():
                self.print(f"left out: {count} {reason}" + (f" ({examples.refusal})" if "token form" in reason else ""))
        self.progress.update(self._reading, visible=False)
        super().begins(done, total)

    def summary(self, values: Metrics) -> str:
        """Return loss and speed of the whole step, over all processes."""
        return f"loss {values['loss']:.4f}  {values['tokens_per_second']:.0f} tokens/s"

    def validated(self, number: int, values: Metrics) -> None:
        loss, right = values["validation_loss"], values["validation_accuracy"]
        self.print(f"step {number}: loss on held-out tasks {loss:.4f}, {right:.1%} of the tokens right")
