"""A report was written by a hostile program: it is either sound or refused, and nothing else ever happens."""

import gc
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from saccade.guest.wire import Layout, layout
from saccade.record.execution import Status
from saccade.sandbox.base import Limits
from saccade.sandbox.channel import GuestFaultError
from saccade.sandbox.link import fixed_memfd
from saccade.sandbox.report import (
    MOST_CONTAINERS,
    MOST_TEXT,
    _text,
    check_report,
    cut_short,
    read_text,
)
from saccade.sandbox.result import RunResult

LIMITS = Limits(output_bytes=1024, pictures=4, picture_pixels=1024, total_pixels=2048)
LAYOUT: Layout = layout(LIMITS.output_bytes, LIMITS.total_pixels)
SOUND: dict[str, Any] = {
    "status": "ok",
    "stdout": [5, 5],
    "stderr": [0, 0],
    "value": None,
    "traceback": None,
    "pictures": [],
    "files": [],
    "repairs": [],
    "notes": [],
    "run": 0.1,
    "cpu": 0.1,
    "capture": 0.0,
}


@pytest.fixture(scope="module")
def outbox() -> Iterator[int]:
    fd = fixed_memfd("test-outbox", LAYOUT.size)
    os.pwrite(fd, b"hello", LAYOUT.stdout)
    yield fd
    os.close(fd)


def read(fd: int, report: object) -> RunResult:
    body = json.dumps(report).encode()
    os.pwrite(fd, body, LAYOUT.report)
    return check_report(fd, len(body), LAYOUT, LIMITS).result(fd)


def test_a_sound_report(outbox: int) -> None:
    picture = {"source": "show", "mode": "RGB", "width": 2, "height": 1, "offset": LAYOUT.pictures, "path": None}
    os.pwrite(outbox, bytes(range(6)), LAYOUT.pictures)
    result = read(outbox, SOUND | {"pictures": [picture], "unknown": "dropped"})
    assert (result.status, result.stdout) == (Status.OK, "hello")
    assert (result.pictures[0].data, result.pictures[0].image().getpixel((1, 0))) == (bytes(range(6)), (3, 4, 5))


@pytest.mark.parametrize(
    "change",
    [
        {"status": "lost"},
        {"status": "timeout"},
        {"status": None},
        {"stdout": [6, 5]},
        {"stdout": [-1, 5]},
        {"stdout": [2000, 2000]},
        {"stdout": [True, 5]},
        {"stdout": "hello"},
        {"value": 5},
        {"value": "x" * 100_001},
        {"notes": ["x"] * 1001},
        {"run": -1},
        {"run": "fast"},
        {"pictures": [{"source": "show", "mode": "RGB", "width": 2, "height": 1, "offset": 0}]},
        {"pictures": [{"source": "show", "mode": "RGB", "width": 2, "height": 1, "offset": LAYOUT.size - 5}]},
        {"pictures": [{"source": "show", "mode": "RGB", "width": 1 << 20, "height": 1 << 20, "offset": 1 << 30}]},
        {"pictures": [{"source": "show", "mode": "RGB", "width": 0, "height": 1, "offset": LAYOUT.pictures}]},
        {"pictures": [{"source": "show", "mode": "CMYK", "width": 1, "height": 1, "offset": LAYOUT.pictures}]},
        {"pictures": [{"source": "net", "mode": "L", "width": 1, "height": 1, "offset": LAYOUT.pictures}]},
        {"pictures": [{"source": "show", "mode": "L", "width": 1, "height": 1, "offset": LAYOUT.pictures}] * 5},
        {"pictures": [{"source": "show", "mode": "L", "width": 32, "height": 32, "offset": LAYOUT.pictures}] * 3},
        {"files": [{"path": "x" * 5000, "size": 1}]},
        {"files": [{"path": "x", "size": -1}]},
    ],
)
def test_an_unsound_report_is_refused(outbox: int, change: dict[str, Any]) -> None:
    with pytest.raises(GuestFaultError):
        read(outbox, SOUND | change)


@pytest.mark.parametrize("length", [0, -1, None, "5", 1.5, True, 1 << 40, LAYOUT.stdout + 1])
def test_an_impossible_length_is_refused(outbox: int, length: object) -> None:
    os.pwrite(outbox, b"x", LAYOUT.report)
    with pytest.raises(GuestFaultError):
        check_report(outbox, length, LAYOUT, LIMITS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=st.sampled_from(sorted(SOUND)), value=JSON)
def test_any_field_may_hold_anything(outbox: int, field: str, value: object) -> None:
    try:
        result = read(outbox, SOUND | {field: value})
    except GuestFaultError:
        return
    assert isinstance(result, RunResult)
    assert result.status in (Status.OK, Status.ERROR, Status.OUT_OF_MEMORY, Status.REFUSED)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(min_size=1, max_size=200))
def test_any_bytes(outbox: int, body: bytes) -> None:
    os.pwrite(outbox, body, LAYOUT.report)
    with pytest.raises(GuestFaultError):
        check_report(outbox, len(body), LAYOUT, LIMITS).result(outbox)


