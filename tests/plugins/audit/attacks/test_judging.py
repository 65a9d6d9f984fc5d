"""How an attack is judged by what came back: a scripted sandbox answers, and no hostile program runs."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sandbox.providers import linux_only

from saccade.errors import SandboxError, SandboxLostError
from saccade.plugins.audit.attacks import ATTACKS, Attack, AttackRunner, runner
from saccade.plugins.audit.attacks import runner as evidence
from saccade.plugins.audit.attacks.attack import PREAMBLE, nothing_more
from saccade.plugins.audit.attacks.runner import what_stopped
from saccade.record.execution import Status
from saccade.sandbox.base import Limits
from saccade.sandbox.isolation import Layer
from saccade.sandbox.registry import AuditOutcome
from saccade.sandbox.result import Picture, RunResult, WrittenFile
from saccade.sandbox.scripted import ScriptedSandbox, ScriptedSession

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

    async def judge(self, attack: Attack = ATTACK, **answers: RunResult | Exception) -> AuditOutcome:
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


KEPT_THREAD = [
    (RunResult(Status.OK, stdout="pthread_create gave 0\n", committed=True), "a call was kept with its thread"),
    (RunResult(Status.OK, stdout="pthread_create gave 11\n", committed=True), None),
    (RunResult(Status.REFUSED, stdout="pthread_create gave 0\n"), None),
]
OUTAGE = "the host took it for an outage of its own"
KEEPER = [
    (RunResult(Status.KILLED), None),
    (RunResult(Status.LOST), OUTAGE),
    (RunResult(Status.OK, stdout="gone"), "the process that keeps the state lived on: ok"),
]
CHECKED = {
    "picture_link": [(RunResult(Status.OK, pictures=(picture(),)), "a picture from outside came back"), (FINE, None)],
    "native_thread_left_behind": KEPT_THREAD,
    "native_thread_burns": KEPT_THREAD,
    "keeper_that_leaves": KEEPER,
    "keeper_that_crashes": KEEPER,
    "keeper_that_calls_another_machine": KEEPER,
    "keeper_that_uses_up_its_time": KEEPER,
    "shared_mappings": [(RunResult(Status.OK, committed=True), "the call was kept"), (RunResult(Status.REFUSED), None)],
    "words_of_the_zygote": [(RunResult(Status.LOST), OUTAGE), (RunResult(Status.KILLED), None), (FINE, None)],
}
"""Attacks that look at the result themselves, and what they find in some."""


@pytest.mark.parametrize("name", CHECKED)
async def test_what_only_this_attack_finds_in_its_result(name: str) -> None:
    [attack] = [attack for attack in ATTACKS if attack.name == name]
    for result, found in CHECKED[name]:
        assert attack.check(result) == found


async def test_no_other_attack_looks_at_its_result() -> None:
    assert {attack.name for attack in ATTACKS if attack.check is not nothing_more} == set(CHECKED)


GROWN = itertools.chain([0], itertools.repeat(runner.MEMORY_SLACK + 1))


@pytest.mark.parametrize(
    ("patched", "found"),
    [
        ({"HELD_SECONDS": -1.0}, "the host's event loop was held for 0"),
        ({"STUCK_SECONDS": -1.0}, "the host's event loop was held for 0"),
        ({"strays": lambda before: before - len(runner.descendants()) + 1}, "2 stray processes are left"),
        ({"resident_bytes": lambda: next(GROWN)}, "the host's memory grew by 768 MiB"),
    ],
)
async def test_what_the_host_sees_of_an_attack(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, patched: dict[str, object], found: str
) -> None:
    for name, value in patched.items():
        monkeypatch.setattr(runner, name, value)
    outcome = await judge.judge()
    assert (outcome.evidence[: len(found)], outcome.passed) == (found, False)


async def test_one_process_more_and_some_memory_are_no_breach(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([0, runner.MEMORY_SLACK])
    monkeypatch.setattr(runner, "resident_bytes", lambda: next(sizes))
    assert (await judge.judge()).passed


async def test_a_host_that_waits_too_long_is_a_breach(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ScriptedSession.run

    async def hang(self: ScriptedSession, code: str, *, wall_seconds: float | None = None) -> RunResult:
        await asyncio.sleep(600 if code.startswith(PREAMBLE) else 0)
        return await run(self, code)

    monkeypatch.setattr(ScriptedSession, "run", hang)
    monkeypatch.setattr(runner, "PATIENCE", 0.01 - LIMITS.wall_seconds)
    outcome = await judge.judge()
    assert outcome.evidence == f"the host waited {0.01 - LIMITS.wall_seconds:.0f} s longer than the limit"


async def test_a_session_or_neighbour_that_does_not_answer_is_lost(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = await judge.judge(kept=TimeoutError(), neighbour=TimeoutError())
    assert (outcome.held, outcome.session_survived, outcome.neighbour_ok) == (True, False, False)


async def test_branches_that_are_refused_as_a_whole_are_no_breach(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def refuse(self: ScriptedSession, n: int) -> list[ScriptedSession]:
        asked.append(n)
        raise SandboxLostError("refused")

    monkeypatch.setattr(ScriptedSession, "branch", refuse)
    attack = Attack("attack", "own", "try", "do()", branch="one()")
    assert (await judge.judge(attack)).passed
    assert (await judge.judge(replace(attack, sibling="two()"), **{"one()": FINE})).passed
    assert asked == [1, 2]


async def test_what_an_attack_is_told_and_that_it_leaves_no_session_open() -> None:
    judge, boxes = Judge(), list[ScriptedSandbox]()

    def box() -> ScriptedSandbox:
        boxes.append(ScriptedSandbox(judge.answer, limits=LIMITS, keep=True))
        return boxes[-1]

    async with AttackRunner(box) as judge.runner:
        around = judge.runner._surroundings
        [neighbour] = boxes[0].opened
        assert neighbour.bindings == {"secret": around.secrets["neighbour"]}
        assert neighbour.files == {"neighbour.txt": around.secrets["neighbour"].encode()}
        assert (await judge.judge(Attack("attack", "own", "try", "do()", branch="one()"))).passed
        bounds = {name: getattr(LIMITS, name) for name in ("workspace_bytes", "file_bytes")}
        attacked = boxes[0].opened[1]
        assert attacked.bindings == {"target": {**around.targets(), **bounds, "memory": LIMITS.memory_bytes}}
        assert (len(boxes), boxes[0].live) == (1, 1), "only the neighbour is left"
        for spoilt in (Attack("attack", "own", "try", "do()", check=lambda _: "found"), ATTACK):
            await judge.judge(spoilt, neighbour=LOST)
        assert len(boxes) == 2, "another one only when it is needed"
        with pytest.raises(SandboxError, match="runs nothing"):
            await judge.runner.has(Layer.SECCOMP)
        assert len(boxes) == 3
    assert not around.folder.exists()


async def test_a_sandbox_that_does_not_start_leaves_nothing() -> None:
    def broken() -> ScriptedSandbox:
        raise SandboxError("broken")

    judged = AttackRunner(broken)
    with pytest.raises(SandboxError, match="broken"):
        await judged.__aenter__()
    assert not judged._surroundings.folder.exists()
