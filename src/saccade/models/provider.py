"""What is known of one provider of models, all in one object: how to make a model, what it can do, how it fails.

    ACME = Provider(name="acme", description="Acme's models, as in `acme:small`.", make=acme_model)

One file of `saccade.models.providers` holds one, and `registry.PROVIDERS` names it; of another package an entry point
of the group `saccade.models` does, and of a user's own file its path, as in `acme.py:ACME@small`. A plain function or
class that makes a model is a provider too, of which nothing more is known. Pure data; no client is imported here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from saccade.errors import RegistryError
from saccade.models.base import Model
from saccade.models.error_words import COMMON, ErrorWords


def _only_for_plans(provider: Any, name: str) -> Model:
    raise RegistryError(
        f"{provider.name} is made for each task of an evaluation: saccade eval SOURCE --model {provider.name}."
    )


@dataclass(frozen=True, kw_only=True)
class Provider:
    """One provider. What is not known keeps its default, and is then not refused before it is tried."""

    name: str
    """As it is recorded, and as its prices and its key are found."""
    description: str = ""
    """A line for `saccade list models`."""
    example: str = ""
    """How somebody names a model of it, for messages and help; empty to leave it out there."""
    make: Callable[[Any, str], Model] = _only_for_plans
    """A model of this provider, the first argument, by the text behind its colon; not needed with `for_plan`."""
    takes_name: bool = True
    """Whether there must be such a text."""
    for_plan: Callable[[Any], Model] | None = None
    """Make a model for the `Plan` of one task: for baselines, which look at the task. Evaluations play with it."""
    checkpoint: Callable[[str], str] | None = None
    """The folder or hub name of the weights of its model of that name, for training; None if it has none."""
    refusal: Callable[[str, Sequence[str]], str] | None = None
    """Why it cannot answer a question with these choices, as a sentence; empty if it can. Asked where no model is named
    and this is the default. Raises `UnavailableError` if it cannot be used at all."""

    key_names: tuple[str, ...] = ()
    """Environment variables that hold its key, after `SACCADE_<NAME>_API_KEY`."""
    needs_key: bool = False
    telemetry_name: str = ""
    """As OpenTelemetry's conventions call it; empty for its name."""
    price_table: str = ""
    """Its table in a file of prices; empty for that of its name."""
    errors: ErrorWords = COMMON

    samples: bool = True
    """It draws tokens, so that sampling settings change something."""
    unknown_sampling: frozenset[str] = frozenset()
    """Sampling settings that it cannot be given."""
    stop_strings: str = ""
    """Who finds stop strings, for a reader."""
    token_ids: bool = False
    """It gives ids and log-probabilities of what was sampled."""
    function_calls: bool = True
    """It has function calling of its own."""
    result_pictures: bool = False
    """Pictures can stand in the result of such a call; otherwise a message of the user holds them."""
    hosted_code: bool = False
    """It can run the model's code in a sandbox of its own (the dialect `hosted`)."""
    no_hosted_code: str = ""
    """Regular expression for names of its models that cannot have code run there; empty if none is known."""
    videos: bool = False
    """It takes videos."""
    video_frames: bool = False
    """It can be told which frames of a video are shown."""
    continues: bool | None = None
    """It continues an assistant's message; None: that depends on the model, and shows when it is asked."""

    dialect: str = ""
    """Which dialect suits its models; empty if that is not known."""
    dialect_reason: str = ""
    """Why, as the end of a sentence."""
    learned_dialect: Callable[[str], str] | None = None
    """The dialect that the model of that name was trained in or recorded with; empty if that is not known."""

    @property
    def prices(self) -> str:
        """Its table in a file of prices."""
        return self.price_table or self.name

    def runs_code(self, model: str) -> bool:
        """Whether its sandbox can run the code of its model of that name, as far as that is known."""
        return self.hosted_code and not (self.no_hosted_code and re.match(self.no_hosted_code, model))

    def own_dialect(self, model: str) -> str:
        """The dialect that its model of that name is known to speak; empty if that is not known."""
        return self.learned_dialect(model) if self.learned_dialect is not None else ""
