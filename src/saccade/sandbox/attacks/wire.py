"""Attacks on the wire between guest and host: garbage, floods, forged frames, lies about lengths and pixels.

After these the host may drop the attacked session, and nothing else.
"""

from __future__ import annotations

from saccade.sandbox.attacks.attack import Attack

FRAMES = r'''
import json
def flood(frames, rounds=1):
    """Send each frame on every socket that the process holds."""
    for s in sockets():
        for _ in range(rounds):
            for frame in frames:
                try:
                    s.send(frame if isinstance(frame, bytes) else json.dumps(frame).encode())
                except OSError as error:
                    print("stopped:", error)
                    break
def memory_files():
    """Every descriptor that is a file in memory, other than the standard ones."""
    found = []
    for fd in descriptors():
        if stat.S_ISREG(os.fstat(fd).st_mode) and os.fstat(fd).st_nlink == 0:
            found.append(fd)
    return found
'''

WIRE = (
    Attack(
        "close_every_descriptor",
        "wire",
        "close every descriptor",
        "os.closerange(0, 4096)\n",
        may_lose_session=True,
        wall_seconds=2.0,
    ),
    Attack(
        "replace_descriptors",
        "wire",
        "put other files in the place of stdout and of the wire",
        """
null = os.open("/dev/null", os.O_RDWR)
pipe = os.pipe()
for fd in [0, 1, 2, *descriptors()]:
    if fd not in (null, *pipe):
        try_quietly(os.dup2, pipe[1] if fd % 2 else null, fd)
""",
        may_lose_session=True,
        wall_seconds=2.0,
    ),
    Attack(
        "garbage_on_every_descriptor",
        "wire",
        "write random bytes to every descriptor",
        """
import random
for fd in descriptors():
    for size in (0, 1, 4, 100, 4096, 48 * 1024, 200_000):
        for call in (lambda: os.write(fd, random.randbytes(size)), lambda: os.pwrite(fd, random.randbytes(size), 0)):
            try_quietly(call) if not os.isatty(fd) else None
        try:
            s = socket.socket(fileno=os.dup(fd)); s.setblocking(False); s.send(random.randbytes(size))
        except OSError: pass
""",
        may_lose_session=True,
        wall_seconds=2.0,
    ),
    Attack(
        "frames_of_lists",
        "wire",
        "say that the call has ended in a frame of thousands of lists",
        FRAMES
        + """
flood([b'{"op":"result","call":[' + b"[]," * 15_000 + b"0]}"])
""",
        may_lose_session=True,
    ),
    Attack(
        "empty_packets",
        "wire",
        "send empty packets, which look like the end of the wire, and shut the wire down",
        FRAMES
        + """
flood([b""], 50)
for s in sockets():
    try_quietly(s.shutdown, socket.SHUT_WR)
    try_quietly(s.shutdown, socket.SHUT_RDWR)
""",
        may_lose_session=True,
        wall_seconds=2.0,
    ),
    Attack(
        "wrong_types",
        "wire",
        "frames with wrong types, missing fields and unknown orders",
        FRAMES
        + """
odd = [None, True, -1, 2**200, 1.5, float("nan"), float("inf"), "", "x" * 1000, [], [[]], {}, {"a": 1},
       "\\ud800", "\\x00"]
flood([json.dumps({"op": op, "call": v, "length": v, "pid": v, "id": v}).encode()
       for op in ("result", "ready", "branched", "adopt", "need", "image", "commit", "open", "close", "hello", "")
       for v in odd])
flood([b"null", b"[]", b"5", b"{}", b"{", b"\\xff\\xfe", b'"op"', b'{"op":null}', b'{"op":["result"]}', b"NaN"])
""",
        may_lose_session=True,
        wall_seconds=2.0,
    ),
    Attack(
        "deep_nesting",
        "wire",
        "frames with deep nesting, huge numbers and repeated keys",
        FRAMES
        + """
flood([b"[" * 40_000, b'{"op":' * 7000 + b"1" + b"}" * 7000, b'{"op":"result","call":' + b"9" * 40_000 + b"}",
       b'{"op":"result","length":1e400}', b"{" + b",".join(b'"op":"result"' for _ in range(3000)) + b"}"])
""",
        may_lose_session=True,
        wall_seconds=2.0,
    ),
    Attack(
        "frame_flood",
        "wire",
        "millions of small frames",
        FRAMES
        + """
import time
end = time.monotonic() + 1.5
while time.monotonic() < end:
    flood([{"op": "ready", "pid": os.getpid()}, {"op": "x"}], 200)
""",
        may_lose_session=True,
        wall_seconds=2.5,
    ),
    Attack(
        "blocking_flood",
        "wire",
        "a full wire that nobody reads, with the call hanging behind it",
        FRAMES
        + """
for s in sockets():
    s.setblocking(True)
    s.settimeout(0.5)
    try:
        while True:
            s.send(b"x" * 40_000)
    except OSError as error:
        print("stopped:", error)
""",
        may_lose_session=True,
        wall_seconds=2.0,
    ),
    Attack(
        "results_for_other_calls",
        "wire",
        "report results for calls that were never made, before and after the own one",
        FRAMES
        + """
flood([{"op": "result", "call": n, "length": 10} for n in range(-5, 200)])
flood([{"op": "ready", "pid": p} for p in (0, 1, -1, 2, os.getppid(), os.getpid(), target["canary_pid"], 2**31, 2**63)])
flood([{"op": "adopt", "pid": p} for p in (0, 1, -1, os.getppid(), os.getpid(), target["canary_pid"])])
flood([{"op": "branched"}] * 20)
keep = "forged"
raise RuntimeError("this call failed")
""",
        may_lose_session=True,
    ),
    Attack(
        "lengths_outside_the_outbox",
        "wire",
        "claim reports and pixels outside the shared memory",
        FRAMES
        + """
for length in (0, -1, 2**31, 2**40, 2**63, 2**64, 10**30):
    flood([{"op": "result", "call": n, "length": length} for n in range(1, 6)])
""",
        may_lose_session=True,
    ),
    Attack(
        "lying_reports",
        "wire",
        "write a report of pictures of 10^9 pixels, offsets outside, bad modes and paths",
        FRAMES
        + """
def picture(**lie):
    return {"source": "figure", "mode": "RGB", "width": 4, "height": 4, "offset": 0, "length": 48, "path": None, **lie}
lies = [picture(width=10**9, height=10**9), picture(offset=2**62), picture(offset=-8), picture(mode="XYZ"),
        picture(width=-4, height=-4), picture(width=0), picture(length=2**40), picture(width=1.5), picture(source=7),
        picture(path="../../etc/passwd"), picture(width=True), picture(mode=["RGB"])]
names = ("status", "stdout", "stderr", "value", "traceback", "notes", "files", "repairs", "timings", "pictures")
for lie in lies + [[lies] * 100, lies * 2000]:
    report = dict.fromkeys(names, "")
    report.update(status="ok", notes=[], files=[], pictures=lie if isinstance(lie, list) else [lie])
    body = json.dumps(report).encode()
    for fd in memory_files():
        try_quietly(os.pwrite, fd, body, 0)
    flood([{"op": "result", "call": n, "length": len(body)} for n in range(1, 6)])
""",
        may_lose_session=True,
    ),
    Attack(
        "shrink_the_outbox",
        "wire",
        "shrink the shared memory after the host has learnt its size, so that a mapping faults",
        FRAMES
        + """
import fcntl
for fd in memory_files():
    try_quietly(os.ftruncate, fd, 0)
    try_quietly(os.ftruncate, fd, 2**50)
    try_quietly(fcntl.fcntl, fd, 1033, 0x1F)
    try_quietly(os.ftruncate, fd, 0)
from PIL import Image
Image.new("RGB", (50, 50)).show()
""",
        may_lose_session=True,
    ),
    Attack(
        "read_the_wire",
        "wire",
        "read the orders meant for the runtime and answer them",
        FRAMES
        + """
for s in sockets():
    try:
        body, cargo, flags, address = s.recvmsg(65536, 4096)
        print(body[:200], len(cargo))
    except OSError as error:
        print("stopped:", error)
    print(try_quietly(s.getpeername), try_quietly(s.getsockopt, socket.SOL_SOCKET, 17, 12))
""",
        may_lose_session=True,
    ),
)
