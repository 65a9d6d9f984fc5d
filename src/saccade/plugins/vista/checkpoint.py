"""A checkpoint that a tool holds: loaded once, on the device and in the format that the setup of tools names.

Nothing of a checkpoint is run but what transformers itself knows (`trust_remote_code` is never set).
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from saccade.core.plugins import install
from saccade.errors import UnavailableError
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.definition import Cost, Needs, ToolModel
from saccade.tools.setup import SetupEntry, ToolSetup, tool_setup

T = TypeVar("T")
A = TypeVar("A", bound=ToolModel)
R = TypeVar("R", bound=ToolModel)
S = TypeVar("S")
_INSTALL: Final = install("local")
_log = logging.getLogger(__name__)


def checkpoint_needs(tool: str, weights: str, example: str) -> Needs:
    """Return the needs of a tool that loads a checkpoint.

    Args:
        tool: Its name, and that of its table in the setup.
        weights: Which, how large and under which licence.
        example: A hub name that fits.
    """
    return Needs(("torch", "transformers"), weights, _INSTALL, SetupEntry(tool, "weights", example))


@dataclass(frozen=True, slots=True)
class Placed:
    """Where and how a model runs."""

    setup: ToolSetup
    device: str
    dtype: Any
    """Of torch."""

    @property
    def hub(self) -> dict[str, Any]:
        """Arguments of every `from_pretrained`."""
        revision = {"revision": self.setup.revision} if self.setup.revision else {}
        return {"trust_remote_code": False, **revision}


class CheckpointSlot(Generic[T]):
    """Weights that a tool loads on its first call and keeps; safe for several threads."""

    def __init__(self, tool: str, load: Callable[[Placed], T]) -> None:
        self._tool = tool
        self._load = load
        self._lock = threading.Lock()
        self._held: tuple[ToolSetup, T] | None = None

    def get(self) -> T:
        """Return the loaded thing; loaded anew if the setup changed.

        Raises:
            UnavailableError: it cannot be loaded; says why.
        """
        setup = tool_setup(self._tool)
        with self._lock:
            if self._held is None or self._held[0] != setup:
                self._held = (setup, self._loaded(setup))
            return self._held[1]

    def _loaded(self, setup: ToolSetup) -> T:
        import torch

        device = setup.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            loaded = self._load(Placed(setup, device, getattr(torch, setup.dtype)))
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise UnavailableError(f"the weights {setup.weights!r} of {self._tool} cannot be loaded: {why}") from error
        _log.info("%s holds %s on %s", self._tool, setup.weights, device)
        return loaded


class CheckpointTool(Tool[A, R], Generic[A, R, S]):
    """A tool whose calls that arrive together become one pass of its checkpoint."""

    cost = Cost.HEAVY

    def __init__(self) -> None:
        self._slot: CheckpointSlot[Any] = CheckpointSlot(self.name, self._loaded)

    @abstractmethod
    def _loaded(self, placed: Placed) -> Any:
        """Load processor and model."""

    @abstractmethod
    def _seen(self, arguments: A, context: ToolContext) -> S:
        """Return what the model is to look at for one call. Raises as `run`."""

    @abstractmethod
    def _passed(self, held: Any, seen: Sequence[S]) -> Sequence[ToolOutcome[R]]:
        """Return the outcomes of one pass of the checkpoint over calls of one kind."""

    def _kind(self, seen: S) -> Hashable:
        """Return the same for calls that one pass can take together: by itself all of them."""
        return None

    def load(self) -> None:
        """Load the weights now."""
        self._slot.get()

    def run(self, arguments: A, context: ToolContext) -> ToolOutcome[R]:
        """Return one pass for one call."""
        (outcome,) = self.run_batch([(arguments, context)])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def run_batch(self, calls: Sequence[tuple[A, ToolContext]]) -> Sequence[ToolOutcome[R] | Exception]:
        """Return a pass of the model for each kind among the calls that are in order."""
        outcomes: dict[int, ToolOutcome[R] | Exception] = {}
        kinds: dict[Hashable, list[tuple[int, S]]] = {}
        for number, (arguments, context) in enumerate(calls):
            try:
                seen = self._seen(arguments, context)
                kinds.setdefault(self._kind(seen), []).append((number, seen))
            except Exception as error:  # one call's mistake is not held against the others
                outcomes[number] = error
        for alike in kinds.values():
            passed = self._passed(self._slot.get(), [seen for _, seen in alike])
            outcomes |= {number: outcome for (number, _), outcome in zip(alike, passed, strict=True)}
        return [outcomes[number] for number in range(len(calls))]
