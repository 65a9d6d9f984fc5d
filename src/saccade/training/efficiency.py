"""How near a run is to the limits of its device: `mfu` of its updates, and `bandwidth` of its decoding.

    mfu = model FLOPs / (seconds · peak)            bandwidth = bytes that must be read / (seconds · rate of a copy)

Model FLOPs are those that the mathematics asks for, multiplication and addition counted as two: no padding, nothing
that checkpointing computes again, half of causal attention, logits of sampled tokens alone. Of a matrix of N numbers a
token costs 2 N forward, and backward 2 N for what is below it and 2 N more where it is trained; attention costs twice
as much backward as forward. Not counted: norms, activations, embeddings, and the states of linear attention.
Imports torch; import this module late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Self

import torch

from saccade.tokens.batch import BatchRow, LanguageNumbers
from saccade.tokens.caches import head_size, layer_config
from saccade.tokens.segments import PromptPicture
from saccade.training.weights import Trainable

PEAKS: Final = {
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "H200 NVL": 835e12,
    "H200": 989e12,
    "GH200": 989e12,
    "B200": 2250e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
}
"""Part of a card's name -> FLOP/s of dense bfloat16 as NVIDIA's data sheets have them; the first that fits counts."""


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """What a device can do at most."""

    flops: float
    """A second."""
    bytes: float
    """A second, read and written together, as a copy in its memory reached."""
    says: str
    """Where the numbers are from."""


@cache
def device_limits(device: torch.device, dtype: torch.dtype) -> DeviceLimits:
    """Return the limits of `device`, of which what is not known by its name is measured: a second at most."""
    gpu = device.type == "cuda"
    copied = _copy_rate(device, 2**29 if gpu else 2**24)
    name = torch.cuda.get_device_name(device) if gpu else ""
    if dtype == torch.bfloat16 and (peak := next((known for part, known in PEAKS.items() if part in name), None)):
        return DeviceLimits(peak, copied, f"peak of {name} by its data sheet, a copy as measured")
    return DeviceLimits(_product_rate(device, dtype, 8192 if gpu else 256), copied, "a product and a copy as measured")


def _copy_rate(device: torch.device, size: int) -> float:
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / _fastest(lambda: target.copy_(source), device)


def _product_rate(device: torch.device, dtype: torch.dtype, side: int) -> float:
    left, right = (torch.ones((side, side), dtype=dtype, device=device) for _ in range(2))
    return 2 * side**3 / _fastest(lambda: torch.nn.functional.linear(left, right), device)


def _fastest(work: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of the fastest of some runs."""
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - began)
    return max(1e-9, min(seconds))


@dataclass(frozen=True, slots=True)
class Part:
    """Matrices that the same tokens or patches pass through."""

    numbers: float
    trained: float

    def forward(self, count: float) -> float:
        """Return FLOPs of a forward pass over `count` of them."""
        return 2 * self.numbers * count

    def backward(self, count: float, *, through: bool = True) -> float:
        """Return FLOPs of a backward pass; `through`: something below is trained."""
        return 2 * (self.numbers * through + self.trained) * count


@dataclass(frozen=True, slots=True)
class PassFlops:
    """Model FLOPs of passes over rows."""

    forward: float = 0.0
    backward: float = 0.0

    @property
    def both(self) -> float:
        """Return FLOPs of a pass of training."""
        return self.forward + self.backward