def test_deep_nesting_is_refused(outbox: int) -> None:
    body = b"[" * 200_000
    os.pwrite(outbox, body, LAYOUT.report)
    with pytest.raises(GuestFaultError):
        check_report(outbox, len(body), LAYOUT, LIMITS).result(outbox)


PLACES = [
    '{"x":%s}',
    '{"status":%s}',
    '{"stdout":[%s,0]}',
    '{"value":%s}',
    '{"run":%s}',
    '{"notes":[%s]}',
    '{"pictures":[{"source":%s}]}',
    '{"files":[{"path":%s}]}',
    '{"repairs":%s}',
]
MANY = {
    "lists": "[" + "[]," * MOST_CONTAINERS + "0]",
    "objects": "[" + "{}," * MOST_CONTAINERS + "0]",
    "nested": "[" + ("[" * 500 + "]" * 500 + ",") * 9 + "0]",
    "behind strings": '["\\"[{","\\\\",' + "[]," * MOST_CONTAINERS + "0]",
    "cut short": "[" + "[]," * MOST_CONTAINERS + '"',
}


@pytest.mark.parametrize("kind", MANY)
@pytest.mark.parametrize("letters", ["utf-8", "utf-16-le", "utf-16", "utf-32"])
def test_many_containers_are_refused_before_they_are_made(outbox: int, kind: str, letters: str) -> None:
    """Made, they would have the collector go through all that the host's process holds."""
    collections: list[str] = []
    gc.callbacks.append(lambda phase, _info: collections.append(phase))
    try:
        for place in PLACES:
            body = (place % MANY[kind]).encode(letters)
            os.pwrite(outbox, body, LAYOUT.report)
            with pytest.raises(GuestFaultError):
                check_report(outbox, len(body), LAYOUT, LIMITS)
    finally:
        gc.callbacks.pop()
    # The collector starts at 700 at the latest, so that each body would have it start five times.
    assert collections.count("start") <= 4


def test_brackets_in_texts_are_no_containers(outbox: int) -> None:
    value = "[{" * 20_000 + '"\\' + "[{" * 20_000
    assert read(outbox, SOUND | {"value": value}).value == value


def test_as_many_containers_as_an_honest_report_may_have(outbox: int) -> None:
    files = [{"path": f"f{number}", "size": 1} for number in range(1000)]
    repairs = [{"name": "n", "note": "x"}] * 1000
    result = read(outbox, SOUND | {"files": files, "repairs": repairs, "notes": ["n"] * 1000})
    assert (len(result.files), len(result.repairs), len(result.notes)) == (1000, 1000, 1000)


