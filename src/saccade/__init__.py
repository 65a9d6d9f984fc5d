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
    from saccade.dialects.registry import load_dialect as load_dialect
    from saccade.episode.ask import AskOptions as AskOptions
    from saccade.episode.ask import ask as ask
    from saccade.episode.drive import NotKeptError as NotKeptError
    from saccade.episode.drive import run_episode as run_episode
    from saccade.episode.drive import run_kept as run_kept
    from saccade.episode.drive_sync import SyncPlayer as SyncPlayer
    from saccade.episode.flow import Plan as Plan
    from saccade.episode.run_folder import RunFolder as RunFolder
    from saccade.errors import SaccadeError as SaccadeError
    from saccade.evals.api import Evaluation as Evaluation
    from saccade.evals.api import evaluate as evaluate
    from saccade.evals.api import open_evaluation as open_evaluation
    from saccade.grading.base import Grader as Grader
    from saccade.grading.registry import grader_for as grader_for
    from saccade.grading.registry import load_grader as load_grader
    from saccade.media.store import MediaStore as MediaStore
    from saccade.models.base import Completion as Completion
    from saccade.models.base import MediaReader as MediaReader
    from saccade.models.base import Model as Model
    from saccade.models.base import Request as Request
    from saccade.models.base import Usage as Usage
    from saccade.models.endpoint import Endpoint as Endpoint
    from saccade.models.prices import load_prices as load_prices
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
    from saccade.record.execution import Status as Status
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
    from saccade.rewards.registry import load_reward as load_reward
    from saccade.rewards.reward import Reward as Reward
    from saccade.rewards.reward import RewardGroup as RewardGroup
    from saccade.sandbox.base import Limits as Limits
    from saccade.sandbox.base import Sandbox as Sandbox
    from saccade.sandbox.base import Session as Session
    from saccade.sandbox.base import SessionOptions as SessionOptions
    from saccade.sandbox.base import StatePolicy as StatePolicy
    from saccade.sandbox.base import VideoFile as VideoFile
    from saccade.sandbox.local import LocalSandbox as LocalSandbox
    from saccade.sandbox.remote import RemoteSandbox as RemoteSandbox
    from saccade.sandbox.result import RunResult as RunResult
    from saccade.sandbox.sync import SyncSandbox as SyncSandbox
    from saccade.tasks.own_media import task_from_files as task_from_files
    from saccade.tasks.sources.resolve import SourceDefaults as SourceDefaults
    from saccade.tasks.sources.settings import SourceSettings as SourceSettings
    from saccade.tasks.sources.task_set import TaskPool as TaskPool
    from saccade.tasks.sources.task_set import open_tasks as open_tasks
    from saccade.tasks.worlds.base import load_world as load_world
    from saccade.tools.toolbox import Toolbox as Toolbox
    from saccade.training.rl.recipe import load_recipe as load_recipe

    __version__: str

PUBLIC = {
    "Ask and play": {
        "episode.ask": "AskOptions ask",
        "episode.drive": "NotKeptError run_episode run_kept",
        "episode.drive_sync": "SyncPlayer",
        "episode.flow": "Plan",
        "episode.run_folder": "RunFolder",
        "tools.toolbox": "Toolbox",
        "errors": "SaccadeError",
    },
    "Models": {
        "models.registry": "load_model",
        "models.base": "Completion MediaReader Model Request Usage",
        "models.endpoint": "Endpoint",
        "models.providers.openai": "OpenAIModel",
        "models.prices": "load_prices",
        "models.replay": "ReplayModel",
        "core.retry": "RetryPolicy",
        "models.scripted": "ScriptedModel",
    },
    "Dialects": {
        "dialects.registry": "load_dialect",
        "dialects.base": "Dialect",
    },
    "Tasks and media": {
        "record.task": "AnswerType EvidenceBox NamedMedia Task",
        "tasks.own_media": "task_from_files",
        "tasks.sources.resolve": "SourceDefaults",
        "tasks.sources.settings": "SourceSettings",
        "tasks.sources.task_set": "TaskPool open_tasks",
        "tasks.worlds.base": "load_world",
        "media.store": "MediaStore",
    },
    "Sandboxes": {
        "sandbox.base": "Limits Sandbox Session SessionOptions StatePolicy VideoFile",
        "sandbox.local": "LocalSandbox",
        "sandbox.remote": "RemoteSandbox",
        "sandbox.result": "RunResult",
        "sandbox.sync": "SyncSandbox",
    },
    "Records": {
        "record.trajectory": "EpisodeLimits FinishReason Sampling Score StopReason Trajectory Turn",
        "record.content": "Action Answer Code ImagePart Message ParseError TextPart ToolCall VideoPart",
        "record.execution": "Execution Status",
    },
    "Grading and rewards": {
        "grading.base": "Grader",
        "grading.registry": "grader_for load_grader",
        "rewards.registry": "load_reward",
        "rewards.reward": "Reward RewardGroup",
        "training.rl.recipe": "load_recipe",
    },
    "Evaluations": {
        "evals.api": "Evaluation evaluate open_evaluation",
        "report.write": "make_report",
    },
}
"""What can be imported from `saccade`: topic -> module -> names."""

