"""`saccade completion SHELL`: the lines that let a shell complete verbs, their commands and options.

The shell asks this program for what may stand at the cursor; where it has nothing to say, the shell completes files. A
verb is imported only when the words before the cursor name it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from saccade.errors import SaccadeError, SettingsError

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_BASH = """\
_saccade() {
    local IFS=$'\\n'
    COMPREPLY=($(saccade completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _saccade saccade
"""
SCRIPTS: Mapping[str, str] = {
    "bash": _BASH,
    "zsh": f"autoload -U +X bashcompinit && bashcompinit\n{_BASH}",
    "fish": "complete -c saccade -a '(saccade completion words -- (commandline -opc)[2..] (commandline -ct))'\n",
}
EPILOG = (
    'Put `eval "$(saccade completion bash)"` into ~/.bashrc, or `saccade completion fish | source` into config.fish.'
)


@app.command(epilog=EPILOG, context_settings={"ignore_unknown_options": True})
def completion(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")],
    words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
) -> None:
    """Print what lets a shell complete `saccade`."""
    if shell == "words":
        print("\n".join(candidates(words or [])))
    elif shell in SCRIPTS:
        print(SCRIPTS[shell], end="")
    else:
        raise SettingsError(f"completion is there for {', '.join(SCRIPTS)}, not for {shell!r}.")


def candidates(words: Sequence[str]) -> list[str]:
    """What may stand in place of the last word, which is the one at the cursor (maybe empty), after those before it."""
    from saccade.cli.main import VERBS, load

    *before, begun = words or [""]
    if not before:
        return _matching(VERBS, begun)
    verb = VERBS.get(before[0])
    if verb is None:
        return []
    try:
        command: Any = typer.main.get_command(load(before[0], verb))
    except SaccadeError:  # what it lacks is said when it is run
        return []
    for word in before[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    options = [name for item in command.params for name in item.opts if name.startswith("--")]
    return _matching([*getattr(command, "commands", ()), *options, "--help"], begun)


def _matching(names: Sequence[str] | Mapping[str, Any], begun: str) -> list[str]:
    """Those that begin so. Options are offered once a dash is typed, so that files are completed without one."""
    return sorted({name for name in names if name.startswith(begun) and (begun or not name.startswith("-"))})
