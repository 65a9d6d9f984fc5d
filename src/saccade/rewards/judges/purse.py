"""What models may cost: a purse that judges, teachers and writers are paid from, and refused when it is empty.

Prices are those of `saccade.models.prices`. A limit counts from when the command starts; requests under way when it is
reached are still paid.
"""

from __future__ import annotations

from collections.abc import Callable

from saccade.errors import ModelDeniedError, SettingsError
from saccade.models.base import Completion, MediaReader, Model, Request
from saccade.models.hosted import HostedModel


class Purse:
    """Dollars that one or more models share."""

    def __init__(self, dollars: float | None, who: str, kept: str) -> None:
        """At most `dollars` (None: no limit); `who` spends them and `kept` is what is not lost, for messages."""
        self.dollars = dollars
        self.spent = 0.0
        """Dollars so far; 0 without a limit, for then nobody counts."""
        self._who, self._kept = who, kept

    def is_empty(self) -> bool:
        """Whether the limit is reached."""
        return self.dollars is not None and self.spent >= self.dollars

    def admit(self, model: Model) -> None:
        """Raise `SettingsError` for a model that cannot be paid: there is a limit, and its price is not known."""
        if self.dollars is not None and isinstance(model, HostedModel) and not model.has_price:
            raise SettingsError(
                f"the {self._who} may cost {self.dollars:g} dollars, and what {model.name} costs is not known: it is "
                "in no table of prices. Leave `dollars` out, or name a model with a price."
            )

    def check(self, name: str) -> None:
        """Raise `ModelDeniedError` if nothing is left for the model of that name."""
        if self.is_empty():
            raise ModelDeniedError(self.refusal(name))

    def refusal(self, name: str) -> str:
        """Why the model of that name is not asked any more."""
        return (
            f"{name} has cost {self.spent:.4f} dollars, and may cost {self.dollars or 0:g} (`dollars` of the "
            f"{self._who}). {self._kept}: raise the limit, and run the same command again."
        )

    def pay(self, name: str, completion: Completion) -> None:
        """Take the price of a reply. Raises `SettingsError` for one without a price."""
        if self.dollars is None:
            return
        if completion.usage.dollars is None:
            raise SettingsError(
                f"the {self._who} may cost {self.dollars:g} dollars, and a reply of {name} came without its price, so "
                "nobody can keep count. Leave `dollars` out, or name a model with a price."
            )
        self.spent += completion.usage.dollars


class PaidModel:
    """A model that is paid from a purse, and not asked when that is empty."""

    def __init__(self, model: Model, purse: Purse) -> None:
        """Raises `SettingsError` for a model that cannot be paid."""
        purse.admit(model)
        self.name = model.name
        self.model = model
        self._purse = purse

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """What the model says. Raises what it raises, and `ModelDeniedError` when the purse is empty."""
        self._purse.check(self.name)
        completion = await self.model.complete(request, media, on_text=on_text)
        self._purse.pay(self.name, completion)
        return completion

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()
