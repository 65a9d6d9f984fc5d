"""Attacks by forged reports: paths that leave the workspace, escapes for terminals, claims that cost time."""

from __future__ import annotations

from saccade.sandbox.attacks.attack import Attack
from saccade.sandbox.attacks.branches import GUEST
from saccade.sandbox.result import RunResult

_LIE = (
    GUEST
    + """
outbox = guest("outbox")
honest = outbox.encode
def lie(**changes):
    outbox.encode = lambda report: honest({**report, **changes})
def raw(body):
    outbox.encode = lambda report: body
def picture(**changes):
    return {"source": "show", "mode": "RGB", "width": 8, "height": 8, "offset": start(), "path": None, **changes}
def start():
    import gc
    return next(t.layout.pictures for t in gc.get_objects() if type(t).__name__ == "Outbox")
"""
)


def _report(name: str, tries: str, code: str) -> Attack:
    return Attack(name, "reports", tries, _LIE + code, may_lose_session=True)


def _no_outage(result: RunResult) -> str | None:
    return "the host took it for an outage of its own" if result.status.value == "lost" else None


def _charged(result: RunResult) -> str | None:
    """The call finds no keeper, and its program is told so; another end would mean that the attack never took place."""
    if result.status.value == "killed":
        return None
    return _no_outage(result) or f"the process that keeps the state lived on: {result.status.value}"


def _keeper(name: str, tries: str, code: str) -> Attack:
    """`code` gives `after` what the process that keeps the state does once its call is kept."""
    after = "def after(action): guest('session').keep.__globals__['give_back_memory'] = action\n"
    return Attack(
        name,
        "reports",
        tries,
        "print('gone')\n",
        before=GUEST + after + code + "\n",
        check=_charged,
        may_lose_session=True,
    )


