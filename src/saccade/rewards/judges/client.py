"""Ask models that judge, for curation, evaluations and rewards: replies are kept, requests bounded.

    client = JudgeClient(load_model("openai:gpt-4.1-mini"), AskRules(seconds=60, dollars=2.0), kept=Path("judge"))
    said = await client.ask(message, read)          # what `read` makes of the reply, or a `NoReply`

If `read` finds nothing in a reply, the question is asked again, each time at a higher temperature. `seconds` bounds
one request with all retries. After `outages` lost requests in a row no request is made for `seconds`, so that a hanging
judge delays a training step only once. The caller decides what a missing reply means; raised is only what no other
question would avoid.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TypeVar

from pydantic import PositiveFloat, PositiveInt, ValidationError

from saccade.core.retry import DEFAULT_RETRY, RetryPolicy
from saccade.core.settings import Settings
from saccade.errors import MissingMediaError, ModelDeniedError, ModelLostError, ModelRefusedError, SettingsError
from saccade.models.base import Completion, MediaReader, Model, Request
from saccade.models.exchanges import KeptModel
from saccade.models.hosted import HostedModel
from saccade.record.content import Message, Record, clean_text
from saccade.record.trajectory import FinishReason, Sampling
from saccade.rewards.reward import NoVerdict


class Purse:
    """A budget in dollars for one or more models, by the prices of `saccade.models.endpoint`.

    It counts from the start of the command; requests in flight when it is used up are still paid.
    """

    def __init__(self, dollars: float | None, who: str, kept: str) -> None:
        """Allow `dollars` (None: no limit). Messages name `who` spends them and what is `kept`."""
        self.dollars = dollars
        self.spent = 0.0
        """Dollars so far; stays 0 without a limit."""
        self._who, self._kept = who, kept

    def is_empty(self) -> bool:
        return self.dollars is not None and self.spent >= self.dollars

    def admit(self, model: Model) -> None:
        """Raise `SettingsError` if there is a limit and the model's price is unknown."""
        if self.dollars is not None and isinstance(model, HostedModel) and not model.has_price:
            raise SettingsError(
                f"the {self._who} may cost {self.dollars:g} dollars, and what {model.name} costs is not known: it is "
                "in no table of prices. Leave `dollars` out, or name a model with a price."
            )

    def check(self, name: str) -> None:
        """Raise `ModelDeniedError` if nothing is left for the model with this name."""
        if self.is_empty():
            raise ModelDeniedError(self.refusal(name))

    def refusal(self, name: str) -> str:
        """Explain why the model with this name is not asked any more."""
        return (
            f"{name} has cost {self.spent:.4f} dollars, and may cost {self.dollars or 0:g} (`dollars` of the "
            f"{self._who}). {self._kept}: raise the limit, and run the same command again."
        )

    def pay(self, name: str, completion: Completion) -> None:
        """Subtract the price of a reply. Raises `SettingsError` for a reply without a price."""
        if self.dollars is None:
            return
        if completion.usage.dollars is None:
            raise SettingsError(
                f"the {self._who} may cost {self.dollars:g} dollars, and a reply of {name} came without its price, so "
                "nobody can keep count. Leave `dollars` out, or name a model with a price."
            )
        self.spent += completion.usage.dollars


class PaidModel:
    """A model paid from a budget, and not asked once that is used up."""

    def __init__(self, model: Model, purse: Purse) -> None:
        """Wrap `model`. Raises `SettingsError` if its price is needed and unknown."""
        purse.admit(model)
        self.name = model.name
        self.model = model
        self._purse = purse

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the model's reply. Raises as the model, and `ModelDeniedError` when the budget is used up."""
        self._purse.check(self.name)
        completion = await self.model.complete(request, media, on_text=on_text)
        self._purse.pay(self.name, completion)
        return completion

    async def close(self) -> None:
        await self.model.close()


T = TypeVar("T")
R = TypeVar("R", bound=Record)

_log = logging.getLogger(__name__)


class AskRules(Settings):
    """How a model that judges is asked."""

    attempts: PositiveInt = 3
    """How often a question is asked until the reply is a verdict."""
    max_tokens: PositiveInt = 1024
    """Of a reply, thoughts included."""
    concurrent: PositiveInt = 8
    """Requests at once in the whole run."""
    seconds: PositiveFloat = 600.0
    """Time limit of one request, retries and waits included."""
    outages: PositiveInt = 8
    """After this many lost requests in a row waiting ones are lost too, and none is made for `seconds`."""
    dollars: PositiveFloat | None = None
    """Budget from the start of the command; requests in flight are still paid. None: no limit."""
    prompt_file: str = ""
    """A text in place of Saccade's own, see `saccade.rewards.judges.prompt`; empty: Saccade's own."""


ASK_LIMITS = ("concurrent", "seconds", "outages", "dollars")
"""Settings that do not affect stored results, so a run may be continued with other values."""


class PatientRules(AskRules):
    """`AskRules` with a retry policy for requests."""

    retry: RetryPolicy = DEFAULT_RETRY


@dataclass(frozen=True, slots=True)
class NoReply:
    """Why a question has no usable reply."""

    reason: NoVerdict
    detail: str
    error: Exception | None = None
    """The underlying error; None for a reply that could not be read."""