@dataclass(frozen=True)
class ModelWork:
    """What decides the arithmetic of a model's passes."""

    language: Part
    """For each token; of experts those that it chooses."""
    head: Part
    """For each token with logits."""
    attentions: tuple[tuple[int, int], ...]
    """Of each layer with attention: the most tokens that one sees (0: all), and the numbers of a query, all heads."""
    tower: Part
    """For each patch."""
    projector: Part
    """For each feature of a picture."""
    patches: float
    """Of a feature."""
    tile: int
    """Features that see each other in the tower; 0: those of a picture, or of a step of a video."""
    tower_windows: tuple[int, ...]
    """Of each layer of the tower: patches that see each other, 0 for all."""
    tower_width: int

    @classmethod
    def of(cls, trained: Trainable) -> Self:
        model, family, config = trained.model, trained.encoder.family, trained.checkpoint.config
        every, learned = LanguageNumbers.of(model), LanguageNumbers.of(model, trained=True)
        text, vision = config.get_text_config(), config.vision_config
        kinds = getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers
        sees = {"full_attention": 0, "sliding_attention": getattr(text, "sliding_window", None) or 0}
        layers = [layer_config(text, layer) for layer in range(len(kinds))]
        weights = [
            (name, weight)
            for name, weight in model.named_parameters()
            if trained.is_vision(name) and weight.ndim > 1 and "pos" not in name.rpartition(".weight")[0].split(".")[-1]
        ]
        merges = {name for name, _ in weights if trained.is_projector(name) or ".downsample." in name}
        projected = [weight for name, weight in weights if name in merges]
        tower = [weight for name, weight in weights if name not in merges]
        depth = getattr(vision, "depth", None) or vision.num_hidden_layers
        full = getattr(vision, "fullatt_block_indexes", None)
        window = (getattr(vision, "window_size", 0) // _side(vision.patch_size)) ** 2 if full is not None else 0
        tile = getattr(config, "image_seq_length", 0) if "image_grid_thw" not in family.tensor_names else 0
        return cls(
            Part(every.of_a_token(), learned.of_a_token()),
            Part(every.head, learned.head),
            tuple(
                (sees[kind], own.num_attention_heads * head_size(own))
                for kind, own in zip(kinds, layers, strict=True)
                if kind in sees
            ),
            _part(tower),
            _part(projected),
            _patches_of_a_feature(config),
            tile or 0,
            tuple(0 if full is None or layer in full else window for layer in range(depth)),
            vision.hidden_size,
        )

    def flops(self, rows: Iterable[BatchRow]) -> PassFlops:
        """Return the FLOPs of one pass of training over `rows`, each by itself."""
        forward = backward = 0.0
        for row in rows:
            length, scored = len(row), int(row.trained.sum())
            # Scores, and the sum of values by them.
            attention = 4.0 * sum(width * seen_pairs(length, window) for window, width in self.attentions)
            forward += self.language.forward(length) + self.head.forward(scored) + attention
            backward += self.language.backward(length) + self.head.backward(scored) + 2 * attention
            features = sum(picture.tokens for picture in row.pictures)
            patches = features * self.patches
            looked = 4.0 * self.tower_width * sum(self._tower_pairs(picture) for picture in row.pictures)
            forward += self.tower.forward(patches) + self.projector.forward(features) + looked
            if self.tower.trained:
                backward += self.tower.backward(patches) + 2 * looked
            if self.projector.trained:
                backward += self.projector.backward(features, through=bool(self.tower.trained))
        return PassFlops(forward, backward)

    def _tower_pairs(self, picture: PromptPicture) -> float:
        features = self.tile or (picture.tokens if picture.clip is None else picture.clip.step_tokens)
        patches = features * self.patches
        pairs = sum(patches * min(patches, window or patches) for window in self.tower_windows)
        return pairs * picture.tokens / features


def seen_pairs(length: int, window: int) -> float:
    """Return pairs of a token and one that it sees, itself too, at most the last `window` (0: all)."""
    window = min(window or length, length)
    return window * (window + 1) / 2 + (length - window) * window


def _part(weights: Sequence[Any]) -> Part:
    return Part(sum(one.numel() for one in weights), sum(one.numel() for one in weights if one.requires_grad))


def _side(size: Any) -> int:
    return int(size[0] if isinstance(size, list | tuple) else size)


def _patches_of_a_feature(config: Any) -> float:
    vision = config.vision_config
    if side := getattr(vision, "spatial_merge_size", None) or getattr(vision, "pooling_kernel_size", None):
        return float(side**2)
    return float((_side(vision.image_size) // _side(vision.patch_size)) ** 2 / config.image_seq_length)


@dataclass(frozen=True)
class Meter:
    """The limits of a run's device beside the work of its model."""

    limits: DeviceLimits
    work: ModelWork

    @classmethod
    def of(cls, trained: Trainable) -> Self:
        """Return that of a checkpoint on its device, in the precision of its passes."""
        dtype = torch.bfloat16 if trained.low_precision else torch.float32
        return cls(device_limits(trained.checkpoint.device, dtype), ModelWork.of(trained))

    def mfu(self, flops: float, seconds: float, processes: int) -> float:
        """Return the share of their arithmetic that `processes` used in `seconds`."""
        return flops / (max(1e-9, seconds) * processes * self.limits.flops)

    def bandwidth(self, size: float, seconds: float) -> float:
        """Return the share of its memory's rate that reading `size` bytes in `seconds` is."""
        return size / (max(1e-9, seconds) * self.limits.bytes)
