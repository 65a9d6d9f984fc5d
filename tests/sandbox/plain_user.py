"""A program that becomes the user `nobody` and uses the sandbox; prints one JSON object. Run by test_plain_user.py.

Arguments: what to do (a name of `DO`), the interpreter of the sandbox, and folders to import from.
"""

import asyncio
import json
import os
import sys

NOBODY = 65534


def become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    sys.path[:0] = sys.argv[3:]


async def calls(python: str) -> dict[str, object]:
    from saccade.sandbox.base import Limits
    from saccade.sandbox.local import LocalSandbox

    async with LocalSandbox(python=python, limits=Limits(wall_seconds=3)) as sandbox:
        session = await sandbox.open({"x": 1}, files={"kept.txt": b"kept"})
        first = await session.run("x += 1\nopen('new.txt', 'w').write('new')\nx")
        failed = await session.run("x = 9\nimport os\nos.remove('kept.txt')\nopen('new.txt', 'w').write('bad')\n1 / 0")
        hung = await session.run("open('bad.txt', 'w').write('bad')\nimport time\ntime.sleep(60)", wall_seconds=1)
        look = "import os\nprint(x, sorted(os.listdir('.')), open('new.txt').read(), open('kept.txt').read())"
        after = await session.run(look)
        left, right = await session.branch(2)
        await left.run("x = 'left'\nopen('new.txt', 'w').write('left')")
        seen = [(await each.run(look)).stdout.strip() for each in (left, right, session)]
        plot = await right.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
        return {
            "uid": os.getuid(),
            "statuses": [each.status.value for each in (first, failed, hung, after, plot)],
            "after": after.stdout.strip(),
            "branches": seen,
            "pictures": len(plot.pictures),
            "layers": (await sandbox.isolation()).names,
        }


async def contained(python: str) -> dict[str, object]:
    """What is left in a container that forbids namespaces."""
    from saccade.sandbox.isolation import Layer
    from saccade.sandbox.local import LocalSandbox

    namespaces = [layer for layer in Layer if layer.value.endswith("namespace")]
    async with LocalSandbox(python=python, without=namespaces) as sandbox:
        session, other = await sandbox.open(), await sandbox.open()
        await session.run(
            "import mmap\nf = open('m', 'w+b'); f.write(b'kept' * 1024); f.flush(); m = mmap.mmap(f.fileno(), 0)"
        )
        (branch,) = await session.branch(1)
        await branch.run("m[:4] = b'left'")
        mapped = (await session.run("print(m[:4], open('m', 'rb').read(4))")).stdout.strip()
        pid = (await session.run("import os\nos.getpid()")).value  # keeps the state until the next call
        peek = f"try: print(open('/proc/{pid}/maps').read(9))\nexcept OSError as error: print(error.errno)"
        return {
            "mapped": mapped,
            "peeked": (await other.run(peek)).stdout.strip(),
            "layers": (await sandbox.isolation()).names,
        }


async def checks(python: str) -> dict[str, object]:
    from saccade.plugins.audit.conformance import LIMITS, run_all
    from saccade.sandbox.local import LocalSandbox

    outcomes = await run_all(lambda: LocalSandbox(python=python, limits=LIMITS))
    return {
        "count": len(outcomes),
        "failed": [f"{each.check.name}: {each.message}" for each in outcomes if not each.passed],
    }


async def attacks(python: str) -> dict[str, object]:
    from saccade.plugins.audit.attacks import LIMITS, run_attacks
    from saccade.sandbox.local import LocalSandbox

    outcomes = await run_attacks(lambda: LocalSandbox(python=python, limits=LIMITS))
    return {
        "count": len(outcomes),
        "failed": [f"{each.attack.name}: {each.evidence}" for each in outcomes if not each.passed],
    }


DO = {"calls": calls, "contained": contained, "checks": checks, "attacks": attacks}

if __name__ == "__main__":
    become_nobody()
    print(json.dumps(asyncio.run(DO[sys.argv[1]](sys.argv[2]))))
