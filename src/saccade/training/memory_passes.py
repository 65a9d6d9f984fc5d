"""Measure what forward and backward passes hold, on the shapes of the real model.

The language model runs without data, and where all layers are alike, two of them and three. The vision tower computes
by the sizes of pictures, so it runs with data, but small: one block and two, some patches and twice as many. As memory
is linear in all of these, the real numbers follow.
"""

from __future__ import annotations

import copy
import json
import tomllib
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from saccade.errors import SettingsError
from saccade.models.families.base import ModelFamily
from saccade.models.families.known import FAMILIES
from saccade.models.local_text import check_folder
from saccade.training.settings import ModelSettings, swap_tensors, vision_modules
from saccade.training.weights import LogitRules, checkpoint_activations, choose_weights, stored_dtype, token_scores


class PeakBytes(TorchDispatchMode):  # type: ignore[misc]
    """Counts the bytes of tensors made inside the block: those alive now (`live`) and the peak (`most`).

    Shared storages count once, with or without data. Temporary memory inside an operation is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = 0
        self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {id(leaf.untyped_storage()) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor) and id(leaf.untyped_storage()) not in given:
                self._count(leaf.untyped_storage())
        return made

    def _count(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self.live += size
            self.most = max(self.most, self.live)
            weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size


_SHAPES = Path(__file__).with_name("shapes.toml")


def known_shapes() -> dict[str, dict[str, Any]]:
    """Read the bundled shapes, by the last part of the checkpoint's name."""
    return tomllib.loads(_SHAPES.read_text(encoding="utf-8"))


