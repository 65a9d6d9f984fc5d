"""What providers say where no standard does: that the context is full, and that a budget is spent.

For a full context OpenAI, Azure and Groq send a code of their own, llama.cpp a type; Anthropic, vLLM, SGLang, Google,
Mistral, xAI, Bedrock and text-generation-inference only say it in words. Behind one protocol, and one address, any of
them may answer, so the words of all are known for all; a provider adds its own. Words that are not known here stay a
refusal of the request.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final


@dataclass(frozen=True, slots=True)
class ErrorWords:
    """How to read a provider's errors."""

    full_context: tuple[str, ...] = ()
    """Regular expressions, any of which in an error's words says that the request does not fit the context."""
    full_context_codes: frozenset[str] = frozenset()
    """Codes and types of errors that say the same."""
    spent_codes: frozenset[str] = frozenset()
    """Codes of a 429 that no waiting cures."""

    def __or__(self, other: ErrorWords) -> ErrorWords:
        """Both together."""
        return ErrorWords(
            (*self.full_context, *other.full_context),
            self.full_context_codes | other.full_context_codes,
            self.spent_codes | other.spent_codes,
        )

    def says_context_is_full(self, words: str, *codes: str) -> bool:
        """Whether a server's `words`, or one of its `codes` and types, say that a request does not fit the context."""
        if not self.full_context_codes.isdisjoint(codes):
            return True
        return bool(self.full_context) and _any_of(self.full_context).search(words) is not None


@cache
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.DOTALL)


COMMON: Final = ErrorWords(
    full_context=(
        r"maximum context length",  # OpenAI, Azure, vLLM, SGLang, OpenRouter, Mistral, llama-cpp-python
        r"maximum prompt length",  # xAI
        r"longer than the (model's context length|maximum model length)",  # SGLang; vLLM
        r"exceeds the maximum allowed (input )?length",  # SGLang
        r"max_tokens must be at least 1, got -",  # vLLM: nothing is left for the answer
        r"prompt is too long",  # Anthropic, and SGLang of pictures
        r"exceeds? (the )?context (window|size|length)",  # OpenAI
        r"exceeds the available context size",  # llama.cpp
        r"context size has been exceeded",  # llama.cpp
        r"input tokens exceed the configured limit",  # OpenAI
        r"input token count .{0,40}exceeds the maximum number of tokens",  # Google
        r"input is too long for requested model",  # Bedrock
        r"`inputs` tokens \+ `max_new_tokens` must be",  # text-generation-inference
    ),
    full_context_codes=frozenset({"context_length_exceeded", "context_window_exceeded", "exceed_context_size_error"}),
    spent_codes=frozenset({"insufficient_quota", "billing_hard_limit_reached"}),
)
"""What any server may say."""
