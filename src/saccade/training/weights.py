"""Load a checkpoint for training, score tokens with it, and export it: precision, LoRA, attention over packed rows."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from saccade.core.disk import begin_folder, finish_folder
from saccade.core.registry import install
from saccade.errors import SettingsError, TrainingError, UnavailableError
from saccade.models.families.base import ModelFamily
from saccade.models.local_text import LocalSettings, write_learned
from saccade.models.local_weights import Checkpoint, capped, load_checkpoint, logit_cap, write_video_rules
from saccade.tokens.batch import Batch
from saccade.tokens.caches import varlen_kernel
from saccade.tokens.encoder import Encoder
from saccade.training.settings import LoraSettings, ModelSettings, decoder_layers

_IMPOSSIBLE = -1e4
"""A log-probability whose probability is 0 in float32, and finite: 0 · -inf would be no number."""


class TokenScores(NamedTuple):
    """Scores of tokens, each predicted from one hidden state; tensors (tokens,)."""

    logprobs: Tensor
    """Natural, of the target under the softmax over what may be sampled; gradients flow."""
    entropy: Tensor
    """Of that distribution, in nats; gradients flow."""
    preferred: Tensor
    """bool: no other id has a higher logit."""


@dataclass(frozen=True, slots=True)
class LogitRules:
    """How logits become a distribution, and how many are held at once."""

    forbidden: Tensor
    """bool (vocabulary,): never sampled."""
    heat: Tensor
    """(1,): the temperature. A tensor, since torch divides by a plain number in another way on some devices."""
    chunk: int
    """Positions whose logits exist at once."""
    cap: float | None = None
    """Bounds logits softly, before all else; None where they are not bounded."""


def token_scores(hidden: Tensor, weight: Tensor, targets: Tensor, rules: LogitRules) -> TokenScores:
    """Score `targets`, a chunk of positions at a time.

    With 152 thousand ids a position takes 0.6 MB in float32: logits of a whole pass would be the largest tensors of a
    step. Those of a chunk are computed again on the way back; the head's gradient is summed in float32.

    Args:
        hidden: (tokens, size), what the head reads.
        weight: (vocabulary, size) of the head, which has no bias.
        targets: int64 (tokens,).
        rules: of the logits.
    """
    logprobs, entropy, preferred = _Chunked.apply(hidden, weight, targets, rules, _dtype(hidden, weight))
    return TokenScores(logprobs, entropy, preferred)


def _dtype(hidden: Tensor, weight: Tensor) -> torch.dtype:
    """Return the type of the multiplication: what autocast says, else the weight's."""
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype


class _Chunked(torch.autograd.Function):  # type: ignore[misc]
    """Keeps nothing of a chunk but its scores."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, rules: LogitRules, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(hidden, weight, targets)
        ctx.set_materialize_grads(False)
        ctx.rules, ctx.dtype = rules, dtype
        found = [torch.empty(len(targets), device=hidden.device) for _ in range(2)]
        preferred = torch.empty(len(targets), dtype=torch.bool, device=hidden.device)
        with torch.autocast(hidden.device.type, enabled=False):
            multiplied = weight.to(dtype)
            for part in _parts(len(targets), rules.chunk):
                logprobs = _log_softmax(_logits(hidden[part].to(dtype), multiplied, rules), rules)
                found[0][part] = logprobs.gather(-1, targets[part, None])[:, 0]
                preferred[part] = logprobs.argmax(-1) == targets[part]
                found[1][part] = torch.special.entr(logprobs.exp_()).sum(-1)
        ctx.mark_non_differentiable(preferred)
        return found[0], found[1], preferred

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, of_logprobs: Tensor | None, of_entropy: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
        hidden, weight, targets = ctx.saved_tensors
        of_logprobs = hidden.new_zeros(len(targets), dtype=torch.float32) if of_logprobs is None else of_logprobs
        rules, dtype = ctx.rules, ctx.dtype
        of_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        of_weight = torch.zeros_like(weight, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        with torch.autocast(hidden.device.type, enabled=False):
            multiplied = weight.to(dtype)
            for part in _parts(len(targets), rules.chunk):
                read = hidden[part].to(dtype)
                logits = _logits(read, multiplied, rules)
                gain = None if rules.cap is None else 1 - (logits / rules.cap) ** 2
                logprobs = _log_softmax(logits, rules)
                del logits
                slope = _slope(
                    logprobs, targets[part], of_logprobs[part], None if of_entropy is None else of_entropy[part]
                )
                del logprobs
                slope = slope.div_(rules.heat)
                slope = (slope if gain is None else slope.mul_(gain)).to(dtype)
                if of_hidden is not None:
                    of_hidden[part] = (slope @ multiplied).to(hidden.dtype)
                if of_weight is not None and dtype == torch.float32:
                    of_weight.addmm_(slope.mT, read)
                elif of_weight is not None:
                    of_weight += slope.mT @ read
        return of_hidden, None if of_weight is None else of_weight.to(weight.dtype), None, None, None


def _parts(tokens: int, chunk: int) -> Iterator[slice]:
    return (slice(start, start + chunk) for start in range(0, tokens, chunk))


def _logits(hidden: Tensor, weight: Tensor, rules: LogitRules) -> Tensor:
    """Return float32 (tokens, vocabulary)."""
    return capped((hidden @ weight.mT).float(), rules.cap)


def _log_softmax(logits: Tensor, rules: LogitRules) -> Tensor:
    """Return the log-softmax, -inf where forbidden; overwrites `logits`."""
    return torch.log_softmax(logits.masked_fill_(rules.forbidden, -torch.inf).div_(rules.heat), dim=-1)


def _slope(logprobs: Tensor, targets: Tensor, of_logprobs: Tensor, of_entropy: Tensor | None) -> Tensor:
    """Return the gradient of logits / temperature: g (1_t - p) - h p (log p + H)."""
    probabilities = logprobs.exp()
    if of_entropy is not None:
        entropy = torch.special.entr(probabilities).sum(-1)
        inner = logprobs.clamp_(min=_IMPOSSIBLE).add_(entropy[:, None]).mul_(of_entropy[:, None])
        slope = inner.add_(of_logprobs[:, None]).mul_(probabilities).neg_()
    else:
        slope = probabilities.mul_(-of_logprobs[:, None])
    return slope.scatter_add_(-1, targets[:, None], of_logprobs[:, None])


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
        return self.checkpoint.model

    @property
    def packs(self) -> bool:
        """Whether several trajectories in one row need no mask of all their pairs of tokens."""
        attention = str(self.model.config.get_text_config()._attn_implementation)
        return "flash" in attention and self.encoder.family.attention == "full"

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        return {name: value for name, value in self.model.named_parameters() if value.requires_grad}

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.checkpoint.device.type, torch.bfloat16, enabled=self.low_precision)

    def is_vision(self, name: str) -> bool:
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
        with warnings.catch_warnings():  # peft reads a property of transformers that is deprecated
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated")
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


_log = logging.getLogger(__name__)

PACKED = "saccade_flash"
"""Its name for transformers, which gives the windows of a picture in one call to what has `flash` in its name."""


def use_packed(config: Any) -> None:
    """Let each packed trajectory attend only to itself, in every part of the model, windows of pictures included.

    In bfloat16 on a GPU torch's flash attention takes all of them in one call, elsewhere one after the other; no mask
    of all pairs is made.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(PACKED, attend)
    AttentionMaskInterface.register(PACKED, sdpa_mask)
    config._attn_implementation = PACKED  # `set_attn_implementation` looks for names with `flash` on the hub


