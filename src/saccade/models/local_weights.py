"""A checkpoint from a folder or the Hugging Face hub: weights, tokenizer, image processor and chat template.

Tokenizer and image processor are loaded apart, without transformers' joint processor, which would also want a video
processor and torchvision. Imports torch and transformers; import this module late.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForImageTextToText,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
)
from transformers.utils import cached_file, logging

from saccade.errors import ModelError, ModelRefusedError, SettingsError
from saccade.models.families.base import ModelFamily, VideoRules
from saccade.models.families.known import family_of
from saccade.models.local_text import LocalSettings, check_folder, require_exact_text

# A checkpoint's tokens without its weights, for a model that is sampled elsewhere.


def text_of(source: str, name: str, where: Mapping[str, str]) -> str | None:
    """Return the text of the file `name` of a checkpoint, a folder or one of the hub; None if there is no such file."""
    path = cached_file(
        source,
        name,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
        _raise_exceptions_for_gated_repo=False,
        **where,
    )
    return None if path is None else Path(path).read_text(encoding="utf-8")


# The settings of a video processor, read from its files: transformers' own class needs torchvision.


FILE: Final = "video_preprocessor_config.json"
_OF_ALL, _OF_IMAGES = "processor_config.json", "preprocessor_config.json"
RULE_FILES: Final = (_OF_ALL, FILE, _OF_IMAGES)
"""Where a checkpoint may say what its video processor does."""
_BICUBIC = 3


def load_video_rules(source: str, where: Mapping[str, str], family: ModelFamily) -> VideoRules | None:
    """Return those of the checkpoint in the folder `source`, or of that name on the hub; None for a family without.

    Read as transformers does: `processor_config.json` where it holds them, else the file of the video processor, else
    that of the image processor. What none says is the family's.

    Raises `ModelRefusedError`: frames would be scaled in another way than here.
    """
    if family.video is None:
        return None
    joint = _read(source, _OF_ALL, where) or {}
    stored = joint.get("video_processor") or _read(source, FILE, where)
    said = stored or _read(source, _OF_IMAGES, where) or {}
    return replace(video_rules(said, family.video.rules, source), stored=stored)


def video_rules(said: Mapping[str, Any], published: VideoRules, source: str) -> VideoRules:
    """Return `published`, but for what is `said` in a file of `source`. Raises `ModelRefusedError`."""
    if not said.get("do_resize", True) or said.get("resample", _BICUBIC) != _BICUBIC:
        raise ModelRefusedError(
            f"the video processor of {source} scales frames in a way that is not known here (only bicubic is). "
            "Serve it with vLLM and name it vllm:NAME@http://HOST:8000/v1."
        )
    size = said.get("size") or {}
    bounds = {
        "shortest_edge": said.get("min_pixels") or size.get("shortest_edge"),
        "longest_edge": said.get("max_pixels") or size.get("longest_edge"),
    }
    known = {field.name for field in fields(VideoRules)} - {"stored"}
    values = {name: value for name, value in {**said, **bounds}.items() if name in known and value is not None}
    values |= {name: tuple(values[name]) for name in ("image_mean", "image_std") if name in values}
    return replace(published, **values)


def write_video_rules(folder: Path, rules: VideoRules) -> None:
    """Write the checkpoint's file of the video processor into the `folder` of another one; none if it has none.

    Then the rules follow from the image processor's file there, as they did before.
    """
    if rules.stored is not None:
        (folder / FILE).write_text(json.dumps(dict(rules.stored), indent=2) + "\n", encoding="utf-8")


def _read(source: str, name: str, where: Mapping[str, str]) -> dict[str, Any] | None:
    text = text_of(source, name, where)
    return None if text is None else dict(json.loads(text))


@dataclass(frozen=True, slots=True)
class CheckpointTokens:
    """All of a checkpoint but its weights."""

    name: str
    family: ModelFamily
    config: Any
    """As transformers reads it."""
    tokenizer: Any
    image_processor: Any
    chat_template: str
    end_ids: frozenset[int]
    """Tokens that end a turn."""
    forbidden: torch.Tensor
    """bool (vocabulary,): never sampled."""
    context_tokens: int
    """Most tokens of prompt and answer together."""
    video: VideoRules | None = None
    """What its video processor does; None for a family without."""


def load_tokens(source: str) -> CheckpointTokens:
    """Return the tokens of the checkpoint in the folder `source`, or of that name on the hub. Raises
    `ModelRefusedError` if they cannot be loaded, or its family is not known.
    """
    check_folder(source)
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        family = family_of(str(config.model_type), source)
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        image_processor = AutoImageProcessor.from_pretrained(source, trust_remote_code=False, backend="pil")
        configured = _configured_ends(source, config)
    except ModelError:
        raise
    except Exception as error:  # a broken folder fails in as many ways as it has files
        raise ModelRefusedError(loading_advice(source, error)) from error
    require_exact_text(tokenizer, source)
    text = config.get_text_config()
    return CheckpointTokens(
        source,
        family,
        config,
        tokenizer,
        image_processor,
        chat_template(source, {}, tokenizer),
        turn_ends(configured, tokenizer, family),
        forbidden_tokens(tokenizer, family, int(text.vocab_size)),
        int(text.max_position_embeddings),
        load_video_rules(source, {}, family),
    )


def turn_ends(configured: Any, tokenizer: Any, family: ModelFamily) -> frozenset[int]:
    """Return ids that end a turn: those `configured` (one id, several or None), the tokenizer's and the family's."""
    known = tokenizer.get_vocab()
    ids = {configured} if isinstance(configured, int) else set(configured or ())
    return frozenset(ids | {tokenizer.eos_token_id, *map(known.get, family.ends)} - {None})


def _configured_ends(source: str, config: Any) -> Any:
    try:
        return GenerationConfig.from_pretrained(source).eos_token_id
    except OSError:  # there is no such file
        return getattr(config.get_text_config(), "eos_token_id", None)


def forbidden_tokens(tokenizer: Any, family: ModelFamily, vocabulary: int) -> torch.Tensor:
    """Return bool (vocabulary,): the family's reserved tokens, and rows of the embedding that no token has.

    A trainer must leave the same ids out of its softmax, or its probabilities are not those of the sampler.
    """
    forbidden = torch.zeros(vocabulary, dtype=torch.bool)
    known = tokenizer.get_vocab()
    forbidden[len(tokenizer) :] = True
    forbidden[[known[token] for token in family.reserved if token in known]] = True
    return forbidden


def loading_advice(source: str, error: Exception) -> str:
    """Tell a person why a checkpoint cannot be loaded, and what to do."""
    words = str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
    if Path(source).is_dir():
        return (
            f"the checkpoint in {source} cannot be loaded: {words}. "
            "The folder needs config.json, the weights, the tokenizer's files and preprocessor_config.json."
        )
    return (
        f"the checkpoint {source} cannot be loaded: {words}. Check the name; without a way to the hub, download it "
        f"elsewhere (hf download {source} --local-dir FOLDER) and name the folder: local:FOLDER"
    )


def chat_template(source: str, where: dict[str, str], tokenizer: Any) -> str:
    """Return the template of the checkpoint's processor, for it knows pictures; else the tokenizer's. Raises
    `ModelRefusedError` if there is neither.
    """
    for name in ("chat_template.jinja", "chat_template.json"):
        text = text_of(source, name, where)
        if text is not None:
            return str(json.loads(text)["chat_template"]) if name.endswith(".json") else text
    if isinstance(tokenizer.chat_template, str):
        return tokenizer.chat_template
    raise ModelRefusedError(f"{source} has no chat template; put one beside it as chat_template.jinja")


# Patch embeddings (Qwen's towers) are convolutions whose kernel covers the whole input: on a CPU much slower than the
# equal matrix product (a third of a tiny model's training step). Same weights; only the order of the sums may differ.


def multiply_patches(model: Any) -> None:
    """Let the patch embedding of `model`, if it has one of the Qwen towers, multiply matrices from now on."""
    tower = getattr(getattr(model, "model", None), "visual", None)
    embedding = getattr(tower, "patch_embed", None)
    kernel = getattr(embedding, "proj", None)
    if isinstance(kernel, torch.nn.Conv3d) and kernel.kernel_size == kernel.stride and not any(kernel.padding):
        # A class of its own, not a function on the object: copies of the model must use their own weights.
        embedding.__class__ = type("MultipliedPatches", (_Multiplied, type(embedding)), {})


class _Multiplied:
    proj: torch.nn.Conv3d

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Return (patches, channels · frames · height · width) to (patches, features)."""
        weight = self.proj.weight.flatten(1)
        patches = hidden_states.view(-1, weight.shape[1]).to(weight.dtype)
        return torch.nn.functional.linear(patches, weight, self.proj.bias)