class JudgeClient:
    """Asks `model` within `rules`. Itself a `Model` with bounded and kept requests. For one event loop."""

    def __init__(
        self,
        model: Model,
        rules: AskRules | None = None,
        kept: Path | None = None,
    ) -> None:
        """Keep replies in the folder `kept`. Raises `SettingsError` if there is a budget, and the model's price is
        unknown.
        """
        self.name = model.name
        self.rules = rules or AskRules()
        bounded = _Bounded(model, self.rules)
        self._model: Model = bounded if kept is None else KeptModel(bounded, kept)

    async def ask(self, message: Message, read: Callable[[str], T | None], media: MediaReader) -> T | NoReply:
        """Return `read` of a reply to `message`; where that is None, ask again. `media` has the pictures.

        Raises `ModelDeniedError`: any request would be refused, or the budget is used up.
        """
        said = ""
        for attempt in range(self.rules.attempts):
            request = Request((message,), sampling=_sampling(attempt, self.rules.max_tokens))
            try:
                completion = await self._model.complete(request, media)
            except ModelLostError as error:
                return self._none(NoVerdict.OUTAGE, error)
            except ModelDeniedError:
                raise
            except ModelRefusedError as error:
                return self._none(NoVerdict.REFUSED, error)
            except MissingMediaError as error:
                return NoReply(NoVerdict.UNSEEN, clean_text(str(error)), error)
            said = clean_text(completion.text)
            verdict = read(said)
            if verdict is not None:
                return verdict
            if completion.finish in (FinishReason.FILTERED, FinishReason.DECLINED):
                return self._none(
                    NoVerdict.REFUSED, f"its provider ended the reply as {completion.finish}: {said[:300]}"
                )
        return self._none(NoVerdict.MALFORMED, said[:300])

    def _none(self, reason: NoVerdict, why: str | Exception) -> NoReply:
        detail = clean_text(str(why))
        level = logging.DEBUG if isinstance(why, _NotAskedError) else logging.WARNING
        said = "its reply is not the JSON that was asked for" if reason is NoVerdict.MALFORMED else detail
        _log.log(level, "The judge %s gave no verdict (%s): %s", self.name, reason.value, said)
        return NoReply(reason, detail, why if isinstance(why, Exception) else None)

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return one reply, kept and bounded. Raises as the model and `ask`."""
        return await self._model.complete(request, media, on_text=on_text)

    async def close(self) -> None:
        await self._model.close()


def client_of(model: Model, rules: AskRules) -> JudgeClient:
    """Wrap a model as a client with these rules; a client keeps its own."""
    return model if isinstance(model, JudgeClient) else JudgeClient(model, rules)


def _sampling(attempt: int, max_tokens: int) -> Sampling:
    # The first attempt is greedy; a second would repeat it. No seed: not every backend has one.
    return Sampling(temperature=0.6 + attempt / 10 if attempt else 0.0, max_tokens=max_tokens)


def strict_verdict(reply: str, kind: type[R]) -> R | None:
    """Read a reply as a JSON object with exactly the fields of `kind`, fenced or not; None for anything else."""
    try:
        return kind.model_validate_json(unfenced(reply), strict=True)
    except ValidationError:
        return None


def unfenced(reply: str) -> str:
    """Strip the Markdown fence that models like to put around JSON."""
    text = reply.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text.partition("\n")[2][:-3].strip()
    return text


class _NotAskedError(ModelLostError):
    """Not asked, because earlier requests were lost one after the other."""


class _Bounded:
    """Bounds a model's requests at once, seconds, outages in a row and dollars."""

    def __init__(self, model: Model, rules: AskRules) -> None:
        self._purse = Purse(rules.dollars, "judge", "Its replies are kept")
        self._purse.admit(model)
        self.name = model.name
        self._model = model
        self._rules = rules
        self._room = asyncio.Semaphore(rules.concurrent)
        self._lost, self._why, self._again = 0, "", 0.0

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        async with self._room:
            self._check()
            try:
                completion = await self._in_time(request, media, on_text)
            except ModelLostError as error:
                self._lost, self._why = self._lost + 1, str(error)
                self._again = monotonic() + self._rules.seconds
                if self._lost == self._rules.outages:
                    _log.warning("%s lost %d requests in a row; it is left alone for a while.", self.name, self._lost)
                raise
            self._lost = 0
            self._purse.pay(self.name, completion)
            return completion

    async def close(self) -> None:
        await self._model.close()

    def _check(self) -> None:
        self._purse.check(self.name)
        if self._lost >= self._rules.outages and monotonic() < self._again:
            raise _NotAskedError(
                f"{self.name} was not asked, for the last {self._lost} requests to it were lost (`outages` of the "
                f"judge), the last one so: {self._why}"
            )

    async def _in_time(self, request: Request, media: MediaReader, on_text: Callable[[str], None] | None) -> Completion:
        try:
            async with asyncio.timeout(self._rules.seconds) as bound:
                return await self._model.complete(request, media, on_text=on_text)
        except TimeoutError:
            if not bound.expired():
                raise
        raise ModelLostError(
            f"{self.name} gave no reply within {self._rules.seconds:g} s, all tries included (`seconds` of the judge)."
        )
