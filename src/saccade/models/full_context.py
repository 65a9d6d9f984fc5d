"""Tells a full context from every other refusal, by the code or the words that a server gives.

There is no standard for it. OpenAI, Azure and Groq send a code of their own, llama.cpp a type; Anthropic, vLLM, SGLang,
Google, Mistral, xAI, Bedrock and text-generation-inference only say it in words. Words that are not known here stay a
refusal of the request.
"""

from __future__ import annotations

import re
from typing import Final

_CODES: Final = frozenset({"context_length_exceeded", "context_window_exceeded", "exceed_context_size_error"})
_WORDS: Final = re.compile(
    "|".join(
        (
            r"maximum context length",  # OpenAI, Azure, vLLM, SGLang, OpenRouter, Mistral, llama-cpp-python
            r"maximum prompt length",  # xAI
            r"longer than the (model's context length|maximum model length)",  # SGLang; vLLM
            r"exceeds the maximum allowed (input )?length",  # SGLang
            r"max_tokens must be at least 1, got -",  # vLLM: nothing is left for the answer
            r"prompt is too long",  # Anthropic, and SGLang of pictures
            r"exceeds? (the )?context (limit|window|size|length)",  # Anthropic, OpenAI
            r"exceeds the available context size",  # llama.cpp
            r"context size has been exceeded",  # llama.cpp
            r"input tokens exceed the configured limit",  # OpenAI
            r"input token count .{0,40}exceeds the maximum number of tokens",  # Google
            r"input is too long for requested model",  # Bedrock
            r"`inputs` tokens \+ `max_new_tokens` must be",  # text-generation-inference
        )
    ),
    re.IGNORECASE | re.DOTALL,
)


def says_context_is_full(words: str, *codes: str) -> bool:
    """Whether a server's `words`, or one of its `codes` and types, say that a request does not fit the context."""
    return not _CODES.isdisjoint(codes) or _WORDS.search(words) is not None
