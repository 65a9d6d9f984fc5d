"""Keeps text that spells a placeholder from becoming one in verl.

verl 0.9.1 decodes the ids of a rollout and gives the text, with all pictures, to the checkpoint's processor, of whose
output it takes the pictures' tensors alone (`AgentLoopWorker._compute_multi_modal_inputs`). In that text a program that
printed `<|image_pad|>` has a placeholder without a picture, and the rollout is lost. Placeholders of real pictures are
not in it: they are special tokens, which decoding skips. So the processor is given the text without any.
"""

from __future__ import annotations

from typing import Any


def without(text: str, tokens: tuple[str, ...]) -> str:
    """`text` in which none of `tokens` is spelled, also by what stood around another one."""
    before = None
    while before != text:
        before = text
        for token in tokens:
            text = text.replace(token, "")
    return text


def keep_text_plain(processor: Any) -> None:
    """Let `processor` see no placeholder in a text from now on; idempotent."""
    kind = type(processor)
    if not issubclass(kind, _Plain):
        processor.__class__ = type(kind.__name__, (_Plain, kind), {})


class _Plain:
    """Before a processor of transformers, under its name, by which verl knows it."""

    def __call__(self, images: Any = None, text: Any = None, **more: Any) -> Any:
        names = (getattr(self, f"{kind}_token", None) for kind in ("image", "video"))
        tokens = tuple(name for name in names if name)
        plain = without(text, tokens) if isinstance(text, str) else [without(one, tokens) for one in text]
        return super().__call__(images=images, text=plain, **more)  # type: ignore[misc]
