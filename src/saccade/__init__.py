"""Saccade: vision-language models that look again, with Python in a sandbox.

The public names are the ones listed here: `PUBLIC` can be imported from `saccade` itself, each when it is first asked
for, so that `import saccade` costs nothing and pulls in neither numpy nor Pillow; `PUBLIC_MODULES` names what else is
promised and where it is. docs/api.md shows both with a line for each name. Every other name is private and may move.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it as true; importing it from `typing` would take most of the time
if TYPE_CHECKING:
    from saccade.core.retry import RetryPolicy as RetryPolicy
    from saccade.dialects.base import Dialect as Dialect
    from saccade.dialects.base import load_dialect as load_dialect
    from saccade.episode.ask import AskOptions as AskOptions
    from saccade.episode.ask import ask as ask
    from saccade.episode.drive import run_episode as run_episode
    from saccade.episode.flow import Plan as Plan
    from saccade.errors import SaccadeError as SaccadeError
    from saccade.evals.api import evaluate as evaluate
    from saccade.evals.api import open_evaluation as open_evaluation
    from saccade.grading.registry import grader_for as grader_for
    from saccade.grading.registry import load_grader as load_grader
    from saccade.media.store import MediaStore as MediaStore
    from saccade.models.base import Completion as Completion
    from saccade.models.base import MediaReader as MediaReader
    from saccade.models.base import Model as Model
    from saccade.models.base import Request as Request
    from saccade.models.base import Usage as Usage
    from saccade.models.endpoint import Endpoint as Endpoint
    from saccade.models.endpoint import load_prices as load_prices
    from saccade.models.providers.openai import OpenAIModel as OpenAIModel
    from saccade.models.registry import load_model as load_model
    from saccade.models.replay import ReplayModel as ReplayModel
    from saccade.models.scripted import ScriptedModel as ScriptedModel
    from saccade.record.content import Action as Action
    from saccade.record.content import Answer as Answer
    from saccade.record.content import Code as Code
    from saccade.record.content import ImagePart as ImagePart
    from saccade.record.content import Message as Message
    from saccade.record.content import ParseError as ParseError
    from saccade.record.content import TextPart as TextPart
    from saccade.record.content import ToolCall as ToolCall
    from saccade.record.content import VideoPart as VideoPart
    from saccade.record.execution import Execution as Execution
    from saccade.record.task import AnswerType as AnswerType
    from saccade.record.task import EvidenceBox as EvidenceBox
    from saccade.record.task import NamedMedia as NamedMedia
    from saccade.record.task import Task as Task
    from saccade.record.trajectory import EpisodeLimits as EpisodeLimits
    from saccade.record.trajectory import FinishReason as FinishReason
    from saccade.record.trajectory import Sampling as Sampling
    from saccade.record.trajectory import Score as Score
    from saccade.record.trajectory import StopReason as StopReason
    from saccade.record.trajectory import Trajectory as Trajectory
    from saccade.record.trajectory import Turn as Turn
    from saccade.report.write import make_report as make_report
    from saccade.rewards.reward import Reward as Reward
    from saccade.rewards.reward import RewardGroup as RewardGroup
    from saccade.rewards.reward import load_reward as load_reward
    from saccade.sandbox.base import Limits as Limits
    from saccade.sandbox.base import Sandbox as Sandbox
    from saccade.sandbox.base import Session as Session
    from saccade.sandbox.base import SessionOptions as SessionOptions
    from saccade.sandbox.base import VideoFile as VideoFile
    from saccade.sandbox.local import LocalSandbox as LocalSandbox
    from saccade.sandbox.remote import RemoteSandbox as RemoteSandbox
    from saccade.sandbox.result import RunResult as RunResult
    from saccade.sandbox.sync import SyncSandbox as SyncSandbox
    from saccade.tasks.media import task_from_files as task_from_files
    from saccade.tasks.sources.task_set import open_tasks as open_tasks
    from saccade.tasks.worlds import load_world as load_world
    from saccade.training.rl.recipe import load_recipe as load_recipe

    __version__: str

PUBLIC = {
    "Ask and play": {
        "episode.ask": "AskOptions ask",
        "episode.drive": "run_episode",
        "episode.flow": "Plan",
        "errors": "SaccadeError",
    },
    "Models": {
        "models.registry": "load_model",
        "models.base": "Completion MediaReader Model Request Usage",
        "models.endpoint": "Endpoint load_prices",
        "models.providers.openai": "OpenAIModel",
        "models.replay": "ReplayModel",
        "core.retry": "RetryPolicy",
        "models.scripted": "ScriptedModel",
    },
    "Dialects": {
        "dialects.base": "Dialect load_dialect",
    },
    "Tasks and media": {
        "record.task": "AnswerType EvidenceBox NamedMedia Task",
        "tasks.media": "task_from_files",
        "tasks.sources.task_set": "open_tasks",
        "tasks.worlds": "load_world",
        "media.store": "MediaStore",
    },
    "Sandboxes": {
        "sandbox.base": "Limits Sandbox Session SessionOptions VideoFile",
        "sandbox.local": "LocalSandbox",
        "sandbox.remote": "RemoteSandbox",
        "sandbox.result": "RunResult",
        "sandbox.sync": "SyncSandbox",
    },
    "Records": {
        "record.trajectory": "EpisodeLimits FinishReason Sampling Score StopReason Trajectory Turn",
        "record.content": "Action Answer Code ImagePart Message ParseError TextPart ToolCall VideoPart",
        "record.execution": "Execution",
    },
    "Grading and rewards": {
        "grading.registry": "grader_for load_grader",
        "rewards.reward": "Reward RewardGroup load_reward",
        "training.rl.recipe": "load_recipe",
    },
    "Evaluations": {
        "evals.api": "evaluate open_evaluation",
        "report.write": "make_report",
    },
}
"""What can be imported from `saccade`: topic -> module -> names."""

PUBLIC_MODULES = {
    "cli.main": "Verb",
    "core.settings": "Settings load_settings save_settings",
    "dialects.base": "Observation Opening question_parts",
    "dialects.question": "pictures_of question_text",
    "errors": "ModelLostError ModelRefusedError SandboxLostError SettingsError",
    "evals.protocols.base": "Findings Mean Protocol Rates SampleRow Studied StudiedRun",
    "evals.rows": "EpisodeExport EvalRow export",
    "evals.stored": "list_runs",
    "grading.base": "Verdict gold_of judged right wrong",
    "models.failures": "COMMON ErrorWords",
    "models.local_text": "LocalSettings",
    "models.local_weights": "load_checkpoint",
    "models.providers.openai": "Server chat_model",
    "models.registry": "Provider",
    "record.codec": "append_line dumps loads read_lines",
    "record.content": "clean_text",
    "record.trajectory": "CORRECT",
    "report.page": "write_pages",
    "rewards.judges.model": "JudgeContext",
    "rewards.reward": "JudgeVerdict accuracy calls reward_each",
    "tasks.benchmarks.card": "Card",
    "tasks.benchmarks.loaders.rows": "first_match",
    "tasks.benchmarks.row_files": "RowProblem SourceRow",
    "tasks.sources.survey": "TaskForm",
    "tasks.worlds": "Knobs Rng World WorldSample make_task",
    "tokens.batch": "Collator token_row token_trajectory",
    "tokens.encoder": "Encoder",
    "tokens.pictures": "PictureTensors",
    "tools.base": "Tool ToolOutcome",
    "tools.context": "CallProblem ToolContext",
    "tools.definition": "ToolModel",
    "tools.serving": "ToolServer",
    "training.env": "LookAgainEnv",
    "training.rl.rollout": "Rollout RolloutGroup",
    "training.rl.select": "AdvantageRule KlEstimator Selection SelectionRule best keep_usable",
    "training.rl.settings": "OtherTrainer",
    "training.sft.curate.pipeline": "KEEP Drop FilterContext FilterOutcome FilterSettings FilterStage Undecided each",
    "training.sft.formats.base": "Format",
    "training.sft.synth.settings": "ExpertFactory UnfitSampleError completion",
}
"""What is promised besides, for parts that extend Saccade and for reading what is stored: module -> names."""

_HOMES = {name: home for topic in PUBLIC.values() for home, names in topic.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if not TYPE_CHECKING:  # so that a type checker refuses a name that is not there

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used (PEP 562)."""
        from importlib import import_module

        if name == "__version__":
            return import_module("saccade.core.registry").own_version()
        if name not in _HOMES:
            raise AttributeError(f"module 'saccade' has no attribute {name!r}")
        value = getattr(import_module(f"saccade.{_HOMES[name]}"), name)
        globals()[name] = value  # from now on an ordinary attribute
        return value
