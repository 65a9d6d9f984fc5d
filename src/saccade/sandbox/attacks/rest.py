"""Attacks that work on when their call has ended: siblings, threads, a keeper or a leaf that never sleeps."""

from __future__ import annotations

from saccade.sandbox.attacks.attack import Attack, kept_with_its_thread
from saccade.sandbox.attacks.branches import GUEST

_SIBLING = """
import time
number = 56 if platform.machine() == "x86_64" else 220
def sibling():
    return _libc.syscall(number, 0x8000 | 17, 0, 0, 0, 0)
"""
_STOP = """
import signal
def stop(*args):
    for _ in range(20): os.kill(0, signal.SIGSTOP)
"""
_BURN = "    while True: pass\n"

REST = (
    Attack(
        "sibling_outlives_a_kept_call",
        "rest",
        "clone a sibling in a call that is kept, which writes through later rollbacks",
        "raise RuntimeError('this call fails')\n",
        before=_SIBLING
        + "if sibling() == 0:\n"
        + "    while True:\n        time.sleep(0.005)\n        open('from_the_sibling', 'a').write('x')\n",
        after="import time\ntime.sleep(0.2)\nif os.path.exists('from_the_sibling'): breach('the sibling writes')\n",
    ),
    Attack(
        "sibling_burns",
        "rest",
        "clone siblings that compute after the call",
        _SIBLING + "for _ in range(3):\n    if sibling() == 0:\n        while True: pass\n",
    ),
    Attack(
        "sibling_of_a_sibling",
        "rest",
        "clone a sibling whose sibling computes after the call",
        _SIBLING
        + "if sibling() == 0:\n"
        + "    for _ in range(200):\n        if sibling() == 0: time.sleep(0.002)\n        else: os._exit(0)\n"
        + _BURN.lstrip(),
    ),
    Attack(
        "native_thread_burns",
        "rest",
        "leave a thread of C computing that Python does not know of",
        """
handle = ctypes.c_ulong()
made = _libc.pthread_create(ctypes.byref(handle), None, ctypes.cast(_libc.pause, ctypes.c_void_p), None)
print("pthread_create gave", made)
""",
        check=kept_with_its_thread,
    ),
    Attack(
        "keeper_that_never_sleeps",
        "rest",
        "patch the runtime so that the process that keeps the state computes for ever",
        GUEST + "def burn(*args):\n" + _BURN + "guest('session').keep.__globals__['give_back_memory'] = burn\n",
        may_lose_session=True,
    ),
    Attack(
        "keeper_that_burns_after_forking",
        "rest",
        "patch the runtime so that the keeper forks a leaf and then computes for ever",
        GUEST
        + """
session = guest("session")
class Forker:
    def __init__(self, real): self.real = real
    def fork(self, *args):
        pid = self.real.fork(*args)
        while pid: pass
        return pid
import gc
for thing in gc.get_objects():
    if type(thing).__name__ == "Interpreter":
        thing.forker = Forker(thing.forker)
""",
        may_lose_session=True,
    ),
    Attack(
        "leaf_that_waits_busily",
        "rest",
        "patch the runtime so that the process of the next call computes while it waits",
        GUEST
        + """
session = guest("session")
def lead(state):
    state.sock.send(b'{"op":"ready","pid":%d}' % os.getpid())
    while True: pass
session.lead = lead
""",
        may_lose_session=True,
    ),
    Attack(
        "leaf_that_breeds",
        "rest",
        "patch the runtime so that siblings are cloned beside the next leaf",
        GUEST
        + _SIBLING
        + """
session = guest("session")
real = session.lead
def lead(state):
    if sibling() == 0:
        while True: pass
    return real(state)
session.lead = lead
""",
        may_lose_session=True,
    ),
    Attack(
        "timer_that_wakes",
        "rest",
        "set a timer that continues the stopped process",
        """
import struct
event = ctypes.create_string_buffer(struct.pack("qii48x", 0, 18, 0))
timer = ctypes.c_void_p()
if _libc.timer_create(1, event, ctypes.byref(timer)) == 0:
    _libc.timer_settime(timer, 0, ctypes.create_string_buffer(struct.pack("4q", 0, 1000000, 0, 1000000)), None)
    breach("a timer sends SIGCONT")
else:
    print("stopped:", os.strerror(ctypes.get_errno()))
""",
    ),
    Attack(
        "keeper_that_stops_itself",
        "rest",
        "patch the runtime so that the process that keeps the state stops itself again and again, and never gets ready",
        "pass\n",
        before=GUEST + _STOP + "guest('session').keep.__globals__['give_back_memory'] = stop\n",
        after="print('here')\n",
        may_lose_session=True,
        wall_seconds=2.0,
    ),
    Attack(
        "leaf_that_stops_the_keeper",
        "rest",
        "patch the runtime so that the process of the next call stops itself and its keeper before it is known",
        "pass\n",
        before=GUEST + _STOP + "guest('session').keep.__globals__['lead'] = stop\n",
        after="print('here')\n",
        may_lose_session=True,
        wall_seconds=2.0,
    ),
    Attack(
        "leaf_that_does_not_stop",
        "rest",
        "patch the runtime so that a process whose call has ended does not stop itself, and computes",
        "pass\n",
        before=GUEST + "def burn(*args):\n" + _BURN + "guest('session').call.__globals__.update(_kill=burn)\n",
        may_lose_session=True,
    ),
    Attack(
        "slow_to_get_ready",
        "rest",
        "patch the runtime so that the next call waits for ever",
        "pass\n",
        before=GUEST + "import time\n" + "guest('session').keep.__globals__['lead'] = lambda state: time.sleep(600)\n",
        after="print('here')\n",
        may_lose_session=True,
        wall_seconds=2.0,
    ),
)
