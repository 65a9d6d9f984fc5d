"""A run of synthesis that can be interrupted and resumed.

Continuing is exact: the same settings give the same jobs, a job's trajectory depends on nothing but its settings, and
what is there, or was rejected for good, is not made again. A larger `n` is no change of what is there, so it may
differ, and so may `retry` and the limit in dollars.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from saccade.core.retry import RETRY_SETTINGS
from saccade.episode.continued import continued
from saccade.episode.run_folder import RunFolder
from saccade.errors import SettingsError
from saccade.record.base import clean_text
from saccade.record.codec import append_line, read_lines, recover_lines
from saccade.sft.synth.jobs import worlds_of
from saccade.sft.synth.made import Made
from saccade.sft.synth.outcome import REJECTED, RejectedJob
from saccade.sft.synth.settings import SynthSettings

PRICE_SETTINGS = ("teacher.dollars", "teacher.expect_tokens")
"""They decide nothing that a run holds, so a run may be continued with others."""


@dataclass(frozen=True)
class Opened:
    """A run folder that is ready for more."""

    folder: RunFolder
    done: frozenset[str]
    """Ids of the trajectories that are there."""
    rejected: frozenset[str]
    """Ids of the jobs that were played and are not wanted."""

    def reject(self, job: str, made: Made) -> None:
        """Note that a job is not to be made again."""
        reason, detail = clean_text(made.discarded), clean_text(made.detail)
        self.folder.root.mkdir(parents=True, exist_ok=True)
        append_line(self.folder.root / REJECTED, RejectedJob(id=job, reason=reason, detail=detail))


def opened(root: Path, settings: SynthSettings) -> Opened:
    """The folder of a run, new or to be continued, with `settings` saved in it.

    Raises:
        SettingsError: it was made with other settings (names what differs), or of another version of a world, or it
            holds another command's run.
        RecordError: its trajectories cannot be read.
    """
    folder = continued(root, settings, may_differ={"n", *PRICE_SETTINGS, *RETRY_SETTINGS})
    worlds = {world.id for world in worlds_of(settings)}
    names = {world.partition("@")[0] for world in worlds}
    begun = {name.partition("/")[0] for name in folder.ids}
    older = sorted(world for world in begun - worlds if world.partition("@")[0] in names)
    if older:
        raise SettingsError(
            f"{root} holds trajectories of {', '.join(older)}, of which there are newer versions now. Two versions of "
            "a world do not go into one run: name another folder."
        )
    rejected = root / REJECTED
    if rejected.exists():
        recover_lines(rejected)
    names = {job.id for job in read_lines(rejected, RejectedJob)} if rejected.exists() else set()
    return Opened(folder, folder.ids, frozenset(names))