def boundaries(lengths: list[int]) -> Tensor:
    """Return what stands for the mask of a packed row: int32 (1, 1, 1, trajectories + 1), on the CPU.

    transformers passes a tensor of four axes to each layer as it is, and integers tell it from a mask.
    """
    return torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32).view(1, 1, 1, -1)


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    cu_seq_lens_q: Tensor | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Attend as transformers' functions do; plain `sdpa` where there are no boundaries.

    Arguments are transformers': `query` (1, heads, tokens, size), of which `key` and `value` may have fewer heads;
    `attention_mask` of `boundaries` (causal), a mask, or None; `dropout` above 0 keeps from flash attention;
    `is_causal` None for what the layer says; `cu_seq_lens_q` boundaries of windows of the vision tower, each of which
    sees all of itself. Returns (1, tokens, heads, size), and None.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if attention_mask is not None and attention_mask.dtype == torch.int32:
        ends, attention_mask, is_causal = attention_mask.flatten(), None, True
    elif cu_seq_lens_q is not None:
        ends, is_causal = cu_seq_lens_q, False
    else:
        masked = sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, is_causal, **more)
        return masked[0], None
    why = _unfit(query, dropout)
    if not why:
        longest = ends.diff().max() if more.get("max_length_q") is None else more["max_length_q"]
        ends = ends.to(query.device, torch.int32, non_blocking=True)
        return _flash(query, key, value, ends, int(longest), scaling, is_causal), None
    _say(query.device.type, why)
    sizes = ends.diff().tolist()
    each = zip(*(tensor.split(sizes, dim=2) for tensor in (query, key, value)), strict=True)
    found = [sdpa_attention_forward(module, q, k, v, None, dropout, scaling, is_causal, **more)[0] for q, k, v in each]
    return torch.cat(found, dim=1), None


def _flash(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int, scaling: float | None, causal: bool
) -> Tensor:
    kernel = varlen_kernel("scale", "window_size")
    dtype, options = _arithmetic(query), {}
    if query.shape[1] != key.shape[1]:
        if varlen_kernel("enable_gqa"):
            options["enable_gqa"] = True
        else:
            key, value = (tensor.repeat_interleave(query.shape[1] // key.shape[1], dim=1) for tensor in (key, value))
    query, key, value = (tensor[0].transpose(0, 1).to(dtype) for tensor in (query, key, value))
    window = (-1, 0) if causal else (-1, -1)
    found: Tensor = kernel(
        query, key, value, ends, ends, longest, longest, scale=scaling, window_size=window, **options
    )
    return found[None]


def _arithmetic(tensor: Tensor) -> torch.dtype:
    """Return the precision of products: torch's flash attention is not among what autocast casts."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype


def _unfit(query: Tensor, dropout: float) -> str:
    """Say why flash attention cannot be had; empty where it can."""
    if query.device.type != "cuda":
        return "flash attention needs a GPU"
    if _arithmetic(query) not in (torch.bfloat16, torch.float16):
        return "flash attention needs model.precision=bfloat16"
    if varlen_kernel("scale", "window_size") is None:
        return f"torch {torch.__version__} has no attention over sequences of several lengths; 2.11 has"
    if torch.cuda.get_device_capability(query.device) < (8, 0):
        return "flash attention needs a GPU of compute capability 8.0"
    if query.shape[-1] % 8 or query.shape[-1] > 256:
        return f"flash attention takes no heads of size {query.shape[-1]}"
    return "flash attention takes no dropout" if dropout else ""


@cache
def _say(device: str, why: str) -> None:
    level = logging.INFO if device == "cpu" else logging.WARNING
    _log.log(level, "Packed trajectories are attended to one after the other: %s.", why)
