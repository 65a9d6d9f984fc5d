"""Check the folder of a training run: begun once, resumed only with the same settings, or to more steps."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from saccade.core.disk import check_files, check_free
from saccade.core.settings import Difference, Settings, beyond_addresses, differences, load_saved
from saccade.errors import SettingsError

SETTINGS = "settings.toml"
_OF_STEPS = ("metrics.jsonl", "checkpoints", "model", "verl", "rollouts/trajectories.jsonl")
"""Files and folders that exist once something was trained or rolled out."""

_LOG = logging.getLogger(__name__)


def check_folder(
    settings: Settings,
    out: Path,
    resume: bool,
    may_differ: Collection[str] = (),
    may_grow: Mapping[str, str] = MappingProxyType({}),
    may_change: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Check that a run with these settings may write to `out`.

    Settings named in `may_differ` may differ from the saved ones; those in `may_grow` may be larger and those in
    `may_change` others, with a consequence to be logged as their value. Raises `SettingsError`: it holds a run and
    `resume` is False, or no run to resume, or one with other settings, or another process trains in it.
    """
    check_free(out)
    kept = out / SETTINGS
    if not kept.exists():
        if resume and out.exists() and any(out.iterdir()):
            raise SettingsError(f"there is no run to continue in {out}: it holds no {SETTINGS}. Leave out --resume.")
        if resume:
            _LOG.warning("There is no run in %s yet, so --resume begins one.", out)
        return
    if not resume and not any((out / name).exists() for name in _OF_STEPS):
        _LOG.warning("The run in %s ended before its first step. It begins anew.", out)
        return
    if not resume:
        raise SettingsError(f"{out} holds a run already. Continue it with --resume, or name another folder.")
    changes = differences(load_saved(type(settings), kept), settings)
    grown = [item for item in changes if item.name in may_grow and _is_larger(item)]
    others = [item for item in changes if item.name in may_change]
    changed = [item for item in changes if item.name not in may_differ and item not in (*grown, *others)]
    if changed := beyond_addresses(changed, out):
        listed = "\n".join(f"  {item}" for item in changed)
        raise SettingsError(
            f"the run in {out} was begun with other settings:\n{listed}\nGive it these, or a new folder."
        )
    check_files(kept)
    for item in grown:
        _LOG.warning("The run in %s is resumed with more %s. %s", out, item, may_grow[item.name])
    for item in others:
        _LOG.warning("The run in %s is resumed with other %s. %s", out, item, may_change[item.name])


def _is_larger(item: Difference) -> bool:
    before, now = item.left, item.right
    return isinstance(before, int | float) and isinstance(now, int | float) and now > before
