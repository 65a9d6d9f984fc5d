"""The folder of a training run: begun once, continued only with the same settings."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from saccade.errors import SettingsError
from saccade.record.code_notes import check_code
from saccade.record.settings import Settings, differences, load_saved

SETTINGS = "settings.toml"

_LOG = logging.getLogger(__name__)


def check_folder(settings: Settings, out: Path, resume: bool, may_differ: Collection[str] = ()) -> None:
    """Whether a run with these settings, but for those that `may_differ`, may write to `out`.

    Raises:
        SettingsError: it holds a run and `resume` is not said, or no run, or one with other settings.
    """
    kept = out / SETTINGS
    if not kept.exists():
        if resume and out.exists() and any(out.iterdir()):
            raise SettingsError(f"there is no run to continue in {out}: it holds no {SETTINGS}. Leave out --resume.")
        if resume:
            _LOG.warning("There is no run in %s yet, so --resume begins one.", out)
        return
    if not resume:
        raise SettingsError(f"{out} holds a run already. Continue it with --resume, or name another folder.")
    changes = differences(load_saved(type(settings), kept), settings)
    changed = [item for item in changes if item.name not in may_differ]
    if changed:
        listed = "\n".join(f"  {item}" for item in changed)
        raise SettingsError(
            f"the run in {out} was begun with other settings:\n{listed}\nGive it these, or a new folder."
        )
    check_code(kept)
