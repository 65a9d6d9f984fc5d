"""Settings of servers for a run: the engine that samples (table `[engine]`), and models that judge (`[judge]`)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, model_validator

from saccade.core.registry import did_you_mean
from saccade.core.settings import Settings
from saccade.errors import SettingsError
from saccade.training.rl.engines.server_http import engine_address

LOCAL, VLLM = "local", "vllm"


class EngineSettings(Settings):
    """The settings `engine.*`; `engine = "X"` is short for `engine.source = "X"`."""

    source: str = LOCAL
    """`local`: the checkpoint in this process; `vllm`: servers that the run starts and ends itself; or addresses of
    vLLM or SGLang servers, `http://host:port`, with commas between them."""
    gpus: NonNegativeInt = 0
    """For `vllm`: GPUs that serve, each with a server of its own: the last ones of the machine, while the first ones
    train. 0 on a machine without a GPU: one server on its CPU."""
    shared: bool = False
    """For `vllm`: a server on each GPU that trains, in place of `gpus`; all sleep while the run updates."""
    memory: NonNegativeFloat = 0.0
    """For `vllm`: GiB of its GPU that a server takes; 0: as much as vLLM takes by itself, most of it."""
    weights: Literal["disk", "memory"] = "disk"
    """How new weights come to servers: through OUT/served, or through memory that this machine's processes share
    (/dev/shm)."""
    program: str = "vllm"
    """For `vllm`: the program to start, found as a shell finds it."""
    options: tuple[str, ...] = ()
    """For `vllm`: more arguments of `vllm serve`."""
    ready_seconds: PositiveFloat = 900.0
    """For `vllm`: how long a server may take until it answers."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        return {"source": given} if isinstance(given, str) else given

    @property
    def exact(self) -> bool:
        """Whether the engine computes in float32 wherever the policy does."""
        return self.source == LOCAL or (self.source == VLLM and not self.gpus and not self.shared)

    @property
    def addresses(self) -> tuple[str, ...]:
        if self.source in (LOCAL, VLLM):
            return ()
        return tuple(address.strip() for address in self.source.split(","))


class JudgeServerSettings(Settings):
    """The settings `judge.*`: a vLLM server that the run starts for models that judge, and ends.

    It serves the model that `reward.judge_model`, `.answer_judge` or `.consistency_judge` names at this machine
    (`vllm:NAME@http://localhost:PORT/v1`).
    """

    gpus: NonNegativeInt | None = None
    """GPUs over which the model is divided: the last ones of the machine; 0: it runs on the CPU. None: nothing is
    started."""
    program: str = "vllm"
    """The program to start, found as a shell finds it."""
    options: tuple[str, ...] = ()
    """More arguments of `vllm serve`."""
    ready_seconds: PositiveFloat = 1800.0
    """How long it may take until it answers."""


def check_engine(settings: EngineSettings) -> None:
    """Raise `SettingsError` for a bad address, one named twice, and settings without effect."""
    if settings.addresses and "://" not in settings.source:
        hint = did_you_mean(settings.source.lower(), (LOCAL, VLLM))
        raise SettingsError(
            f"engine.source: {settings.source!r} is no address of a server, such as http://host:port. {hint}"
        )
    addresses = [engine_address(address) for address in settings.addresses]
    if twice := [address for address in addresses if addresses.count(address) > 1]:
        raise SettingsError(f"engine.source names {twice[0]} twice; name each server once.")
    plain = EngineSettings(source=settings.source)
    idle = [name for name in EngineSettings.model_fields if getattr(settings, name) != getattr(plain, name)]
    if addresses and "weights" in idle:
        idle.remove("weights")
    if settings.source != VLLM and idle:
        raise SettingsError(
            f"engine.{idle[0]} is for servers that the run starts itself, and engine.source is {settings.source!r}. "
            "Leave it out, or set engine.source=vllm."
        )
    if settings.shared and settings.gpus:
        raise SettingsError(
            f"engine.shared puts a server on each GPU that trains, and engine.gpus={settings.gpus} asks for GPUs that "
            "only serve. Leave one of them out."
        )
    if settings.shared and not settings.memory:
        raise SettingsError(
            "engine.shared needs engine.memory: how many GiB of each GPU the server takes while it samples. By itself "
            "vLLM takes most of the GPU, which the run has to train on."
        )