def test_text_that_grows_by_spelling_is_cut_and_says_so(outbox: int) -> None:
    assert read(outbox, SOUND | {"value": "\x7f" * (MOST_TEXT // 4)}).value == "\\x7f" * (MOST_TEXT // 4)
    cut = " [cut: the first 100,000 of 120,000 characters are shown]"
    assert read(outbox, SOUND | {"traceback": "\x7f" * 30_000}).traceback == "\\x7f" * (MOST_TEXT // 4) + cut


def test_text_after_a_kill_and_a_stated_cut(outbox: int) -> None:
    assert read_text(outbox, LAYOUT.stdout, LIMITS.output_bytes) == "hello"
    assert _text(outbox, LAYOUT.stdout, (4, 1000)) == ("hell\n[output cut: the first 4 of 1,000 bytes are shown]")


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "", ".", "./", "a\0b", ".."])
def test_a_path_that_leaves_the_workspace_is_refused(outbox: int, path: str) -> None:
    with pytest.raises(GuestFaultError, match="outside the workspace"):
        read(outbox, SOUND | {"files": [{"path": path, "size": 1}]})
    picture = {"source": "file", "mode": "L", "width": 2, "height": 1, "offset": LAYOUT.pictures, "path": path}
    os.pwrite(outbox, bytes(6), LAYOUT.pictures)
    with pytest.raises(GuestFaultError, match="outside the workspace"):
        read(outbox, SOUND | {"pictures": [picture]})


def test_paths_come_back_in_their_plain_form(outbox: int) -> None:
    result = read(outbox, SOUND | {"files": [{"path": "./a//b/./c", "size": 1}, {"path": "..x", "size": 2}]})
    assert [file.path for file in result.files] == ["a/b/c", "..x"]


def test_what_a_terminal_would_obey_is_spelled_out(outbox: int) -> None:
    hostile = "\x1b]0;owned\x07\x9b2J\r\n\tz"
    result = read(
        outbox,
        SOUND
        | {
            "files": [{"path": hostile, "size": 1}],
            "notes": [hostile],
            "repairs": [{"name": "\x1b", "note": hostile}],
            "traceback": hostile,
            "value": hostile,
        },
    )
    one_line = "\\x1b]0;owned\\x07\\x9b2J\\x0d\\n\tz"
    assert (result.files[0].path, result.notes[0], result.repairs[0].note) == (one_line,) * 3
    assert result.traceback == result.value == one_line.replace("\\n", "\n")


def test_a_picture_over_memory_that_was_never_written_is_refused(outbox: int) -> None:
    fresh = fixed_memfd("test-holes", LAYOUT.size + (1 << 20))
    picture = {"source": "show", "mode": "RGBA", "width": 32, "height": 32, "offset": LAYOUT.pictures, "path": None}
    try:
        with pytest.raises(GuestFaultError, match="never written"):
            read(fresh, SOUND | {"stdout": [0, 0], "pictures": [picture]})
        os.pwrite(fresh, bytes(4096), LAYOUT.pictures)
        assert read(fresh, SOUND | {"stdout": [0, 0], "pictures": [picture]}).pictures[0].data == bytes(4096)
    finally:
        os.close(fresh)


def test_what_is_just_within_the_limits_is_read(outbox: int) -> None:
    def shown(side: int, offset: int, mode: str = "L") -> dict[str, object]:
        return {"source": "show", "mode": mode, "width": side, "height": side, "offset": offset}

    os.pwrite(outbox, bytes(LAYOUT.size - LAYOUT.pictures), LAYOUT.pictures)
    end = LAYOUT.size - 4 * 1024
    found = read(outbox, SOUND | {"pictures": [shown(32, LAYOUT.pictures), shown(32, end, "RGBA")]})
    assert [len(picture.data) for picture in found.pictures] == [1024, 4096]
    for wrong in (
        [shown(32, LAYOUT.pictures), shown(32, end + 1, "RGBA")],
        [shown(32, LAYOUT.pictures - 1)],
        [{**shown(32, LAYOUT.pictures), "height": 33}],
        [*[shown(32, LAYOUT.pictures)] * 2, shown(1, LAYOUT.pictures)],
    ):
        with pytest.raises(GuestFaultError):
            read(outbox, SOUND | {"pictures": wrong})
    assert len(read(outbox, SOUND | {"pictures": [shown(1, LAYOUT.pictures)] * 4}).pictures) == 4
    os.pwrite(outbox, b"x" * 1024, LAYOUT.stderr)
    cut = read(outbox, SOUND | {"stderr": [1024, 1025], "notes": ["n" * 2001]})
    assert cut.stderr == "x" * 1024 + "\n[output cut: the first 1,024 of 1,025 bytes are shown]"
    assert cut.notes == ("n" * 2000,)
    with pytest.raises(GuestFaultError, match="an output of impossible length"):
        read(outbox, SOUND | {"stderr": [1025, 1025]})


async def test_much_text_is_decoded_in_pieces_as_if_it_were_one() -> None:
    text = "ä€𝄞x" * 260_000  # 10 bytes each: no piece of a mebibyte ends where a letter does
    data = text.encode()
    limits = Limits(output_bytes=3 << 20)
    plan = layout(limits.output_bytes, limits.total_pixels)
    fd = fixed_memfd("test-pieces", plan.size)
    try:
        os.pwrite(fd, data, plan.stdout)
        os.pwrite(fd, b"late", plan.stderr)
        assert _text(fd, plan.stdout, (len(data), len(data))) == text
        assert read_text(fd, plan.stdout, limits.output_bytes) == text
        assert _text(fd, plan.stdout, (1 << 20, len(data))).startswith(text[:400_000])
        ended = await cut_short(fd, plan, limits, Status.TIMEOUT, "too\x07 long")
        assert (ended.status, ended.stdout, ended.stderr) == (Status.TIMEOUT, text, "late")
        assert (ended.traceback, ended.committed) == ("too\\x07 long", False)
    finally:
        os.close(fd)


def test_a_value_is_given_as_json_or_as_an_array_and_nothing_else(outbox: int) -> None:
    os.pwrite(outbox, np.arange(6, dtype="<i4").tobytes(), LAYOUT.pictures)
    array = {"array": "<i4", "shape": [2, 3], "offset": LAYOUT.pictures}
    found = read(outbox, SOUND | {"data": json.dumps(array)})
    assert (found.data.tolist(), found.data.dtype, found.data.flags.writeable) == (
        [[0, 1, 2], [3, 4, 5]],
        np.int32,
        True,
    )
    assert read(outbox, SOUND | {"data": '{"data": [1, {"a": NaN}]}'}).data[0] == 1
    assert read(outbox, SOUND | {"data": "{}"}).data is None
    for wrong in (
        *({**array, "array": kind} for kind in ("|O", "|V4", "<U4", ">i4", "<M8[s]", "i4,i4", 5)),
        *({**array, "shape": shape} for shape in ([-1, 3], [1 << 40], [2] * 33, "22", [1 << 11, 1 << 11])),
        *({**array, "offset": offset} for offset in (0, LAYOUT.pictures - 1, LAYOUT.size - 23, 1 << 50, None)),
        *(None, [], 5, "x"),
    ):
        with pytest.raises(GuestFaultError):
            read(outbox, SOUND | {"data": wrong if isinstance(wrong, str) else json.dumps(wrong)})
    for wrong_text in ("{", "[" * 5000, '{"data": ' + "[" * 3000 + "]" * 3000 + "}", "{" + "[]," * 5000 + "}"):
        with pytest.raises(GuestFaultError):
            read(outbox, SOUND | {"data": wrong_text})
