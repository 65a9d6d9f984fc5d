"""Say which of Saccade's own plug-ins a name needs, where that plug-in is not installed.

The core imports no plug-in: it finds what they offer by the entry points that any package may register. This table is
for error messages only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

OFFERED: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "worlds": {
        "worlds": frozenset(),
        "experts": frozenset(),
        "models": frozenset({"tiny", "solver"}),
        "dialects": frozenset({"tiny"}),
        "commands": frozenset({"demo", "worlds"}),
    },
    "vista": {
        "tools": frozenset(
            (
                *("chartassistant", "chartdet", "chartmoe", "chartocr", "chartvlm", "construction_cdl", "deplot"),
                *("diagram_formalizer", "gllava", "goal_cdl", "grounding_dino", "image_cdl", "inter_gps", "multimath"),
                *("ocr", "opencv", "sam", "text_cdl", "unichart"),
            )
        ),
        "tool-lists": frozenset({"vista"}),
    },
    "serve": {
        "commands": frozenset({"serve", "mcp", "sandbox"}),
        "tool-origins": frozenset({"verl-tool"}),
        "tool-servers": frozenset({"verl-tool"}),
    },
    "integrations": {
        "exports": frozenset({"otel"}),
        "task-forms": frozenset({"harbor"}),
        "formats": frozenset({"atif"}),
        "commands": frozenset({"openenv"}),
    },
    "verl": {"trainers": frozenset({"verl"}), "tool-servers": frozenset({"ray"})},
    "audit": {"audits": frozenset({"attacks"})},
}
"""Plug-in -> kind of registry -> the names that it registers; no names: whatever of that kind comes with Saccade."""
DISTRIBUTION: Final = "saccade-vlm"
"""What pip installs; PyPI's `saccade` is another project."""
HOW: Final = f"Install Saccade as a whole: pip install --force-reinstall {DISTRIBUTION}"


def plugin_of(kind: str, name: str) -> str:
    """Return the plug-in that offers `name` (without its version) of a kind; empty if none does."""
    for plugin, kinds in OFFERED.items():
        if kind in kinds and (not kinds[kind] or name in kinds[kind]):
            return plugin
    return ""


def missing_plugin(kind: str, name: str, registered: Collection[str]) -> str:
    """Return a sentence that names the plug-in that `name` of a kind needs; empty if none is missing.

    Args:
        kind: as the registry calls it, e.g. `worlds`.
        name: what the user wrote.
        registered: the ids that the registry has; a kind that has some is taken to be installed.
    """
    bare = name.partition(":")[0].partition("@")[0]
    plugin = plugin_of(kind, bare)
    every = plugin and not OFFERED[plugin][kind]
    if not plugin or (every and registered) or any(entry.partition("@")[0] == bare for entry in registered):
        return ""
    of = f"the {kind} that come with Saccade are" if every else f"{bare} is"
    return f"{of[0].upper()}{of[1:]} in its plug-in `{plugin}`, which is not installed. {HOW}"


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def own_version() -> str:
    """Return the version that is installed, or words for a source tree that is not."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown (a source tree that is not installed)"
