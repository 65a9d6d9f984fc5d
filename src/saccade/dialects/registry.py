"""The dialects by id: `name`, `name@version` or either with `:preset`, as in `pyvision-rl-image@1:repo`.

An entry's target is a mapping from preset names to ready dialects; its first preset is the default. A family without
presets has the single key `""`. Presets exist where a paper and its released code differ. Further packages add entries
by the entry point group `saccade.dialects`. Nothing is imported before it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from saccade.dialects.base import Dialect
from saccade.errors import RegistryError
from saccade.record.registry import Registry
from saccade.record.suggest import did_you_mean

DIALECTS = Registry(
    "dialects",
    {
        "pyvision@1": "saccade.dialects.pyvision:PRESETS",
        "pyvision-rl-image@1": "saccade.dialects.pyvision_rl:IMAGE",
        "pyvision-rl-image-no-hint@1": "saccade.dialects.pyvision_rl:IMAGE_NO_HINT",
        "pyvision-rl-video@1": "saccade.dialects.pyvision_rl:VIDEO_PRESETS",
        "codedance@1": "saccade.dialects.codedance:PRESETS",
        "codev@1": "saccade.dialects.codev:PRESETS",
        "thyme@1": "saccade.dialects.thyme:PRESETS",
        "deepeyes@1": "saccade.dialects.deepeyes:PRESETS",
        "vista@1": "saccade.dialects.vista:PRESETS",
        "native@1": "saccade.dialects.native:PRESETS",
        "direct@1": "saccade.dialects.direct:PRESETS",
        "tiny@1": "saccade.dialects.tiny:PRESETS",
    },
)


def load_dialect(wanted: str) -> Dialect:
    """The dialect that `wanted` names.

    Raises:
        RegistryError: nothing has that id or preset (suggests the nearest), or it cannot be imported.
    """
    entry, _, preset = wanted.partition(":")
    presets = DIALECTS.load(entry)
    if not isinstance(presets, Mapping) or not presets:
        raise RegistryError(f"{entry} of dialects is no mapping from preset names to dialects; correct its target")
    if ":" not in wanted:
        preset = next(iter(presets))
    if preset not in presets:
        if set(presets) == {""}:
            raise RegistryError(f"{entry} has no presets, so not {preset!r} either; write {entry}")
        raise RegistryError(f"{entry} has no preset {preset!r}. {did_you_mean(preset, presets)}".rstrip())
    return cast(Dialect, presets[preset])


def presets(wanted: str) -> tuple[str, ...]:
    """The names of the presets of a family, its default first; empty if it has none.

    Raises:
        RegistryError: nothing has that id, or it cannot be imported.
    """
    found = DIALECTS.load(wanted)
    return tuple(name for name in found if name) if isinstance(found, Mapping) else ()
