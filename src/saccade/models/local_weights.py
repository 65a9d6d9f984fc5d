"""A checkpoint in memory: weights, tokenizer, image processor and chat template, from a folder or the Hugging Face hub.

Tokenizer and image processor are loaded apart, without transformers' joint processor, which would also want a video
processor and torchvision. Imports torch and transformers; import this module late.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer, PreTrainedConfig
from transformers.utils import logging

from saccade.errors import ModelError, ModelRefusedError, SettingsError
from saccade.models.families.base import ModelFamily
from saccade.models.families.known import family_of
from saccade.models.families.video import VideoRules
from saccade.models.local_patches import multiply_patches
from saccade.models.local_settings import LocalSettings, check_folder
from saccade.models.local_text import require_exact_text
from saccade.models.local_tokens import chat_template, forbidden_tokens, loading_advice, turn_ends
from saccade.models.local_video import load_video_rules
from saccade.models.local_windows import attend_together

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
        """Its configuration."""
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
        """Where the weights lie."""
        return self.forbidden.device


def load_checkpoint(source: str, settings: LocalSettings) -> Checkpoint:
    """The checkpoint in the folder `source`, or of that name on the hub.

    Raises:
        ModelRefusedError: it cannot be loaded, or its family is not known.
        SettingsError: device or dtype cannot be had.
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
    """Without transformers' own bars, which would tear those of the commands; as it was afterwards."""
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
