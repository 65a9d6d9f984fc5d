"""Define what every trainer shares: settings, the check of a run's folder, parts of a model, and callbacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from saccade.core.disk import check_files, check_free
from saccade.core.settings import Difference, Settings, beyond_addresses, differences, load_saved
from saccade.errors import SettingsError
from saccade.models.families.base import ModelFamily

if TYPE_CHECKING:
    import torch


SETTINGS = "settings.toml"
_OF_STEPS = ("metrics.jsonl", "checkpoints", "model", "verl", "rollouts/trajectories.jsonl")
"""Files and folders that exist once something was trained or rolled out."""

_LOG = logging.getLogger(__name__)


def check_folder(
    settings: Settings,
    out: Path,
    resume: bool,
    may_differ: Collection[str] = (),
    may_grow: Mapping[str, str] = MappingProxyType({}),
    may_change: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Check that a run with these settings may write to `out`.

    Settings named in `may_differ` may differ from the saved ones; those in `may_grow` may be larger and those in
    `may_change` others, with a consequence to be logged as their value. Raises `SettingsError`: it holds a run and
    `resume` is False, or no run to resume, or one with other settings, or another process trains in it.
    """
    check_free(out)
    kept = out / SETTINGS
    if not kept.exists():
        if resume and out.exists() and any(out.iterdir()):
            raise SettingsError(f"there is no run to continue in {out}: it holds no {SETTINGS}. Leave out --resume.")
        if resume:
            _LOG.warning("There is no run in %s yet, so --resume begins one.", out)
        return
    if not resume and not any((out / name).exists() for name in _OF_STEPS):
        _LOG.warning("The run in %s ended before its first step. It begins anew.", out)
        return
    if not resume:
        raise SettingsError(f"{out} holds a run already. Continue it with --resume, or name another folder.")
    changes = differences(load_saved(type(settings), kept), settings)
    grown = [item for item in changes if item.name in may_grow and _is_larger(item)]
    others = [item for item in changes if item.name in may_change]
    changed = [item for item in changes if item.name not in may_differ and item not in (*grown, *others)]
    if changed := beyond_addresses(changed, out):
        listed = "\n".join(f"  {item}" for item in changed)
        raise SettingsError(
            f"the run in {out} was begun with other settings:\n{listed}\nGive it these, or a new folder."
        )
    check_files(kept)
    for item in grown:
        _LOG.warning("The run in %s is resumed with more %s. %s", out, item, may_grow[item.name])
    for item in others:
        _LOG.warning("The run in %s is resumed with other %s. %s", out, item, may_change[item.name])


def _is_larger(item: Difference) -> bool:
    before, now = item.left, item.right
    return isinstance(before, int | float) and isinstance(now, int | float) and now > before


def decoder_layers(model: Any) -> list[Any]:
    """Return the layers of the language model in order."""
    return list(model.model.language_model.layers)


def vision_modules(model: Any, family: ModelFamily) -> list[Any]:
    """Return the modules of the vision tower, without a separate projector."""
    parts = set(family.vision_parts) - set(family.projector_parts)
    return [module for name, module in model.model.named_children() if name in parts]


def swap_tensors(model: Any, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Replace each weight and buffer by `make(it)`; shared tensors stay shared."""
    made: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, value in tensors.items():
                if value is not None:
                    if id(value) not in made:
                        made[id(value)] = make(value)
                    tensors[name] = made[id(value)]


Metrics: TypeAlias = Mapping[str, float | int]


class TrainingCallback:
    """Follows a run in the process that writes; override what you need, each method does nothing."""

    def begins(self, done: int, total: int) -> None:
        """Hear that training begins after `done` of `total` steps."""

    def step(self, number: int, values: Metrics) -> None:
        """Hear that step `number` (from 1) is done."""

    def validated(self, number: int, values: Metrics) -> None:
        """Hear that held-out data were evaluated after `number` steps."""

    def saved(self, path: Path) -> None:
        """Hear that a checkpoint, or the trained model, was written there."""


Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]


class LoraSettings(Settings):
    """Low-rank adapters on the language model."""

    rank: PositiveInt = 32
    alpha: PositiveInt = 64
    dropout: Fraction = 0.05
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """Names of the linear layers that get one."""


class ModelSettings(Settings):
    """The checkpoint, and which of its weights are trained."""

    source: str = ""
    """A folder, or a name on the hub."""
    revision: str = ""
    """Branch, tag or commit on the hub; empty for its default."""
    language: Literal["full", "lora"] = "full"
    lora: LoraSettings = LoraSettings()
    vision: Literal["frozen", "projector", "full"] = "frozen"
    """Part of the vision tower that is trained: none, the projector to the language model, all."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the arithmetic. `bfloat16` keeps trained weights in float32. `auto`: bfloat16 on a GPU, float32 on a CPU."""
    attention: str = "auto"
    """`auto`: torch's own, over rows of several lengths (`saccade.training.weights`); or as transformers names it:
    `sdpa`, `eager`, `flash_attention_2`, ..."""
    vision_attention: str = ""
    """The same for the vision tower only; empty: as `attention`. On a CPU `eager` is faster for tiny pictures."""
    gradient_checkpointing: bool | PositiveInt | Literal["auto"] = False
    """Less memory for up to a third more time: all layers compute their activations again in the backward pass, or so
    many of the language model. `auto`: as many as `--plan` finds that this GPU's memory needs."""
    logit_chunk: PositiveInt = 1024
    """Tokens whose logits exist at once, forward and backward: 14 bytes for each of them and each id there is."""
    shard: bool = False
    """Over several processes: each keeps a part of the weights, gradients and optimizer's state (FSDP2)."""
    picture_pixels: NonNegativeInt = 0
    """Most pixels of a picture as the model sees it; saved with the trained model. 0: what the checkpoint says."""


class OptimizerSettings(Settings):
    """The optimizer, with linear warm-up and cosine decay."""

    method: Literal["adamw", "muon"] = "adamw"
    """`muon` is for models trained from nothing."""
    learning_rate: PositiveFloat = 1e-5
    vision_learning_rate: NonNegativeFloat = 0.0
    """Of the vision tower's trained weights; 0: the same."""
    final_fraction: Fraction = 0.0
    """Learning rate at the last step, as a fraction."""
    warmup: Fraction = 0.03
    """Fraction of the steps."""
    weight_decay: NonNegativeFloat = 0.0
    """On matrices only."""
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: PositiveFloat = 1e-8
    clip: NonNegativeFloat = 1.0
    """Largest norm of the gradient; 0 for no limit."""


class KeepSettings(Settings):
    """Files that the run writes."""

    every: PositiveInt = 200
    """Steps between checkpoints."""
    checkpoints: PositiveInt = 2
    """How many of the newest stay."""
    milestones: NonNegativeInt = 0
    """Checkpoints of steps divisible by this stay too; 0: none."""
    tensorboard: bool = True
    """Where the package is installed."""
    tracker: Literal["none", "wandb", "trackio"] = "none"
    project: str = "saccade"
    """Name of the tracker's project."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the exported weights; `auto`: that of the arithmetic."""
