"""The plan of a run's memory: what one GPU holds in each phase, and whether that fits.

    plan = MemoryPlan("Qwen2.5-VL-7B-Instruct on 8 GPUs", (update, sampling))
    print(plan.text(80.0))
    plan.check(80.0)

Estimates: kernels, communication and the allocator take more than tensors do, for which some of the memory is left.
"""

from __future__ import annotations

from dataclasses import dataclass

from saccade.errors import SettingsError
from saccade.models.kv_cache import GIB
from saccade.training.memory.division import StateBytes, gather_in_low_precision, state_bytes
from saccade.training.memory.passes import PassBytes, language_pass, logit_pass, vision_pass
from saccade.training.memory.skeleton import Skeleton, make_skeleton
from saccade.training.settings import ModelSettings

_CONTEXT = 2 * GIB
"""CUDA's and NCCL's own."""
_FRAGMENTS = 0.05
"""Fraction of the memory that the allocator cannot use."""


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One kind of tensors."""

    what: str
    bytes: float
    setting: str
    """What to change for less of it."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What is held at once."""

    name: str
    items: tuple[PlanItem, ...]

    @property
    def total(self) -> float:
        """Bytes."""
        return sum(item.bytes for item in self.items)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Of one GPU."""

    title: str
    phases: tuple[Phase, ...]
    notes: tuple[str, ...] = ()

    def text(self, memory: float) -> str:
        """A table, for GPUs of `memory` GiB."""
        lines = [self.title]
        for phase in self.phases:
            lines += ["", f"{phase.name}  (GiB of one GPU)"]
            lines += [f"  {item.what:<44}{item.bytes / GIB:10.2f}" for item in phase.items if item.bytes]
            lines.append(f"  {'together':<44}{phase.total / GIB:10.2f}")
        left = usable(memory) / GIB
        lines += ["", f"usable of {memory:g} GiB (2 for CUDA and NCCL, 5 % lost to fragments): {left:.2f}"]
        return "\n".join([*lines, *self.notes])

    def check(self, memory: float) -> None:
        """Raises `SettingsError` if a phase does not fit `memory` GiB, with the settings to change."""
        for phase in self.phases:
            if phase.total > usable(memory):
                most = sorted(phase.items, key=lambda item: -item.bytes)[:2]
                advice = "; ".join(f"{item.what} ({item.bytes / GIB:.1f} GiB): {item.setting}" for item in most)
                raise SettingsError(
                    f"this run does not fit: {phase.name} takes {phase.total / GIB:.1f} GiB of each GPU, and "
                    f"{usable(memory) / GIB:.1f} of its {memory:g} GiB are usable. Most of it is {advice}."
                )


def usable(memory: float) -> float:
    """Bytes for tensors on a GPU of `memory` GiB."""
    return memory * GIB * (1.0 - _FRAGMENTS) - _CONTEXT


@dataclass(frozen=True)
class TrainingMemory:
    """What a training pass and the state around it take."""

    skeleton: Skeleton
    state: StateBytes
    language: PassBytes
    logits: PassBytes
    vision: PassBytes
    pixels: int

    def update(self, checkpointed: bool, tokens_setting: str) -> Phase:
        """The phase of an update. `tokens_setting` is the name of the setting that bounds a pass."""
        most = max(self.vision.most, self.vision.held + self.language.most)
        scored = self.vision.held + self.language.held + self.logits.most
        fewer = f"lower {tokens_setting}"
        recompute = fewer if checkpointed else f"set model.gradient_checkpointing=true, or {fewer}"
        more = "divide them over more GPUs (model.shard=true, --processes), or train adapters (model.language=lora)"
        return Phase(
            "update",
            (
                PlanItem("weights", self.state.weights, more),
                PlanItem("gradients", self.state.gradients, more),
                PlanItem("optimizer", self.state.optimizer, more),
                PlanItem("gathered weights and their gradients", self.state.gathered_update, "take a smaller model"),
                PlanItem("pictures and videos", self.pixels, fewer),
                PlanItem("activations", most, recompute),
                PlanItem("logits, above the activations", max(0, scored - most), "lower model.logit_chunk"),
            ),
        )


def training_memory(
    settings: ModelSettings, tokens: int, processes: int, *, low: bool, muon: bool = False
) -> TrainingMemory:
    """Of one of `processes` that trains with forward passes of `tokens`.

    Raises:
        SettingsError: the shape of the checkpoint is not known, or its passes cannot be planned.
    """
    skeleton = make_skeleton(settings, low=low)
    shard = settings.shard and processes > 1
    state = state_bytes(skeleton, processes, shard=shard, muon=muon)
    if shard:
        gather_in_low_precision(skeleton)
    try:
        language = language_pass(skeleton, tokens)
        logits = logit_pass(skeleton, tokens, settings.logit_chunk)
        vision = vision_pass(skeleton, tokens, settings)
    except RuntimeError as error:  # torch has no narrower type for what a pass without data cannot do
        raise SettingsError(
            f"passes of {settings.source} cannot be planned in this precision: {str(error).splitlines()[0]}"
        ) from error
    return TrainingMemory(skeleton, state, language, logits, vision, _pixel_bytes(skeleton, tokens))


def _pixel_bytes(skeleton: Skeleton, tokens: int) -> int:
    """Of the pictures or frames of videos that make so many features, in float32 and as the model takes them."""
    vision = skeleton.config.vision_config
    each = 4 + (2 if skeleton.low else 0)
    if "image_grid_thw" in skeleton.family.tensor_names:
        merged = vision.spatial_merge_size**2
        return int(tokens * merged * 3 * vision.temporal_patch_size * vision.patch_size**2 * each)
    side = vision.image_size[0] if isinstance(vision.image_size, list | tuple) else vision.image_size
    return int(tokens / skeleton.config.image_seq_length * 3 * side**2 * each)
