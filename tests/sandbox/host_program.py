"""A host for the tests of orphans: runs calls without end and says each thing that happens in one JSON line.

Started with `python host_program.py`; ends when its standard input closes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from saccade.errors import SandboxError
from saccade.record.execution import Status
from saccade.sandbox.base import MIB, Limits, Session
from saccade.sandbox.local import LocalSandbox

LIMITS = Limits(wall_seconds=5, memory_bytes=256 * MIB)
CELLS = (
    "x = 1\nopen('a.txt', 'w').write('x' * 1000)",
    "import time\ntime.sleep(0.05)",
    "from PIL import Image\nImage.new('RGB', (300, 300)).show()",
    "1 / 0",
)


def say(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


async def opened(box: LocalSandbox) -> Session:
    """A session; tries again if its processes are killed while they start, which `open` may report by raising."""
    for _ in range(5):
        try:
            return await box.open()
        except SandboxError as error:
            say("not opened", error=str(error))
    raise AssertionError("five sessions in a row could not be opened")


async def work(box: LocalSandbox, session: Session, ending: asyncio.Event) -> None:
    """Run cells in one session; when it is lost, open another and say whether that works."""
    number = failures = 0
    while not ending.is_set():
        await asyncio.sleep(0)  # a call that is answered at once must not starve the others
        result = await session.run(CELLS[number % len(CELLS)])
        number += 1
        if result.status in (Status.OK, Status.ERROR):
            failures = 0
            continue
        say("ended", status=result.status.value)
        failures += 1
        assert failures < 10, f"the session neither works again nor is lost: {result}"
        if result.status is Status.LOST:
            session = await opened(box)
        check = await session.run("print('works again')")
        say("again", status=check.status.value, stdout=check.stdout.strip())


async def main() -> None:
    ending = asyncio.Event()
    try:
        async with LocalSandbox(limits=LIMITS) as box:
            session = await opened(box)
            await session.run("pass")
            branches = await session.branch(2)
            # Opened before anything can be killed: a session that could not be opened is never said to be lost.
            tasks = [asyncio.create_task(work(box, await opened(box), ending)) for _ in range(2)]
            say("ready", branches=len(branches))
            await asyncio.to_thread(sys.stdin.read)
            ending.set()
            await asyncio.gather(*tasks)
    except BaseException as error:
        say("raised", error=f"{type(error).__name__}: {error}")
        raise
    say("closed")


if __name__ == "__main__":
    asyncio.run(main())
