"""Plan the memory of a run: what one GPU holds in each phase, and whether that fits.

    plan = MemoryPlan("Qwen2.5-VL-7B-Instruct on 8 GPUs", (update, sampling))
    print(plan.text(80.0))
    plan.check(80.0)

These are estimates: some memory is left for kernels, communication and the allocator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from saccade.errors import SettingsError
from saccade.models.families.base import ModelFamily, VideoClip
from saccade.models.local_weights import RULE_FILES, load_video_rules
from saccade.record.content import VideoPart
from saccade.tokens.caches import GIB
from saccade.training.learner import is_orthogonal
from saccade.training.memory_passes import PassBytes, Skeleton, language_pass, logit_pass, make_skeleton, vision_pass
from saccade.training.parallel import Processes
from saccade.training.settings import ModelSettings, decoder_layers, vision_modules

_log = logging.getLogger(__name__)

_AHEAD = 2
"""Layers that are gathered at once."""


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Weights, gradients and optimizer state of one process.

    Divided, each process keeps its share of every weight. A forward pass gathers a layer at a time, with the next one
    ahead, and the vision tower and all outside the layers (embeddings, last norm, head) for the whole pass. While the
    engine in this process samples, everything is gathered.
    """

    weights: int
    """Kept from step to step."""
    gradients: int
    optimizer: int
    gathered_update: int
    """Of others' shares, with the gradients of what is gathered, during a training pass."""
    gathered_sampling: int
    """The same while the engine in this process samples."""


def state_bytes(skeleton: Skeleton, processes: int, *, shard: bool, muon: bool) -> StateBytes:
    """Count what one of `processes` holds of the model and its optimizer."""
    weights = dict(skeleton.model.named_parameters())
    trained = {name: weight for name, weight in weights.items() if weight.requires_grad}
    total = sum(weight.nbytes for weight in weights.values())
    gradients = sum(weight.numel() * 4 for weight in trained.values())
    # AdamW's two moments; Muon has one for a matrix.
    optimizer = sum(
        weight.numel() * (4 if muon and is_orthogonal(name, weight) else 8) for name, weight in trained.items()
    )
    if not shard or processes == 1:
        return StateBytes(total, gradients, optimizer, 0, 0)
    parts = total // processes, gradients // processes, optimizer // processes
    return StateBytes(*parts, *_gathered(skeleton))


def _gathered(skeleton: Skeleton) -> tuple[int, int]:
    layers = [list(layer.parameters()) for layer in decoder_layers(skeleton.model)]
    vision = [weight for module in vision_modules(skeleton.model, skeleton.family) for weight in module.parameters()]
    inside = {id(weight) for weight in (*vision, *(weight for layer in layers for weight in layer))}
    outside = [weight for weight in skeleton.model.parameters() if id(weight) not in inside]
    size = 2 if skeleton.low else 4
    largest = max((_numbers(layer) for layer in layers), default=0)
    learning = max((_numbers(_trained(layer)) for layer in layers), default=0)
    sampling = sum(weight.nbytes for weight in outside) + size * sum(map(_numbers, layers)) + size * _numbers(vision)
    update = sum(weight.nbytes for weight in outside) + size * _numbers(vision) + _AHEAD * size * largest
    # Gradients of gathered parameters, plus the fp32 reduction buffer of one layer.
    update += 4 * _numbers(_trained(outside)) + size * _numbers(_trained(vision)) + (_AHEAD * size + 4) * learning
    return update, sampling


def _trained(weights: Iterable[Any]) -> list[Any]:
    return [weight for weight in weights if weight.requires_grad]


def _numbers(weights: Iterable[Any]) -> int:
    return sum(weight.numel() for weight in weights)


def gather_in_low_precision(skeleton: Skeleton) -> None:
    """Cast the skeleton's layers as they are once gathered, so that autocast has nothing to copy."""
    import torch

    if skeleton.low:
        with skeleton.mode:
            for module in (*decoder_layers(skeleton.model), *vision_modules(skeleton.model, skeleton.family)):
                for weight in module.parameters():
                    weight.data = weight.data.to(torch.bfloat16)


