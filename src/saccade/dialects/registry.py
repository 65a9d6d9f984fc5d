"""The dialects by id: `name`, `name@version` or either with `:preset`, as in `pyvision-rl-image@1:repo`.

An entry's target is a mapping from preset names to ready dialects, as `PresetRegistry` says. Presets exist where a
paper and its released code differ. Further packages add entries by the entry point group `saccade.dialects`. Nothing is
imported before it is asked for.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from saccade.core.registry import PresetRegistry, all_of, has_members, is_a
from saccade.core.seam import has_methods, seam
from saccade.dialects.base import Dialect, Observation, parsed
from saccade.errors import RegistryError
from saccade.record.content import Message
from saccade.record.execution import Execution, Status
from saccade.record.trajectory import FinishReason

DIALECTS: Final = PresetRegistry[Dialect](
    "dialects",
    {
        "pyvision@1": "saccade.dialects.pyvision:PRESETS",
        "pyvision-rl-image@1": "saccade.dialects.pyvision_rl:IMAGE",
        "pyvision-rl-image-no-hint@1": "saccade.dialects.pyvision_rl:IMAGE_NO_HINT",
        "pyvision-rl-video@1": "saccade.dialects.pyvision_rl:VIDEO_PRESETS",
        "codedance@1": "saccade.dialects.codedance:PRESETS",
        "codev@1": "saccade.dialects.codev:PRESETS",
        "thyme@1": "saccade.dialects.thyme:PRESETS",
        "deepeyes@1": "saccade.dialects.deepeyes:PRESETS",
        "vista@1": "saccade.dialects.vista:PRESETS",
        "native@1": "saccade.dialects.native:PRESETS",
        "direct@1": "saccade.dialects.direct:PRESETS",
        "hosted@1": "saccade.dialects.direct:HOSTED_PRESETS",
    },
    all_of(
        has_members(("id", "stop", "session", "sandbox", "limits")),
        is_a(Dialect, "an object of a subclass of saccade.dialects.base.Dialect"),
        has_methods(Dialect),
    ),
)

_named: dict[str, Dialect] = {}


def load_dialect(name: str) -> Dialect:
    """Return the dialect that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises `RegistryError`: nothing has that id or preset (suggests the nearest), it cannot be imported, it is no
    dialect, or a dialect of the user's own has an id that is taken.
    """
    dialect = DIALECTS.load(name)
    if DIALECTS.code(name) is not None:
        if DIALECTS.has(dialect.id.partition(":")[0]):
            raise RegistryError(f"{name} has the id {dialect.id}, which is another dialect's. Give it one of its own.")
        _rehearse(dialect)
        _named[dialect.id] = dialect
    return dialect


def _rehearse(dialect: Dialect) -> None:
    """Have a dialect of a user's own read and write once, so that what is wrong with it shows before an episode."""
    for text in ("", "The answer is 1."):
        parsed(dialect, text, FinishReason.STOP)
    with suppress(ValueError):  # it has nothing to observe
        seam(dialect.observe, Observation)(Execution(status=Status.OK), 1)
    seam(dialect.correct, Observation, type(None))("?", 1)
    seam(dialect.ask_for_answer, Message, type(None))()


def recorded_dialect(recorded: str) -> Dialect:
    """Return the dialect of the id that a stored record names.

    Of the user's own, one that this process has loaded before.

    Raises:
        RegistryError: there is none. A record runs no code, so a file that it names is not loaded.
    """
    return _named[recorded] if recorded in _named else DIALECTS.load_recorded(recorded)


def presets(name: str) -> tuple[str, ...]:
    """Return the names of the presets of a family, its default first; empty if it has none. Raises `RegistryError` if
    nothing has that id, or it cannot be imported.
    """
    return DIALECTS.presets(name)
