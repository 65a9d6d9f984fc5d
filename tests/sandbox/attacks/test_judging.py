"""How an attack is judged by what came back: a scripted sandbox answers, and no hostile program runs."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sandbox.providers import linux_only

from saccade.errors import SandboxLostError
from saccade.record.status import Status
from saccade.sandbox.attacks import Attack, AttackOutcome, AttackRunner, evidence, runner
from saccade.sandbox.attacks.attack import PREAMBLE
from saccade.sandbox.attacks.runner import what_stopped
from saccade.sandbox.limits import Limits
from saccade.sandbox.result import Picture, RunResult, WrittenFile
from saccade.sandbox.scripted import ScriptedSandbox

pytestmark = [linux_only, pytest.mark.asyncio(loop_scope="module")]

LIMITS = Limits(output_bytes=1024, pictures=2, picture_pixels=1024, total_pixels=1536)
MOST_TEXT = "x" * 2048
"""The cap and what the sentence that states a cut may add."""
ATTACK = Attack("attack", "own", "try", "do()")


FINE = RunResult(Status.OK)
SOUND = {
    "said": FINE,
    "kept": RunResult(Status.OK, stdout="kept kept\n"),
    "neighbour": RunResult(Status.OK, stdout="True ['neighbour.txt']\n"),
}
"""What the attack, the next call of its session and the call of the neighbour give, where no harm is done."""


@dataclass
class Judge:
    """A runner of attacks on a sandbox that answers as it is told."""

    answers: dict[str, RunResult | Exception] = field(default_factory=dict)
    runner: AttackRunner = field(init=False)

    async def judge(self, attack: Attack = ATTACK, **answers: RunResult | Exception) -> AttackOutcome:
        self.answers = SOUND | answers
        return await self.runner.run(attack)

    def answer(self, code: str) -> RunResult:
        if "neighbour.txt" in code:
            answer = self.answers["neighbour"]
        elif "print(keep, f.read())" in code:
            answer = self.answers["kept"]
        elif code.startswith(PREAMBLE):
            answer = self.answers.get(code.removeprefix(PREAMBLE), self.answers["said"])
        else:
            answer = FINE
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge() -> AsyncIterator[Judge]:
    judge = Judge()
    judge.runner = AttackRunner(lambda: ScriptedSandbox(judge.answer, limits=LIMITS))
    async with judge.runner:
        yield judge


def picture(width: int = 4, height: int = 4, **changes: object) -> Picture:
    fields = {"source": "show", "mode": "L", "width": width, "height": height, "data": bytes(width * height)}
    return Picture(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "result",
    [
        RunResult(Status.OK, stdout=MOST_TEXT, stderr=MOST_TEXT, value=MOST_TEXT, traceback="ä" * 1024),
        RunResult(Status.OK, files=(WrittenFile("a/..b/c", 5),), notes=("the rest is left out",)),
        RunResult(Status.OK, pictures=(picture(32, 32), picture(32, 16, path="out/a.png"))),
        RunResult(Status.OK, pictures=(picture(mode="RGB", data=bytes(48)), picture(mode="RGBA", data=bytes(64)))),
        RunResult(Status.LOST, stdout="no BREACH: at the beginning of the line"),
    ],
)
async def test_what_stays_within_the_caps_is_no_breach(judge: Judge, result: RunResult) -> None:
    outcome = await judge.judge(said=result)
    assert (outcome.passed, outcome.held, outcome.session_survived, outcome.neighbour_ok) == (True,) * 4


@pytest.mark.parametrize(
    ("result", "found"),
    [
        (RunResult(Status.OK, stdout=MOST_TEXT + "x"), "stdout is no text within the cap"),
        (RunResult(Status.OK, stderr=MOST_TEXT + "x"), "stderr is no text within the cap"),
        (RunResult(Status.OK, value="ä" * 1025), "value is no text within the cap"),
        (RunResult(Status.OK, traceback=7), "traceback is no text within the cap"),  # type: ignore[arg-type]
        (RunResult(Status.OK, stdout="a\ud800"), "stdout cannot be encoded"),
        (RunResult(Status.OK, files=(WrittenFile("/etc/passwd", 5),)), "the path '/etc/passwd' came back"),
        (RunResult(Status.OK, files=(WrittenFile("a/../b", 5),)), "the path 'a/../b' came back"),
        (RunResult(Status.OK, pictures=(picture(path="a\x1b"),)), "the path 'a\\x1b' came back"),
        (RunResult(Status.OK, notes=("fine", "\x1b[2J")), "a note with control characters came back"),
        (RunResult(Status.OK, pictures=(picture(),) * 3), "3 pictures came back"),
        (RunResult(Status.OK, pictures=(picture(mode="1"),)), "a picture of an unknown kind came back"),
        (RunResult(Status.OK, pictures=(picture(data=[0] * 16),)), "a picture of an unknown kind came back"),
        (RunResult(Status.OK, pictures=(picture(data=bytes(15)),)), "a picture whose size lies came back"),
        (RunResult(Status.OK, pictures=(picture(mode="RGB"),)), "a picture whose size lies came back"),
        (RunResult(Status.OK, pictures=(picture(41, 25),)), "a picture over the cap came back"),
        (RunResult(Status.OK, pictures=(picture(32, 32), picture(27, 19))), "pictures over the total cap came back"),
        (RunResult(Status.OK, stdout="BREACH: one\nx\nBREACH: two\n"), "BREACH: one; BREACH: two"),
        (RunResult(Status.OK, stdout="BREACH: b\n" * 4), "BREACH: b; BREACH: b; BREACH: b"),
        (RuntimeError("out of order"), "run() raised RuntimeError: out of order"),
    ],
)
async def test_what_came_back_and_may_not(judge: Judge, result: RunResult | Exception, found: str) -> None:
    outcome = await judge.judge(said=result)
    assert (outcome.evidence, outcome.held, outcome.passed) == (found, False, False)


@pytest.mark.parametrize("kind", ["environment", "file", "neighbour", "memory"])
async def test_a_secret_is_a_breach_wherever_it_comes_back(judge: Judge, kind: str) -> None:
    secret = judge.runner._surroundings.secrets[kind]
    for field_ in ("stdout", "stderr", "value", "traceback", "notes"):
        text = (f"<{secret}>",) if field_ == "notes" else f"<{secret}>"
        outcome = await judge.judge(said=RunResult(Status.ERROR, **{field_: text}))  # type: ignore[arg-type]
        assert outcome.evidence == f"the secret of the {kind} came back", field_
    pixels = picture(16, 16, mode="RGB", data=judge.runner._surroundings.pixels)
    outcome = await judge.judge(said=RunResult(Status.OK, pictures=(pixels, picture())))
    assert outcome.evidence == "a picture of the host came back"


LOST = SandboxLostError("gone")


@pytest.mark.parametrize(
    ("answers", "may_lose", "survived", "neighbour_ok", "passed"),
    [
        ({"kept": RunResult(Status.OK, stdout="kept lost")}, False, False, True, False),
        ({"kept": RunResult(Status.ERROR, stdout="kept kept")}, False, False, True, False),
        ({"kept": LOST}, False, False, True, False),
        ({"kept": LOST}, True, False, True, True),
        ({"neighbour": RunResult(Status.OK, stdout="True ['neighbour.txt', 'x']")}, True, True, False, False),
        ({"neighbour": RunResult(Status.LOST, stdout="True ['neighbour.txt']")}, True, True, False, False),
        ({"neighbour": LOST}, True, True, False, False),
    ],
)
async def test_who_lives_on(
    judge: Judge,
    answers: dict[str, RunResult | Exception],
    may_lose: bool,
    survived: bool,
    neighbour_ok: bool,
    passed: bool,
) -> None:
    """The neighbour must, and the session too where the attack is not on its own wire."""
    attack = Attack("attack", "own", "try", "do()", may_lose_session=may_lose)
    outcome = await judge.judge(attack, **answers)
    assert outcome.held
    assert (outcome.session_survived, outcome.neighbour_ok, outcome.passed) == (survived, neighbour_ok, passed)


async def test_every_program_of_an_attack_may_show_a_breach(judge: Judge) -> None:
    programs = {"before": "b()", "branch": "one()", "sibling": "two()", "after": "a()"}
    attack = Attack("attack", "own", "try", "do()", check=lambda result: f"ended {result.status}", **programs)  # type: ignore[arg-type]
    said = {code: RunResult(Status.OK, stdout=f"BREACH: {code}") for code in programs.values()}
    outcome = await judge.judge(attack, **said)
    assert outcome.evidence == "BREACH: b(); ended ok; BREACH: one(); BREACH: two(); BREACH: a()"


async def test_what_an_attack_does_to_the_host_is_seen(judge: Judge) -> None:
    canary = Path(judge.runner._surroundings.canary)
    text = canary.read_text()

    def overwrite(result: RunResult) -> None:
        canary.write_text("overwritten")

    try:
        outcome = await judge.judge(Attack("attack", "own", "try", "do()", check=overwrite))
    finally:
        canary.write_text(text)
    assert (outcome.evidence, outcome.passed) == ("a file of the host was changed", False)


@pytest.mark.parametrize(("seconds", "found"), [(0.1, False), (0.11, True)])
async def test_work_while_no_call_runs_is_a_breach(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, seconds: float, found: bool
) -> None:
    monkeypatch.setattr(runner, "busy_seconds", lambda: seconds)
    outcome = await judge.judge(Attack("attack", "rest", "try", "do()"))
    assert (outcome.evidence == "the session's processes worked for 0.11 s while no call ran") is found
    assert (await judge.judge(ATTACK)).passed, "only attacks on the rest are looked at so"


async def test_work_is_that_of_all_processes_once_they_had_time_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = {1: iter([0.0, 0.3, 0.3, 0.3]), 2: iter([5.0, 5.2, 5.2, 5.22])}
    monkeypatch.setattr(evidence, "_WATCHED_SECONDS", 0.001)
    monkeypatch.setattr(evidence, "descendants", lambda: {1, 2})
    monkeypatch.setattr(evidence, "_cpu_seconds", lambda pid: next(looks[pid]))
    assert evidence.busy_seconds() == pytest.approx(0.02)


async def test_work_that_does_not_end_is_told_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(0, 2)
    monkeypatch.setattr(evidence, "_WATCHED_SECONDS", 0.001)
    monkeypatch.setattr(evidence, "_REST_DEADLINE_SECONDS", 0.01)
    monkeypatch.setattr(evidence, "descendants", lambda: {1})
    monkeypatch.setattr(evidence, "_cpu_seconds", lambda pid: next(seconds))
    assert evidence.busy_seconds() == 2


async def test_a_process_that_is_gone_works_no_more() -> None:
    assert evidence._cpu_seconds(2**22 + 1) == 0.0
    assert evidence._cpu_seconds(os.getpid()) > 0


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (RunResult(Status.OK, stdout="x\nstopped: open: no\nstopped: read: no\n"), "open: no"),
        (RunResult(Status.OK, stdout="stopped: " + "x" * 200), "x" * 160),
        (RunResult(Status.ERROR, traceback="Traceback\n  line 1\nOSError: no\n"), "error: OSError: no"),
        (RunResult(Status.ERROR, traceback="x" * 200), ("error: " + "x" * 200)[:160]),
        (RunResult(Status.KILLED), "killed, nothing was reached"),
    ],
)
async def test_what_stopped_it_in_one_line(result: RunResult, said: str) -> None:
    assert what_stopped(result) == said
