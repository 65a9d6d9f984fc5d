"""Where the tools that need weights or a server find them: one TOML file with a table for each tool.

    [grounding_dino]
    weights = "IDEA-Research/grounding-dino-tiny"     # a folder, or a name of the Hugging Face hub
    device = "cuda"

    [chartmoe]
    model = "compatible:chartmoe@http://localhost:8000/v1"

The variable SACCADE_TOOL_SETUP names the file; tools in other processes find it there too. Nothing is downloaded or
asked for unless a table names it. A tool without what it needs is not offered.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from saccade.core.retry import TOOL_RETRY, RetryPolicy
from saccade.core.settings import Settings
from saccade.errors import SettingsError

VARIABLE: Final = "SACCADE_TOOL_SETUP"
"""Names the file."""


class ToolSetup(Settings):
    """One table; what a tool does not use has no effect on it."""

    weights: str = ""
    """Folder or hub name of a checkpoint."""
    revision: str = ""
    """Of a hub name: the commit or tag; empty for the newest."""
    device: str = ""
    """As torch names it; empty for the first GPU, or else the CPU."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    model: str = ""
    """A model behind an endpoint, named as for `--model`."""
    prompts: str = ""
    """File with prompts for such a model, from the folder of the setup, in the form of the package's own
    `prompts.toml`; tasks that it does not name keep their own."""
    max_tokens: PositiveInt = 1024
    """Most tokens that a model or a decoder writes."""
    engine: Literal["rapidocr", "easyocr"] = "rapidocr"
    """Of `ocr`: which package reads."""
    languages: tuple[str, ...] = ("en",)
    """Of `ocr` with EasyOCR: its codes of languages."""


@dataclass(frozen=True, slots=True)
class SetupEntry:
    """A key of a tool's table that must be given."""

    tool: str
    key: Literal["weights", "model"]
    example: str

    def __str__(self) -> str:
        return f"`{self.key}` of {self.tool} in the setup of tools"

    @property
    def named(self) -> bool:
        """Whether the setup gives it; a folder that is not there is none."""
        return bool(self._given) and not self._is_absent

    @property
    def todo(self) -> str:
        where = f"in the file that {VARIABLE} names"
        if self._is_absent:
            return f"there is no folder {self._given}: correct [{self.tool}] {self.key} {where}"
        return f'write [{self.tool}] {self.key} = "{self.example}" {where}'

    @property
    def _given(self) -> str:
        return str(getattr(tool_setup(self.tool), self.key))

    @property
    def _is_absent(self) -> bool:
        """Whether what is written as a path, and not as a hub's name, is no folder."""
        given = self._given
        is_path = given.startswith(("/", ".", "~")) or given.count("/") > 1 or "\\" in given  # a hub's: OWNER/NAME
        return self.key == "weights" and is_path and not Path(given).is_dir()


def tool_setup(tool: str) -> ToolSetup:
    """Return the table of a tool; defaults if there is no file or no such table. Raises `SettingsError` if the file
    cannot be read, or a table has something that no setup has.
    """
    return configured().get(tool, ToolSetup())


def configured() -> Mapping[str, ToolSetup]:
    """Return every table of the file by its name; none without a file. Raises as `tool_setup`."""
    path = os.environ.get(VARIABLE, "")
    if not path:
        return {}
    try:
        changed = Path(path).stat().st_mtime_ns
    except OSError as error:
        raise SettingsError(f"{VARIABLE} names {path}, which cannot be read: {error}. Name a TOML file.") from error
    return _tables(path, changed)


@lru_cache(maxsize=4)
def _tables(path: str, changed: int) -> dict[str, ToolSetup]:
    try:
        data: dict[str, Any] = tomllib.loads(Path(path).read_text("utf-8"))
        tables = {tool: ToolSetup.model_validate(table) for tool, table in data.items()}
    except (OSError, ValueError) as error:  # pydantic's and TOML's errors are ValueErrors
        raise SettingsError(f"{path}, which {VARIABLE} names, is no setup of tools: {error}") from error
    return {
        tool: table.model_copy(update={"prompts": str(Path(path).parent / table.prompts)}) if table.prompts else table
        for tool, table in tables.items()
    }


# How calls of typed tools are run: how long one may take, and in how many processes.


class ToolCallSettings(Settings):
    """The same for every tool of an episode, wherever it runs."""

    seconds: PositiveFloat = 120.0
    """Time limit of a call, from when the tool is loaded and the call begins; the only one, also where a tool waits for
    a model behind an endpoint."""
    retry: RetryPolicy = TOOL_RETRY
    """How often a call that a server cannot do now is asked for again before it is lost; `retry.seconds` is for one try
    beyond the call's own `seconds`, its wait in the server's queue included."""
    workers: NonNegativeInt = 0
    """Worker processes for light tools, and as many for medium ones; 0: one for each core, at most 8. Tools that want
    an accelerator share one worker, since each would hold their weights: calls that wait for it form one batch."""
    in_flight: PositiveInt = 64
    """Calls that wait for the servers of endpoint tools side by side; further ones wait their turn, which does not
    count as time of the call."""


DEFAULT_CALLS = ToolCallSettings()
