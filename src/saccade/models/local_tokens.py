"""A checkpoint's tokens without its weights: tokenizer, image processor, chat template, ids that end or are forbidden.

For who speaks to a model that is sampled elsewhere. Imports torch and transformers; import this module late.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer, GenerationConfig
from transformers.utils import cached_file

from saccade.errors import ModelError, ModelRefusedError
from saccade.models.families.base import ModelFamily
from saccade.models.families.known import family_of
from saccade.models.families.video import VideoRules
from saccade.models.local_text import check_folder, require_exact_text


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

    Raises:
        ModelRefusedError: frames would be scaled in another way than here.
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
