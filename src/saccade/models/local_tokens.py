"""A checkpoint's tokens without its weights: tokenizer, image processor, chat template, ids that end or are forbidden.

For who speaks to a model that is sampled elsewhere. Imports torch and transformers; import this module late.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer, GenerationConfig

from saccade.errors import ModelError, ModelRefusedError
from saccade.models.families.base import ModelFamily
from saccade.models.families.known import family_of
from saccade.models.families.video import VideoRules
from saccade.models.local_files import text_of
from saccade.models.local_settings import check_folder
from saccade.models.local_text import require_exact_text
from saccade.models.local_video import load_video_rules


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
    """The tokens of the checkpoint in the folder `source`, or of that name on the hub.

    Raises:
        ModelRefusedError: they cannot be loaded, or its family is not known.
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
    """Ids that end a turn: those `configured` (one id, several or None), the tokenizer's and the family's."""
    known = tokenizer.get_vocab()
    ids = {configured} if isinstance(configured, int) else set(configured or ())
    return frozenset(ids | {tokenizer.eos_token_id, *map(known.get, family.ends)} - {None})


def _configured_ends(source: str, config: Any) -> Any:
    try:
        return GenerationConfig.from_pretrained(source).eos_token_id
    except OSError:  # there is no such file
        return getattr(config.get_text_config(), "eos_token_id", None)


def forbidden_tokens(tokenizer: Any, family: ModelFamily, vocabulary: int) -> torch.Tensor:
    """bool (vocabulary,): the family's reserved tokens, and rows of the embedding that no token has.

    A trainer must leave the same ids out of its softmax, or its probabilities are not those of the sampler.
    """
    forbidden = torch.zeros(vocabulary, dtype=torch.bool)
    known = tokenizer.get_vocab()
    forbidden[len(tokenizer) :] = True
    forbidden[[known[token] for token in family.reserved if token in known]] = True
    return forbidden


def loading_advice(source: str, error: Exception) -> str:
    """For a person: why a checkpoint cannot be loaded, and what to do."""
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
    """The template of the checkpoint's processor, for it knows pictures; else the tokenizer's.

    Raises:
        ModelRefusedError: there is neither.
    """
    for name in ("chat_template.jinja", "chat_template.json"):
        text = text_of(source, name, where)
        if text is not None:
            return str(json.loads(text)["chat_template"]) if name.endswith(".json") else text
    if isinstance(tokenizer.chat_template, str):
        return tokenizer.chat_template
    raise ModelRefusedError(f"{source} has no chat template; put one beside it as chat_template.jinja")