REPORTS = (
    _report(
        "file_above", "report a file above the workspace", "lie(files=[{'path': '../../../etc/cron.d/x', 'size': 5}])"
    ),
    _report("file_elsewhere", "report a file by an absolute path", "lie(files=[{'path': '/etc/passwd', 'size': 5}])"),
    _report("file_inside_and_out", "report a file by way of a folder", "lie(files=[{'path': 'a/../../x', 'size': 5}])"),
    _report(
        "file_of_no_name", "report files without a name", "lie(files=[{'path': p, 'size': 5} for p in ('', '.', './')])"
    ),
    _report(
        "file_that_a_terminal_obeys",
        "report a file whose name moves the cursor and sets the title",
        "lie(files=[{'path': '\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\r\\nx', 'size': 5}])",
    ),
    _report(
        "file_with_a_zero_byte",
        "report a file with a zero byte and half a character in its name",
        "lie(files=[{'path': 'a\\0b', 'size': 5}, {'path': '\\ud800', 'size': 5}])",
    ),
    _report(
        "notes_that_a_terminal_obeys",
        "send escapes in notes",
        "lie(notes=['\\x1b[2Jgone\\x07', 'a\\r\\nb', '\\x9b1m'])",
    ),
    _report(
        "repairs_that_a_terminal_obeys",
        "send escapes in the names of repairs",
        "lie(repairs=[{'name': '\\x1b[2J', 'note': '\\x1b]0;x\\x07'}])",
    ),
    _report(
        "picture_above",
        "report a picture that lies above the workspace",
        "from PIL import Image\nImage.new('RGB', (8, 8)).show()\nlie(pictures=[picture(path='../../../root/x.png')])",
    ),
    _report(
        "pictures_over_holes",
        "claim the largest pictures over memory that was never written",
        "side = 1000\n"
        "lie(pictures=[picture(width=side, height=side, mode='RGBA', offset=start() + i * side * side * 4) "
        "for i in range(4)])",
    ),
    _report(
        "picture_of_an_odd_shape",
        "claim a picture a million pixels wide",
        "lie(pictures=[picture(width=1 << 20, height=1), picture(width=1, height=1 << 20)])",
    ),
    _report(
        "report_of_empty_lists", "send a report of a million empty lists", "raw(b'{\"x\":[' + b'[],' * 80_000 + b'0]}')"
    ),
    _report(
        "path_of_lists",
        "send a hundred thousand lists in the place of a path",
        "raw(b'{\"files\":[{\"size\":1,\"path\":[' + b'[],' * 80_000 + b'0]}]}')",
    ),
    _report(
        "report_nested_without_end",
        "send lists within lists, as deep as a parser goes",
        "raw(b'{\"x\":[' + (b'[' * 900 + b']' * 900 + b',') * 140 + b'0]}')",
    ),
    _report(
        "lists_in_other_letters",
        "send many lists in UTF-16, behind a letter that looks like a quotation mark to who counts them",
        "raw(('{\"\\u0122\":[' + '[],' * 40_000 + '0]}').encode('utf-16-le'))",
    ),
    _report(
        "paths_of_many_parts",
        "report files whose paths have thousands of parts",
        "lie(files=[{'path': 'a/' * 1_900, 'size': 1}] * 60)",
    ),
    _report(
        "texts_to_spell_out",
        "send a report of nothing but characters that must be spelled out",
        "honest_encode = honest\n"
        "def honest(report):\n"
        "    return honest_encode(report).replace(b'@', b'\\x7f')\n"
        "lie(value='@' * 95_000, traceback='@' * 95_000, notes=['@' * 2_000] * 30)",
    ),
    _report(
        "output_of_no_letters",
        "print as many bytes as possible that are no text",
        "for fd in (1, 2):\n    os.write(fd, b'\\xff' * (1 << 20))",
    ),
    _report(
        "report_of_many_files",
        "send a report of more files than a workspace holds",
        "lie(files=[{'path': 'a', 'size': 1}] * 9_000)",
    ),
    _report("report_of_numbers", "send a report of long numbers", "raw(b'{\"run\":' + b'9' * 200_000 + b'}')"),
    _report("report_beyond_its_room", "claim a report longer than its room", "raw(b'{' + b' ' * 900_000 + b'}')"),
    _report(
        "times_of_a_year",
        "claim to have computed for a year",
        "lie(run=31_536_000.0, cpu=31_536_000.0, capture=1e300)",
    ),
    _report("counts_without_end", "claim to have printed more than there are numbers for", "lie(stdout=[0, 10**4000])"),
    Attack(
        "names_that_are_not_what_they_show",
        "reports",
        "write files whose names turn the direction of text, begin lines or cannot be seen",
        """
for name in ("a\u202egnp.exe", "b\u2066c\u2069", "d\u2028e", "f\u200bg", "h\U000e0041i", "\ufeffj", "k\x9bm"):
    open(name, "w").close()
""",
    ),
    _keeper(
        "keeper_that_leaves",
        "end the process that keeps the state, to be counted as an outage",
        "after(lambda: os._exit(3))",
    ),
    _keeper(
        "keeper_that_crashes",
        "crash the process that keeps the state, to be counted as an outage",
        "after(lambda: ctypes.string_at(0))",
    ),
    _keeper(
        "keeper_that_calls_another_machine",
        "have the kernel end the process that keeps the state, by a forbidden kind of call",
        # Without a filter of system calls the kernel does not end it, and it ends itself.
        "after(lambda: (_libc.syscall(0x40000000 | 39), os._exit(3)))",
    ),
    _keeper(
        "keeper_that_uses_up_its_time",
        "let the process that keeps the state use up its CPU time, to be counted as an outage",
        "def burn():\n    while True: pass\nafter(burn)",
    ),
    Attack(
        "words_of_the_zygote",
        "reports",
        "say what only the zygote says: ended, died, lost",
        """
import json
for s in sockets():
    for op in ("ended", "died", "close", "failed", "lost"):
        try_quietly(s.send, json.dumps({"op": op, "id": 1, "error": "an outage"}).encode())
""",
        check=_no_outage,
        may_lose_session=True,
    ),
)
