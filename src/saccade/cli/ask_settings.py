"""The settings of `saccade ask`, resolved from a file, `--set` and its own options, and what they name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from saccade.dialects.base import Dialect
from saccade.dialects.prompt_file import Prompted, read_prompt_file
from saccade.dialects.registry import load_dialect
from saccade.episode.equip import equipped
from saccade.errors import SettingsError
from saccade.record.settings import Settings, load_settings
from saccade.record.trajectory import EpisodeLimits, Sampling
from saccade.sandbox.base import Sandbox
from saccade.tools.toolbox import Toolbox

NO_MODEL = (
    "no model is named. Use --model, for example --model openai:gpt-4.1 (key in OPENAI_API_KEY), "
    "--model anthropic:claude-opus-4-8 (ANTHROPIC_API_KEY), --model vllm:NAME@http://host:8000/v1 (a server of yours) "
    "or --model local:FOLDER (transformers, in this process)."
)


class AskSettings(Settings):
    """Everything that decides how a question is asked."""

    model: str
    dialect: str = "pyvision"
    prompt_file: str = ""
    sampling: Sampling = Sampling()
    limits: EpisodeLimits = EpisodeLimits()
    """Those that are set stand in place of the dialect's."""
    tools: tuple[str, ...] = ()
    """Typed tools to offer, for a dialect whose models call tools; none: see `saccade.episode.equip`."""
    sandbox: str = "local"
    """`local`, or the address of a `saccade sandbox serve`."""

    def spoken(self) -> tuple[Dialect, Toolbox | None]:
        """The dialect with the user's prompt and tools, and the toolbox.

        Raises:
            SettingsError: it takes no prompt, or no tools.
            PromptFileError: the prompt file cannot be used.
            RegistryError: there is no such dialect or tool.
        """
        dialect = load_dialect(self.dialect)
        if self.prompt_file:
            if not isinstance(dialect, Prompted):
                raise SettingsError(f"dialect {dialect.id} has no prompt that a file could replace. Leave it out.")
            dialect = dialect.with_prompts(read_prompt_file(Path(self.prompt_file)))
        return equipped(dialect, self.tools)

    def provider(self, dialect: Dialect) -> Sandbox:
        """The sandbox, with the limits of the dialect; those of a remote one are its server's."""
        if self.sandbox == "local":
            from saccade.sandbox.local import LocalSandbox

            return LocalSandbox(limits=dialect.sandbox)
        from saccade.sandbox.remote import RemoteSandbox

        return RemoteSandbox(self.sandbox)


def resolve(file: Path | None, options: Sequence[str], **named: object) -> AskSettings:
    """The settings of a file, with `options` (`name=value`) over it and what is `named` and not None over both.

    Raises:
        SettingsError: names every mistake.
    """
    given = [f"{name}={value}" for name, value in named.items() if value is not None]
    overrides = [*options, *given]
    if file is None and not any(item.startswith("model=") for item in overrides):
        raise SettingsError(NO_MODEL)
    return load_settings(AskSettings, file, overrides)