def family_of_checkpoint(source: str) -> str | None:
    """Return the family of the checkpoint `source`, without transformers; None where its configuration is not here.

    Raises `ModelRefusedError`: it can only be a folder, and there is none, or no checkpoint in it; `SettingsError`: its
    configuration cannot be read.
    """
    check_folder(source)
    file = Path(source) / "config.json"
    if not file.is_file():
        shape = _shape(source)
        return None if shape is None else str(shape["model_type"])
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["model_type"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise SettingsError(f"{file} says no family (model_type): {type(error).__name__}: {error}") from error


def read_config(source: str) -> Any:
    """Read the transformers configuration of the checkpoint `source`, and nothing else of it.

    Raises `ModelRefusedError`: it can only be a folder, and there is none, or no checkpoint in it; `SettingsError`:
    there is none, its shape is not known, or its family is not; says how to get it.
    """
    from transformers import AutoConfig

    if (Path(source) / "config.json").is_file():
        try:
            config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise SettingsError(f"{source}/config.json cannot be read: {error}") from error
    else:
        check_folder(source)
        shape = _shape(source)
        if shape is None:
            raise SettingsError(
                f"the shape of {source} is not known, so no memory can be planned. Get its configuration alone (hf "
                f"download {source} config.json --local-dir FOLDER) and name that folder with --model; known by name: "
                f"{', '.join(known_shapes())}."
            )
        config = AutoConfig.for_model(**{name: value for name, value in shape.items() if name != "weights"})
    if config.model_type not in FAMILIES:
        raise SettingsError(f"{source} is of the family {config.model_type!r}; known: {', '.join(FAMILIES)}.")
    return config


def _shape(source: str) -> dict[str, Any] | None:
    return known_shapes().get(source.rstrip("/").rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A model as a run would have it, without data: its passes allocate nothing, and tensors have the real shapes."""

    model: Any
    config: Any
    family: ModelFamily
    low: bool
    """Whether forward passes run in bfloat16."""
    mode: FakeTensorMode

    def autocast(self) -> torch.autocast:
        """Return the context of a forward pass in the precision of the run."""
        return torch.autocast("cpu", torch.bfloat16, enabled=self.low)


def make_skeleton(settings: ModelSettings, *, low: bool) -> Skeleton:
    """Make the skeleton of the model that `settings` name, with the dtypes and frozen weights of a run.

    Raises `SettingsError`: its shape is not known, or LoRA finds no layer.
    """
    from transformers import AutoModelForImageTextToText

    config = read_config(settings.source)
    family = FAMILIES[config.model_type]
    dtype = getattr(torch, stored_dtype(settings, low=low))
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(copy.deepcopy(config), dtype=dtype, attn_implementation="sdpa")
        choose_weights(model, family, settings, low=low, seed=0)
    model.train()
    checkpoint_activations(model, settings.gradient_checkpointing)
    mode = FakeTensorMode()

    def moved(value: torch.Tensor) -> torch.Tensor:
        empty = torch.empty(value.shape, dtype=value.dtype)
        return torch.nn.Parameter(empty, value.requires_grad) if isinstance(value, torch.nn.Parameter) else empty

    with mode:  # from the meta device to a fake CPU, whose autocast is that of a real one
        swap_tensors(model, moved)
    return Skeleton(model, config, family, low, mode)


_FEW = 4
"""Layers up to which all of them are run."""
_SIDE = 8
"""Patches along the side of the picture that the vision tower is measured with."""


@dataclass(frozen=True, slots=True)
class PassBytes:
    """Bytes of one pass, without weights and gradients of weights."""

    held: int
    """Kept for the backward pass."""
    most: int
    """Peak."""


def language_pass(skeleton: Skeleton, tokens: int, *, recompute: bool) -> PassBytes:
    """Measure forward and backward over one row of `tokens`, up to the hidden states.

    `recompute`: every layer computes its activations again, of a skeleton that can; else none does.
    """
    language = skeleton.model.model.language_model
    layers = language.layers
    for layer in layers:
        layer.gradient_checkpointing = recompute
    kinds = {tuple((name, weight.shape) for name, weight in layer.named_parameters()) for layer in layers}
    alike = len(kinds) == 1 and skeleton.family.attention == "full"
    depths = (2, 3) if alike and len(layers) > _FEW else (len(layers),)
    found = []
    try:
        for depth in depths:
            language.layers = layers[:depth]
            found.append(_language_pass(skeleton, tokens))
    finally:
        language.layers = layers
    (first, last), more = (found[0], found[-1]), len(layers) - depths[0]
    return PassBytes(
        first.held + more * (last.held - first.held), max(first.most + more * (last.most - first.most), first.most)
    )


def _language_pass(skeleton: Skeleton, tokens: int) -> PassBytes:
    axes = skeleton.family.rope_axes
    with skeleton.mode, _gradients_dropped(skeleton.model):
        ids, at = torch.zeros((1, tokens), dtype=torch.int64), torch.arange(tokens)
        positions = at.repeat(axes, 1, 1) if axes > 1 else at[None]
        with PeakBytes() as counted:
            with skeleton.autocast():
                hidden = skeleton.model.model(input_ids=ids, position_ids=positions, use_cache=False).last_hidden_state
            held = counted.live
            hidden.sum().backward()
    return PassBytes(held, counted.most)


def logit_pass(skeleton: Skeleton, tokens: int, chunk: int) -> PassBytes:
    """Measure the scores of `tokens` and their gradient, above what the hidden states take."""
    weight = skeleton.model.get_output_embeddings().weight
    with skeleton.mode, _gradients_dropped(skeleton.model):
        hidden = torch.zeros((tokens, weight.shape[1]), requires_grad=True)
        targets = torch.zeros(tokens, dtype=torch.int64)
        rules = LogitRules(torch.zeros(len(weight), dtype=torch.bool), torch.ones(1), chunk)
        with PeakBytes() as counted:
            with skeleton.autocast():
                scores = token_scores(hidden, weight, targets, rules)
            held = counted.live
            (scores.logprobs.sum() + scores.entropy.sum()).backward()
    return PassBytes(held, counted.most)


def vision_pass(skeleton: Skeleton, tokens: int, settings: Any) -> PassBytes:
    """Measure forward, and backward where trained, of pictures or video steps that make `tokens` features."""
    vision = skeleton.config.vision_config
    field = "depth" if hasattr(vision, "depth") else "num_hidden_layers"
    depth = getattr(vision, field)
    sizes = {}
    for blocks in (1, 2):
        model = _small(skeleton, settings, field, blocks)
        for pictures in (1, 2):
            sizes[blocks, pictures] = _measured(model, skeleton, pictures)
    many = tokens / sizes[1, 1][1]
    held, most = (
        _extended({at: getattr(bytes_, name) for at, (bytes_, _) in sizes.items()}, depth, many)
        for name in ("held", "most")
    )
    return PassBytes(held, max(held, most))


def _extended(sizes: dict[tuple[int, int], int], blocks: int, pictures: float) -> int:
    """Extrapolate a function that is linear in blocks and in pictures from its values at 1 and 2 of both."""
    corner, deeper = sizes[1, 1], sizes[2, 1] - sizes[1, 1]
    more = sizes[1, 2] - corner
    both = sizes[2, 2] - sizes[2, 1] - more
    return int(corner + deeper * (blocks - 1) + (more + both * (blocks - 1)) * (pictures - 1))


def _small(skeleton: Skeleton, settings: Any, field: str, blocks: int) -> Any:
    """Make a real model of the same widths with `blocks` of vision and hardly any language model."""
    from transformers import AutoModelForImageTextToText

    config = copy.deepcopy(skeleton.config)
    text, vision = config.get_text_config(), config.vision_config
    text.num_hidden_layers, text.layer_types, text.vocab_size = 0, [], 16
    text.pad_token_id = text.bos_token_id = text.eos_token_id = None
    setattr(vision, field, blocks)
    if getattr(vision, "layer_types", None):
        vision.layer_types = vision.layer_types[:blocks]
    if hasattr(vision, "deepstack_visual_indexes"):
        vision.deepstack_visual_indexes = [0]
    model = AutoModelForImageTextToText.from_config(config, attn_implementation="sdpa")
    choose_weights(model, skeleton.family, settings.model_copy(update={"language": "full"}), low=skeleton.low, seed=0)
    checkpoint_activations(model, settings.gradient_checkpointing)
    return model.train()


def _measured(model: Any, skeleton: Skeleton, pictures: int) -> tuple[PassBytes, int]:
    """Measure the vision tower with `pictures` equal pictures; also return the number of features."""
    dtype = next(model.parameters()).dtype
    inputs = {
        name: value.to(dtype) if value.is_floating_point() else value
        for name, value in _pixels(model, skeleton, pictures).items()
    }
    trained = any(
        weight.requires_grad for module in vision_modules(model, skeleton.family) for weight in module.parameters()
    )
    with _gradients_dropped(model), PeakBytes() as counted:
        with skeleton.autocast():
            made = model.model.get_image_features(**inputs).pooler_output
        features = list(made) if isinstance(made, tuple | list) else [made]
        held = counted.live
        if trained:
            sum(feature.sum() for feature in features).backward()
    size = model.config.get_text_config().hidden_size
    return PassBytes(held, counted.most), sum(feature.numel() // size for feature in features)


def _pixels(model: Any, skeleton: Skeleton, pictures: int) -> dict[str, torch.Tensor]:
    vision = model.config.vision_config
    if "image_position_ids" in skeleton.family.tensor_names:
        side = 2 * vision.pooling_kernel_size
        at = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="xy"), dim=-1).view(1, -1, 2)
        return {
            "pixel_values": torch.zeros((pictures, side**2, 3 * vision.patch_size**2)),
            "image_position_ids": at.repeat(pictures, 1, 1),
        }
    if "image_grid_thw" not in skeleton.family.tensor_names:
        height, width = vision.image_size if isinstance(vision.image_size, list | tuple) else (vision.image_size,) * 2
        return {"pixel_values": torch.zeros((pictures, 3, height, width))}
    size = 3 * vision.temporal_patch_size * vision.patch_size**2
    return {
        "pixel_values": torch.zeros((pictures * _SIDE**2, size)),
        "image_grid_thw": torch.tensor([[1, _SIDE, _SIDE]] * pictures),
    }


@contextmanager
def _gradients_dropped(model: Any) -> Iterator[None]:
    """Drop each gradient of a weight as soon as it is complete: they are counted elsewhere."""

    def drop(weight: torch.Tensor) -> None:
        weight.grad = None

    hooks = [weight.register_post_accumulate_grad_hook(drop) for weight in model.parameters() if weight.requires_grad]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
