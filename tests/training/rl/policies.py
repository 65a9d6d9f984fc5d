"""Tiny checkpoints as policies, and a dialect in which noise is code and then an answer."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from saccade.dialects.base import Dialect, Observation, Opening
from saccade.models.local_text import LocalSettings
from saccade.models.local_weights import Checkpoint, load_checkpoint
from saccade.record.content import Action, Answer, Code, ImagePart, Message, TextPart
from saccade.record.execution import Execution
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, FinishReason
from saccade.sandbox.base import Limits, SessionOptions
from saccade.tokens.batch import Collator, token_row
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.segments import Encoder, TokenTrajectory


@dataclass(frozen=True)
class TinyPolicy:
    checkpoint: Checkpoint
    encoder: Encoder

    def autocast(self) -> nullcontext[None]:
        return nullcontext()


def policy(folder: Path) -> TinyPolicy:
    made = load_checkpoint(str(folder), LocalSettings(device="cpu"))
    encoder = Encoder(made.name, made.tokenizer, made.image_processor, made.model.config, made.chat_template)
    return TinyPolicy(made, encoder)


def said(role: str, *parts: str | ImagePart) -> Message:
    texts = [TextPart(text=part) if isinstance(part, str) else part for part in parts]
    return Message.model_validate({"role": role, "parts": tuple(texts)})


def full_logprobs(made: TinyPolicy, tokens: TokenTrajectory, media: object, heat: float = 1.0) -> np.ndarray:
    """Log-probability of every sampled token by one forward pass over the whole trajectory."""
    row = token_row(tokens)
    pictures = PictureTensors(made.encoder, media)  # type: ignore[arg-type]
    batch = Collator(made.encoder, pictures, made.checkpoint.model, packed=False)([row])
    with torch.no_grad():
        hidden = made.checkpoint.model.model(
            input_ids=batch.ids, position_ids=batch.positions, use_cache=False, **batch.pictures
        ).last_hidden_state
        logits = made.checkpoint.model.get_output_embeddings()(hidden).float()
    if cap := getattr(made.checkpoint.config.get_text_config(), "final_logit_softcapping", None):
        logits = cap * torch.tanh(logits / cap)
    logits = logits.masked_fill(made.checkpoint.forbidden, -torch.inf)
    found = torch.log_softmax(logits / heat, -1)[0, :-1].gather(-1, batch.ids[0, 1:, None])[:, 0].numpy()
    return found[row.trained[1:]]


@dataclass(frozen=True)
class Noise(Dialect):
    """`turns` turns of code that each show a crop, then an answer, whatever the model writes."""

    turns: int = 2
    role: str = "user"
    code: str = "plt.imshow(image.crop((0, 0, 32, 32))); plt.show()"
    id: str = "noise@1"
    stop: tuple[str, ...] = ()
    session: SessionOptions = field(default_factory=lambda: SessionOptions(preload=("plt",)))
    sandbox: Limits = field(default_factory=Limits)
    limits: EpisodeLimits = field(default_factory=EpisodeLimits)

    def open(self, task: Task) -> Opening:
        shown = task.media[0].part
        assert isinstance(shown, ImagePart)
        messages = (said("system", "Look."), said("user", shown, task.question))
        return Opening(messages, {"image": task.media[0].name}, {}, 1)

    def parse(self, text: str, finish: FinishReason) -> Action:
        return Code(code=self.code)

    def write(self, action: Action, thought: str = "") -> str:
        return thought  # in no form of its own

    def observe(self, execution: Execution, pictures: int) -> Observation:
        shown = [picture.image for picture in execution.pictures]
        message = said(self.role, f"It gave {execution.status.value}: ", *shown, "\nGo on.")
        return Observation(message, {}, pictures + len(shown))


@dataclass(frozen=True)
class Talkative(Noise):
    """Any text is an answer."""

    def parse(self, text: str, finish: FinishReason) -> Action:
        return Answer(text=text)
