"""Load a checkpoint for training: which weights are trained, in which precision, and how they are exported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from saccade.core.disk import begin_folder, finish_folder
from saccade.core.plugins import install
from saccade.errors import SettingsError, TrainingError, UnavailableError
from saccade.models.families.base import ModelFamily
from saccade.models.local_text import LocalSettings, write_learned
from saccade.models.local_weights import Checkpoint, load_checkpoint, logit_cap, write_video_rules
from saccade.tokens.batch import Batch
from saccade.tokens.encoder import Encoder
from saccade.training.attention import PACKED, boundaries, use_packed
from saccade.training.parts import decoder_layers
from saccade.training.settings import LoraSettings, ModelSettings
from saccade.training.token_scores import LogitRules, TokenScores, token_scores


class TokenScorer(torch.nn.Module):  # type: ignore[misc]
    """The forward pass of training: a transformers model that gives scores of chosen tokens in place of logits.

    Logits exist only at those tokens, a chunk at a time, in float32 and over the ids that may be sampled: the softmax
    from which `LocalModel` and the engines draw.
    """

    def __init__(self, model: Any, forbidden: Tensor, chunk: int) -> None:
        """Wrap `model`; `forbidden` is bool (vocabulary,) on its device, `chunk` the positions with logits at once.

        Raises `TrainingError`: the model's head has a bias, which no known family has.
        """
        super().__init__()
        self.model = model
        self._forbidden = forbidden
        self._chunk = chunk
        self.always: list[torch.nn.Module] = []
        """Modules whose weights get a gradient of zeros where a pass does not use them."""
        if getattr(model.get_output_embeddings(), "bias", None) is not None:
            raise TrainingError("the head of this model has a bias, which the trainer does not know; take another one")

    def forward(self, batch: Batch, chosen: Tensor, temperature: float | None = None) -> TokenScores:
        """Score the `chosen` tokens, in the order of rows and places; greedy counts as temperature 1.

        Args:
            batch: on any device.
            chosen: bool (rows, tokens); never the first of a trajectory.
            temperature: by which logits are divided.
        """
        device, model = self._forbidden.device, self.model
        dtype = next(model.parameters()).dtype
        pictures = {
            name: value.to(device, dtype) if value.is_floating_point() else value.to(device)
            for name, value in batch.pictures.items()
        }
        packed = batch.packed and model.config.get_text_config()._attn_implementation == PACKED
        hidden = model.model(
            input_ids=batch.ids.to(device),
            position_ids=batch.positions.to(device),
            attention_mask=boundaries([length for _, _, length in batch.spans]) if packed else None,
            use_cache=False,
            **pictures,
        ).last_hidden_state
        before = chosen[:, 1:].to(device)  # a token is predicted at the position in front of it
        heat = torch.tensor([temperature or 1.0], device=device)
        rules = LogitRules(self._forbidden, heat, self._chunk, logit_cap(model.config))
        weight = model.get_output_embeddings().weight
        read = hidden[:, :-1][before]
        if not pictures:
            for unused in (weight for module in self.always for weight in module.parameters()):
                read = read + unused.flatten()[:0].sum()
        return token_scores(read, weight, batch.ids[:, 1:].to(device)[before], rules)


@dataclass(frozen=True, slots=True)
class Trainable:
    """A checkpoint that is ready for training."""

    checkpoint: Checkpoint
    encoder: Encoder
    adapter: Any
    """The `PeftModel` around the checkpoint's model; None without LoRA."""
    low_precision: bool
    """Whether forward passes run in bfloat16."""
    scorer: TokenScorer
    """The forward pass that is trained."""

    @property
    def model(self) -> Any:
        """The transformers model, adapters inside."""
        return self.checkpoint.model

    @property
    def packs(self) -> bool:
        """Whether several trajectories in one row need no mask of all their pairs of tokens."""
        attention = str(self.model.config.get_text_config()._attn_implementation)
        return "flash" in attention and self.encoder.family.attention == "full"

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """Return the trained weights by name."""
        return {name: value for name, value in self.model.named_parameters() if value.requires_grad}

    def autocast(self) -> torch.autocast:
        """Return the context of a forward pass."""
        return torch.autocast(self.checkpoint.device.type, torch.bfloat16, enabled=self.low_precision)

    def is_vision(self, name: str) -> bool:
        """Return whether the parameter of that name belongs to the vision tower."""
        return _within(name, self.encoder.family.vision_parts)

    def is_projector(self, name: str) -> bool:
        """Return whether it maps features of the tower to the language model."""
        return _within(name, self.encoder.family.projector_parts)


