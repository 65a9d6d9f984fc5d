"""`saccade ask --tasks`: every question of some sources, answered side by side and kept as an evaluation is."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

_AT_ONCE = 16


def ask_batch(
    sources: Sequence[str],
    file: Path | None,
    options: Sequence[str],
    given: Mapping[str, object],
    out: Path | None,
    *,
    as_json: bool,
    beside: Mapping[str, object],
) -> int:
    """Ask, print an answer for each task as it is stored, and give the exit status.

    `options` are settings of `saccade eval` as text, over those that are `given`; `beside` is what one question may
    have and a batch may not. Without `out` nothing is kept.

    Raises:
        SettingsError: names every mistake, or a source is none.
    """
    from saccade.cli.ask_settings import check_model
    from saccade.cli.eval_screen import screen
    from saccade.errors import SettingsError
    from saccade.evals.run import continuing, evaluate
    from saccade.evals.settings import EvalSettings
    from saccade.record.settings import load_settings

    if strange := [name for name, value in beside.items() if value]:
        raise SettingsError(f"--tasks asks the questions of its sources: leave out {', '.join(strange)}.")
    check_model(file, given, options)
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="saccade-ask-")))
        loaded = load_settings(EvalSettings, file, options, {**given, "sources": list(sources)})
        settings, said = continuing(loaded, folder)
        for line in said:
            print(f"saccade: {line}", file=sys.stderr)
        with screen() as show:
            made = asyncio.run(evaluate(settings, folder, workers=_AT_ONCE, watch=show))
        unanswered = _print(folder, as_json=as_json)
    if out is not None and not as_json:
        print(f"Kept in {out}; see them with: saccade show {out}")
    if made.progress.failed:
        kinds = ", ".join(f"{kind} {count}" for kind, count in made.progress.kinds.most_common())
        print(f"saccade: {made.progress.failed} questions came to nothing ({kinds})", file=sys.stderr)
        return 3
    return int(unanswered > 0)


def _print(folder: Path, *, as_json: bool) -> int:
    """Print what is stored; how many tasks have no answer."""
    from saccade.cli.json_output import print_json
    from saccade.episode.run_folder import TRAJECTORIES
    from saccade.record.codec import read_lines
    from saccade.record.trajectory import Trajectory

    unanswered = 0
    path = folder / TRAJECTORIES
    for item in read_lines(path, Trajectory) if path.exists() else ():
        unanswered += item.answer is None
        if as_json:
            line = {"id": item.task.id, "question": item.task.question, "answer": item.answer, "stop": item.stop}
            print_json(line)
        else:
            print(f"{item.task.id}: {'(no answer)' if item.answer is None else item.answer}")
    return unanswered