# On a CPU, many small attentions one after the other are slow: pictures and windows of one size go together.
#
# The Qwen towers attend within each picture, or each window of it, in a loop over them. Forty thumbnails were forty
# calls for each layer. Same weights, same sums; only their order may differ.


_ROTARY = "apply_rotary_pos_emb_vision"


def attend_together(model: Any) -> None:
    """Let the vision tower of `model`, if it is one of the Qwen towers, attend within equal windows at once."""
    tower = getattr(getattr(model, "model", None), "visual", None)
    for block in getattr(tower, "blocks", ()):
        attention = block.attn
        written = sys.modules[type(attention).__module__]
        if hasattr(attention, "qkv") and hasattr(written, _ROTARY):
            # A class of its own, not a function on the object: copies of the model must use their own weights.
            attention.__class__ = type("Together", (_Together, type(attention)), {"written": written})


class _Together:
    written: ModuleType
    """Where the class comes from that this one stands in for."""
    qkv: torch.nn.Linear
    proj: torch.nn.Linear
    num_heads: int
    scaling: float
    config: Any

    def forward(
        self,
        hidden_states: torch.Tensor,
        cu_seqlens: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        **kwargs: Any,
    ) -> torch.Tensor:
        """Map (patches, features) to the same; `cu_seqlens` are the windows' first patches, and the number of all."""
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, self.written.eager_attention_forward
        )
        windows, order = _by_length(cu_seqlens.tolist())
        cos, sin = position_embeddings
        if order is not None:
            hidden_states, cos, sin = (part.index_select(0, order) for part in (hidden_states, cos, sin))
        # 3 x (patches, heads, features of a head)
        query, key, value = self.qkv(hidden_states).unflatten(1, (3, self.num_heads, -1)).unbind(1)
        query, key = getattr(self.written, _ROTARY)(query, key, cos, sin)
        sizes = [length * number for length, number in windows]
        mixed = []
        for (length, _), *parts in zip(windows, *(part.split(sizes) for part in (query, key, value)), strict=True):
            # (windows, heads, patches of a window, features of a head)
            asked = [part.unflatten(0, (-1, length)).transpose(1, 2) for part in parts]
            output, _ = attend(self, *asked, attention_mask=None, scaling=self.scaling, dropout=0.0, is_causal=False)
            mixed.append(output.flatten(2).flatten(0, 1))
        together = mixed[0] if len(mixed) == 1 else torch.cat(mixed)
        return self.proj(together if order is None else together.index_select(0, order.argsort()))