PUBLIC_MODULES = {
    "episode.flow": "Ask Call Effect Event Notice Ran Reply Run Said Stopped Wrote flow",
    "training.env": "ExactMatch Graded LookAgainEnv PicturesSpace Rewarded Rubric TextSpace register_envs",
    "errors": "*",
    "record.base": "clean_text",
    "record.codec": "append_line dumps loads read_lines recover_lines",
    "core.registry": "Registry",
    "record.trajectory": "CORRECT",
    "core.settings": "Settings differences load_settings save_settings",
    "media.modes": "fit policy",
    "media.decode": "decode",
    "models.failures": "COMMON ErrorWords",
    "models.local_text": "LocalSettings",
    "models.local_weights": "load_checkpoint",
    "models.providers.openai": "Server chat_model",
    "models.registry": "Provider",
    "core.retry": "OutageError with_retries",
    "models.base": "StopWatch apply_stops",
    "plugins.worlds.random_checkpoint": "save_tiny",
    "tools.definition": "ToolModel",
    "tools.base": "Alias Needs Tool ToolOutcome",
    "tools.context": "CallProblem ToolContext",
    "dialects.base": "Observation Opening join_texts labelled question_parts",
    "dialects.question": "TagGuard pictures_of question_text videos_of",
    "dialects.text": "answer_in code_in_block cut_middle fences outside_thoughts python_fences",
    "tasks.worlds.base": "Clip Knobs World WorldSample draw_sample make_task",
    "tasks.worlds.rng": "Rng",
    "tasks.benchmarks.card": "Card",
    "tasks.benchmarks.loaders.base": "Loader first_match",
    "tasks.benchmarks.values": "RowProblem",
    "tasks.benchmarks.row_files": "SourceRow",
    "grading.base": "Verdict gold_of judged right unread wrong",
    "evals.protocols.base": "Protocol Studied read_findings",
    "evals.protocols.findings": "Findings Mean Rate Rates SampleRow StudiedRun",
    "evals.export": "export",
    "evals.listing": "list_runs",
    "evals.requests": "read_requests with_media",
    "evals.rows": "EvalRow",
    "report.episodes": "write_pages",
    "training.sft.curate.stage": "KEEP AskStage BatchStage DatasetStage Drop FilterContext "
    "FilterOutcome FilterSettings FilterStage Keep Undecided each",
    "training.sft.formats.base": "Format",
    "training.sft.synth.experts": "ExpertFactory ExpertStopped UnfitSampleError completion",
    "rewards.judges.registry": "JudgeContext",
    "rewards.judges.verdict": "Judge JudgeVerdict",
    "rewards.reward": "RewardPreset TurnPart accuracy calls reward_each",
    "training.rl.rollout": "Advantage Rollout RolloutGroup",
    "training.rl.advantages": "AdvantageRule",
    "training.rl.select": "Selection SelectionRule best keep_usable",
    "tokens.batch": "Collator token_row",
    "tokens.build": "token_trajectory",
    "tokens.encoder": "Encoder",
    "tokens.pictures": "PictureTensors",
    "tokens.segments": "truncate",
}
"""What is promised beside them, for parts of your own and for reading what is stored: module -> names."""

_HOMES = {name: home for topic in PUBLIC.values() for home, names in topic.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if not TYPE_CHECKING:  # so that a type checker refuses a name that is not there

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used (PEP 562)."""
        from importlib import import_module

        if name == "__version__":
            return import_module("importlib.metadata").version("saccade")
        if name not in _HOMES:
            raise AttributeError(f"module 'saccade' has no attribute {name!r}")
        value = getattr(import_module(f"saccade.{_HOMES[name]}"), name)
        globals()[name] = value  # from now on an ordinary attribute
        return value
