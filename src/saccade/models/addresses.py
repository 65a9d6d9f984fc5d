"""Addresses in names of models hold no user and no password: such names are recorded, shown and told to clients."""

from __future__ import annotations

import re
from typing import Final

from saccade.errors import SettingsError

_USERINFO: Final = re.compile(r"@https?://[^/?#\s]*@")


def check_no_secret(model: str) -> None:
    """Raises `SettingsError` for a name of a model whose address holds a user or a password."""
    if _USERINFO.search(model):
        raise SettingsError(
            f"the address in {model.partition('@')[0]}@... holds a user or a password, and names of models are "
            "recorded and shown. Leave it out; a key goes into the provider's variable or a file (docs/models.md)."
        )