def _by_length(bounds: list[int]) -> tuple[list[tuple[int, int]], torch.Tensor | None]:
    """Return lengths of windows and how many have each, and the patches in that order; None if it is theirs already."""
    starts: dict[int, list[int]] = defaultdict(list)
    for start, end in pairwise(bounds):
        if end > start:
            starts[end - start].append(start)
    windows = [(length, len(found)) for length, found in starts.items()]
    if len(windows) == 1:
        return windows, None
    order = [torch.tensor(found)[:, None] + torch.arange(length) for length, found in starts.items()]
    return windows, torch.cat([places.flatten() for places in order])


_LOADING = threading.Lock()
"""While transformers loads a model, its class has a `tie_weights` that does nothing. Of two loads at once, the later
puts back what it found: for good, an empty one."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that is needed to answer."""

    name: str
    """Name and, from the hub, the commit."""
    family: ModelFamily
    model: Any
    tokenizer: Any
    image_processor: Any
    chat_template: str
    end_ids: frozenset[int]
    """Tokens that end a turn."""
    forbidden: torch.Tensor
    """bool (vocabulary,): never sampled, and left out of every probability."""
    context_tokens: int
    """Most tokens of prompt and answer together."""
    max_pixels: int | None
    video: VideoRules | None = None
    """What its video processor does; None for a family without."""

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def placeholder_id(self) -> int:
        """The id of which a prompt has one for each feature of a picture."""
        return int(self.tokenizer.convert_tokens_to_ids(self.family.placeholder))

    @property
    def placeholders(self) -> frozenset[int]:
        """Ids of which a prompt has one for each feature of a picture or a video."""
        form = self.family.video
        names = [self.family.placeholder, *([] if form is None else [form.placeholder])]
        return frozenset(self.tokenizer.convert_tokens_to_ids(names))

    @property
    def device(self) -> torch.device:
        return self.forbidden.device


