"""Saccade: vision-language models that look again, with Python in a sandbox.

The public names of the package. Each is imported when it is first asked for, so that `import saccade` costs
nothing and pulls in neither numpy nor Pillow. It promises no other name: what is not listed here may move.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saccade.episode.ask import ask
    from saccade.errors import SaccadeError
    from saccade.evals.api import Evaluation, evaluate, open_evaluation
    from saccade.media.store import MediaStore
    from saccade.record.action import Answer, Code, ParseError, ToolCall
    from saccade.record.content import ImagePart, Message, TextPart, VideoPart
    from saccade.record.execution import Execution
    from saccade.record.score import Score
    from saccade.record.status import Status
    from saccade.record.task import Task
    from saccade.record.trajectory import Trajectory
    from saccade.record.turn import Turn
    from saccade.report.api import make_report
    from saccade.sandbox.base import Sandbox, Session, SessionOptions
    from saccade.sandbox.limits import Limits
    from saccade.sandbox.local import LocalSandbox
    from saccade.sandbox.remote import RemoteSandbox
    from saccade.sandbox.result import RunResult
    from saccade.sandbox.sync import SyncSandbox

__all__ = [
    "Answer",
    "Code",
    "Evaluation",
    "Execution",
    "ImagePart",
    "Limits",
    "LocalSandbox",
    "MediaStore",
    "Message",
    "ParseError",
    "RemoteSandbox",
    "RunResult",
    "SaccadeError",
    "Sandbox",
    "Score",
    "Session",
    "SessionOptions",
    "Status",
    "SyncSandbox",
    "Task",
    "TextPart",
    "ToolCall",
    "Trajectory",
    "Turn",
    "VideoPart",
    "ask",
    "evaluate",
    "make_report",
    "open_evaluation",
]

_HOMES = {
    "Answer": "record.action",
    "Code": "record.action",
    "Evaluation": "evals.api",
    "Execution": "record.execution",
    "ImagePart": "record.content",
    "Limits": "sandbox.limits",
    "LocalSandbox": "sandbox.local",
    "MediaStore": "media.store",
    "Message": "record.content",
    "ParseError": "record.action",
    "RemoteSandbox": "sandbox.remote",
    "RunResult": "sandbox.result",
    "SaccadeError": "errors",
    "Sandbox": "sandbox.base",
    "Score": "record.score",
    "Session": "sandbox.base",
    "SessionOptions": "sandbox.base",
    "Status": "record.status",
    "SyncSandbox": "sandbox.sync",
    "Task": "record.task",
    "TextPart": "record.content",
    "ToolCall": "record.action",
    "Trajectory": "record.trajectory",
    "Turn": "record.turn",
    "VideoPart": "record.content",
    "ask": "episode.ask",
    "evaluate": "evals.api",
    "make_report": "report.api",
    "open_evaluation": "evals.api",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name == "__version__":
        return import_module("importlib.metadata").version("saccade")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'saccade' has no attribute {name!r}")
    return getattr(import_module(f"saccade.{home}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