def load_trainable(settings: ModelSettings, device: torch.device, seed: int) -> Trainable:
    """Load the checkpoint that `settings` name on `device`, with trained weights in float32.

    Raises `ModelRefusedError`: it cannot be loaded; `TrainingError`: its family is not supported; `SettingsError`: the
    attention implementation or the size of pictures cannot be had.
    """
    low = is_low(settings, device.type)
    loaded = stored_dtype(settings, low=low)
    checkpoint = load_checkpoint(
        settings.source, LocalSettings(str(device), loaded, revision=settings.revision or None)
    )
    model = checkpoint.model
    _limit_pictures(checkpoint.image_processor, settings.picture_pixels)
    encoder = Encoder.of(checkpoint)
    packs = settings.attention == "auto" and encoder.family.attention == "full"
    try:
        model.set_attn_implementation("sdpa" if settings.attention == "auto" else settings.attention)
        if packs:
            use_packed(model.config)
        if settings.vision_attention:
            model.set_attn_implementation({"vision_config": settings.vision_attention})
    except (ValueError, ImportError) as error:
        settings_text = (
            f"model.attention = {settings.attention!r}, model.vision_attention = {settings.vision_attention!r}"
        )
        raise SettingsError(f"{settings_text} cannot be had here: {error}") from error
    adapter = choose_weights(model, encoder.family, settings, low=low, seed=seed)
    checkpoint_activations(model, settings.gradient_checkpointing)
    scorer = TokenScorer(model, checkpoint.forbidden, settings.logit_chunk)
    return Trainable(checkpoint, encoder, adapter, low, scorer)


def is_low(settings: ModelSettings, device: str) -> bool:
    """Return whether forward passes run in bfloat16 on such a device (`cpu`, `cuda`, ...)."""
    return settings.precision == "bfloat16" or (settings.precision == "auto" and device != "cpu")


def stored_dtype(settings: ModelSettings, *, low: bool) -> str:
    """Return the precision in which weights are loaded."""
    return "bfloat16" if low and settings.language == "lora" else "float32"


def choose_weights(model: Any, family: ModelFamily, settings: ModelSettings, *, low: bool, seed: int) -> Any:
    """Freeze what is not trained, in bfloat16 where that is the arithmetic; return LoRA's adapter or None."""
    model.requires_grad_(settings.language == "full")
    adapter = _adapter(model, settings.lora, seed) if settings.language == "lora" else None
    for name, parameter in model.named_parameters():
        if _within(name, family.vision_parts):
            parts = family.projector_parts if settings.vision == "projector" else family.vision_parts
            parameter.requires_grad_(settings.vision != "frozen" and _within(name, parts))
        if low or parameter.requires_grad:
            parameter.data = parameter.data.to(torch.float32 if parameter.requires_grad else torch.bfloat16)
    return adapter


def export(trained: Trainable, folder: Path, dtype: str, dialects: Mapping[str, int] | None = None) -> None:
    """Write the trained checkpoint as transformers does; the folder appears complete or not at all.

    `dialects` are those that it learned, with their shares of the data, and are recorded in the folder. Adapters are
    merged into the weights (and also kept, in `adapter`), so `trained` must not be used again.
    """
    partial = begin_folder(folder)
    checkpoint = trained.checkpoint
    model = checkpoint.model
    if trained.adapter is not None:
        trained.adapter.save_pretrained(partial / "adapter")
        model = trained.adapter.merge_and_unload()
    low = dtype == "bfloat16" or (dtype == "auto" and trained.low_precision)
    model = model.to(torch.bfloat16 if low else torch.float32)
    for part in (model, checkpoint.tokenizer, checkpoint.image_processor):
        part.save_pretrained(partial)
    if checkpoint.video is not None:
        write_video_rules(partial, checkpoint.video)
    (partial / "chat_template.jinja").write_text(checkpoint.chat_template, encoding="utf-8")
    write_learned(partial, dialects or {})
    finish_folder(folder)


def _within(name: str, parts: tuple[str, ...]) -> bool:
    dotted = f".{name}."
    return any(f".{part}." in dotted for part in parts)


def _adapter(model: Any, settings: LoraSettings, seed: int) -> Any:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise UnavailableError(f"the package `peft` is not installed. Run: {install('train')}") from error
    targets = "|".join(map(re.escape, settings.targets))
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=rf".*language_model.*\.({targets})",
    )
    torch.manual_seed(seed)
    try:
        return get_peft_model(model, config)
    except ValueError as error:
        raise SettingsError(f"model.lora.targets name no layer of the language model: {error}") from error


def checkpoint_activations(model: Any, layers: bool | int | str) -> None:
    """Let the first `layers` of the language model, and the tower, recompute their activations in the backward pass.

    All for True, none for False. Those that keep theirs come last: they are freed before any layer recomputes.
    """
    if not layers:
        return
    enable = getattr(model, "activation_checkpointing_enable", None)  # its name from transformers 5.23 on
    (enable or model.gradient_checkpointing_enable)()
    if layers is not True and layers != "auto":
        for layer in decoder_layers(model)[int(layers) :]:
            layer.gradient_checkpointing = False


def _limit_pictures(image_processor: Any, pixels: int) -> None:
    if not pixels:
        return
    size = dict(image_processor.size or {})
    if hasattr(image_processor, "max_soft_tokens"):
        raise SettingsError(
            "model.picture_pixels: this family bounds the features of a picture in place of its pixels; "
            "set max_soft_tokens in the checkpoint's preprocessor_config.json instead"
        )
    if "longest_edge" not in size:
        raise SettingsError(
            "model.picture_pixels: this family cuts pictures into tiles of one size and takes no limit of pixels; "
            "set max_patches in the checkpoint's preprocessor_config.json instead"
        )
    if pixels < size["shortest_edge"]:
        raise SettingsError(f"model.picture_pixels = {pixels} is below the checkpoint's least, {size['shortest_edge']}")
    image_processor.size = {"shortest_edge": size["shortest_edge"], "longest_edge": pixels}