def load_checkpoint(source: str, settings: LocalSettings) -> Checkpoint:
    """Return the checkpoint in the folder `source`, or of that name on the hub.

    Raises `ModelRefusedError`: it cannot be loaded, or its family is not known; `SettingsError`: device or dtype cannot
    be had.
    """
    device, dtype = _placement(settings)
    where = {"revision": settings.revision} if settings.revision else {}
    check_folder(source)
    try:
        # Read as data first: a configuration with code of its own is refused before transformers could ask to run it.
        config, _ = PreTrainedConfig.get_config_dict(source, **where)
        family = family_of(str(config.get("model_type") or ""), source)
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, **where)
        image_processor = AutoImageProcessor.from_pretrained(
            source,
            trust_remote_code=False,
            backend="pil",
            **where,  # the same pixels with torchvision and without
        )
        with _LOADING, _without_bars():
            model, loading = AutoModelForImageTextToText.from_pretrained(
                source, dtype=dtype, trust_remote_code=False, output_loading_info=True, **where
            )
        model = model.to(device).eval()
        if torch.device(device).type == "cpu":
            multiply_patches(model)
            attend_together(model)
    except (ModelError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a broken folder fails in as many ways as it has files
        raise ModelRefusedError(loading_advice(source, error)) from error
    if loading["missing_keys"]:
        missing = sorted(loading["missing_keys"])
        raise ModelRefusedError(
            f"the weights of {source} lack {len(missing)} tensors, {missing[0]} first. Get it again."
        )
    require_exact_text(tokenizer, source)
    commit = getattr(model.config, "_commit_hash", None)
    return Checkpoint(
        name=f"{source}@{commit}" if commit else source,
        family=family,
        model=model,
        tokenizer=tokenizer,
        image_processor=image_processor,
        chat_template=chat_template(source, where, tokenizer),
        end_ids=turn_ends(model.generation_config.eos_token_id, tokenizer, family),
        forbidden=forbidden_tokens(tokenizer, family, _vocabulary(model)).to(device),
        context_tokens=model.config.get_text_config().max_position_embeddings,
        max_pixels=settings.max_pixels,
        video=load_video_rules(source, where, family),
    )


@contextmanager
def _without_bars() -> Iterator[None]:
    """Hide transformers' own bars within the block: they would tear those of the commands."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _vocabulary(model: Any) -> int:
    return int(model.get_output_embeddings().weight.shape[0])


def _placement(settings: LocalSettings) -> tuple[str, Any]:
    gpu = torch.cuda.is_available()
    device = ("cuda" if gpu else "cpu") if settings.device == "auto" else settings.device
    if device.startswith("cuda") and not gpu:
        raise SettingsError(f"the device {device} was asked for, but torch {torch.__version__} sees no GPU here.")
    if settings.dtype == "auto":
        return device, torch.bfloat16 if device.startswith("cuda") else torch.float32
    dtypes = {name: getattr(torch, name) for name in ("float32", "bfloat16", "float16")}
    if settings.dtype not in dtypes:
        raise SettingsError(f"there is no dtype {settings.dtype!r}; take one of auto, {', '.join(dtypes)}")
    return device, dtypes[settings.dtype]


# Logits of some families are bounded by a soft cap: c tanh(x / c). Imports torch; import this module late.


def logit_cap(config: Any) -> float | None:
    """Return c of a transformers configuration, None where logits are not bounded."""
    cap = getattr(config.get_text_config(), "final_logit_softcapping", None)
    return None if cap is None else float(cap)


def capped(logits: torch.Tensor, cap: float | None) -> torch.Tensor:
    """Return `logits` within the cap, of the same shape; as they are without one."""
    return logits if cap is None else torch.tanh(logits / cap) * cap