_CONTEXT = 2 * GIB
"""Used by CUDA and NCCL."""
_FRAGMENTS = 0.05
"""Fraction of the memory that the allocator cannot use."""


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One kind of tensors."""

    what: str
    bytes: float
    setting: str
    """Advice for less of it."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Everything held at once."""

    name: str
    items: tuple[PlanItem, ...]

    @property
    def total(self) -> float:
        """Bytes."""
        return sum(item.bytes for item in self.items)


@dataclass(frozen=True, slots=True)
class PlannedWeights:
    """How many numbers a model has, for what a run writes of it."""

    all: int
    trained: int
    exported_bytes: int
    """Bytes of each number in the model that is exported or given to servers."""


def planned_weights(skeleton: Skeleton, *, low: bool) -> PlannedWeights:
    """Count the numbers of a model that is exported in bfloat16 if `low`, else in float32."""
    weights = list(skeleton.model.parameters())
    return PlannedWeights(_numbers(weights), _numbers(_trained(weights)), 2 if low else 4)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory of one GPU in every phase."""

    title: str
    phases: tuple[Phase, ...]
    notes: tuple[str, ...] = ()
    weights: PlannedWeights | None = None
    recomputed: int = 0
    """Layers that are to recompute their activations, where the settings leave that to the plan."""

    def text(self, memory: float) -> str:
        """Format a table for GPUs of `memory` GiB."""
        lines = [self.title]
        for phase in self.phases:
            lines += ["", f"{phase.name}  (GiB of one GPU)"]
            lines += [f"  {item.what:<44}{item.bytes / GIB:10.2f}" for item in phase.items if item.bytes]
            lines.append(f"  {'together':<44}{phase.total / GIB:10.2f}")
        left = usable(memory) / GIB
        lines += ["", f"usable of {memory:g} GiB (2 for CUDA and NCCL, 5 % lost to fragments): {left:.2f}"]
        if self.recomputed:
            lines.append(f"{self.recomputed} layers recompute their activations (model.gradient_checkpointing=auto)")
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


_FILLED = 0.9
"""Fraction of the usable memory up to which layers keep their activations: plans were up to a tenth too low."""


def usable(memory: float) -> float:
    """Return bytes for tensors on a GPU of `memory` GiB."""
    return memory * GIB * (1.0 - _FRAGMENTS) - _CONTEXT


@dataclass(frozen=True)
class TrainingMemory:
    """Memory of a training pass and of the state around it."""

    skeleton: Skeleton
    state: StateBytes
    language: PassBytes
    logits: PassBytes
    vision: PassBytes
    pixels: int
    by_layers: tuple[PassBytes, ...] = ()
    """`language` by the number of layers that recompute, where the settings leave that number to the plan."""

    def fitted(self, phase: Callable[[TrainingMemory], Phase], memory: float | None) -> tuple[TrainingMemory, int]:
        """Let as few layers recompute as a GPU of `memory` GiB needs (None: all) while it holds `phase`; how many."""
        for layers, language in enumerate(self.by_layers):
            tried = replace(self, language=language)
            if memory is not None and phase(tried).total <= _FILLED * usable(memory):
                return tried, layers
        return self, max(0, len(self.by_layers) - 1)

    def update(self, checkpointed: bool, tokens_setting: str) -> Phase:
        """Return the phase of an update. `tokens_setting` is the name of the setting that bounds a pass."""
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
    """Measure one of `processes` that trains with forward passes of `tokens`.

    Raises `SettingsError`: the shape of the checkpoint is not known, or its passes cannot be planned.
    """
    skeleton = make_skeleton(settings, low=low)
    shard = settings.shard and processes > 1
    state = state_bytes(skeleton, processes, shard=shard, muon=muon)
    if shard:
        gather_in_low_precision(skeleton)
    try:
        by_layers = _by_layers(skeleton, tokens, settings.gradient_checkpointing)
        logits = logit_pass(skeleton, tokens, settings.logit_chunk)
        vision = vision_pass(skeleton, tokens, settings)
    except RuntimeError as error:  # torch has no narrower type for what a pass without data cannot do
        raise SettingsError(
            f"passes of {settings.source} cannot be planned in this precision: {str(error).splitlines()[0]}"
        ) from error
    chosen = by_layers if settings.gradient_checkpointing == "auto" else ()
    return TrainingMemory(skeleton, state, by_layers[-1], logits, vision, _pixel_bytes(skeleton, tokens), tuple(chosen))


def _by_layers(skeleton: Skeleton, tokens: int, recomputed: bool | int | str) -> list[PassBytes]:
    """Return passes of which 0, 1, ... up to the `recomputed` layers recompute (True, `auto`: all).

    What is held grows evenly with the layers that keep their activations, and no peak lies above its line.
    """
    if isinstance(recomputed, bool):
        return [language_pass(skeleton, tokens, recompute=recomputed)]
    none, every = (language_pass(skeleton, tokens, recompute=recompute) for recompute in (False, True))
    layers = len(decoder_layers(skeleton.model))
    most = layers if recomputed == "auto" else min(int(recomputed), layers)
    shares = [count / layers for count in range(most + 1)]
    return [
        PassBytes(*(int(share * a + (1 - share) * b) for a, b in ((every.held, none.held), (every.most, none.most))))
        for share in shares
    ]


def chosen_layers(model: ModelSettings, processes: Processes, plan: Callable[[float], MemoryPlan]) -> ModelSettings:
    """Return `model` with the number of layers that recompute, where that is left to `plan(GiB)` of this GPU."""
    import torch

    if model.gradient_checkpointing != "auto":
        return model
    layers = 0
    if processes.device.type == "cuda":
        memory = torch.cuda.get_device_properties(processes.device).total_memory / GIB
        layers = max(processes.all_gather(plan(memory).recomputed))
    _log.info("Layers that recompute their activations in the backward pass: %d.", layers)
    return model.model_copy(update={"gradient_checkpointing": layers or False})


def _pixel_bytes(skeleton: Skeleton, tokens: int) -> int:
    """Count the bytes of pictures or frames that make `tokens` features, in float32 and as the model takes them."""
    vision = skeleton.config.vision_config
    each = 4 + (2 if skeleton.low else 0)
    if "image_grid_thw" in skeleton.family.tensor_names:
        merged = vision.spatial_merge_size**2
        return int(tokens * merged * 3 * vision.temporal_patch_size * vision.patch_size**2 * each)
    side = vision.image_size[0] if isinstance(vision.image_size, list | tuple) else vision.image_size
    return int(tokens / skeleton.config.image_seq_length * 3 * side**2 * each)


# Passes are planned as if all tokens were features; those of a picture (to the tower a step of two equal frames) and of
# a video take the same bytes. The length of videos is not known, so a note says what fits.

_SECONDS: Final = 60
_FPS: Final = 30
_SIZE: Final = (1280, 720)


def minute_of_video(source: str, family: ModelFamily) -> VideoClip | None:
    """Return a minute of 1280x720 video as the checkpoint in the folder `source` sees it by default.

    None: the folder has no file that says how large frames are.

    Raises `ModelRefusedError`: frames would be scaled in another way than here; `ValueError`: the family reads no
    videos; says why.
    """
    rules = None
    if family.video is not None:
        if not any((Path(source) / name).is_file() for name in RULE_FILES):
            return None
        rules = load_video_rules(source, {}, family)
    width, height = _SIZE
    frames = _SECONDS * _FPS
    part = VideoPart(sha256="0" * 64, width=width, height=height, frames=frames, fps=_FPS, seconds=_SECONDS)
    return family.clip(part, rules)


def video_note(source: str, family: ModelFamily, context: int) -> str:
    """Describe how much of an episode of `context` tokens a minute of video takes.

    Raises `SettingsError`: the checkpoint reads no videos.
    """
    try:
        minute = minute_of_video(source, family)
    except ValueError as error:
        raise SettingsError(f"the dialect shows videos as such, and {error}") from error
    width, height = _SIZE
    if minute is None:
        return (
            f"How many visual tokens a video takes follows from {RULE_FILES[1]} (or {RULE_FILES[2]}) of the "
            f"checkpoint, which is not here: put it beside config.json for a line about it."
        )
    fits = int(_SECONDS * context / minute.tokens)
    return (
        f"A minute of {width}x{height} video is {len(minute.frames)} frames and {minute.tokens} visual tokens; an "
        f"episode of {context} tokens holds {fits} seconds of it at this rate and size."
    )
