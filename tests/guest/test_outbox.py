"""stdout and stderr: capped, readable after a kill, never in the way."""

from __future__ import annotations

import io
import json
import os
import resource
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.guest.cells import Guest, Start, memfd_outbox

from saccade.guest.outbox import Outbox, encode, take_tail
from saccade.guest.wire import COUNTS_OFFSET, REPORT_ROOM


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    box, _ = memfd_outbox(output_bytes=10, total_pixels=100)
    yield box
    os.close(box.fd)


def stdout(outbox: Outbox) -> bytes:
    return outbox.read(outbox.layout.stdout, 10)


def test_text_is_written_at_once_and_cut_at_a_character(outbox: Outbox) -> None:
    outbox.stdout.write("ab")
    assert stdout(outbox) == b"ab" + bytes(8)
    assert outbox.read(COUNTS_OFFSET, 1) == b"\2"
    outbox.stdout.write("€" * 3)
    assert stdout(outbox) == b"ab" + "€€".encode() + bytes(2)
    outbox.stdout.write("z")
    outbox.stdout.buffer.write(b"12")
    assert (outbox.stdout.kept, outbox.stdout.total) == (8, 14)
    assert outbox.read(outbox.layout.stderr, 10) == bytes(10)


def test_stream_is_a_good_citizen(outbox: Outbox) -> None:
    stream = outbox.stdout
    assert (stream.encoding, stream.isatty(), stream.writable(), stream.readable(), stream.fileno()) == (
        ("utf-8", False, True, False, 1)
    )
    stream.reconfigure(encoding="latin-1", line_buffering=True)
    stream.writelines(["a", "b"])
    stream.close()
    stream.flush()
    wrapper = io.TextIOWrapper(stream.buffer, encoding="utf-8")
    wrapper.write("c")
    wrapper.close()
    print("d\ud800", file=stream)
    assert stdout(outbox) == b"abcd?\n" + bytes(4)
    with pytest.raises(TypeError, match="must be str"):
        stream.write(b"bytes")


@given(st.lists(st.text(max_size=8), max_size=8))
def test_kept_text_is_a_prefix(texts: list[str]) -> None:
    outbox, _ = memfd_outbox(output_bytes=16, total_pixels=1)
    try:
        for text in texts:
            outbox.stdout.write(text)
        joined = "".join(texts).encode("utf-8", "replace")
        kept = outbox.read(outbox.layout.stdout, outbox.stdout.kept)
        assert outbox.stdout.total == len(joined)
        assert joined.startswith(kept)
        assert kept.decode()[:16] == kept.decode()
        assert len(kept) == len(joined) if len(joined) <= 16 else len(kept) > 12
    finally:
        os.close(outbox.fd)


def test_pictures_over_the_area_are_dropped(outbox: Outbox) -> None:
    assert outbox.append(300, [bytes(200), bytes(100)]) == outbox.layout.pictures
    assert outbox.append(101, [bytes(101)]) is None
    assert outbox.append(100, [b"\1" * 100]) == outbox.layout.pictures + 300
    assert outbox.read(outbox.layout.pictures + 300, 100) == b"\1" * 100


def test_picture_area_beyond_the_limit_on_file_sizes() -> None:
    outbox, _ = memfd_outbox(output_bytes=1000, total_pixels=1 << 20)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, old[1]))
    try:
        data = os.urandom(3 << 20)
        offset = outbox.append(len(data), [data[: 1 << 20], data[1 << 20 :]])
        assert offset is not None
        assert outbox.read(offset, len(data)) == data
        assert outbox.append(4, [b"next"]) == offset + len(data)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        os.close(outbox.fd)


def test_tail_reads_once_and_is_capped() -> None:
    fd = os.memfd_create("tail")
    assert take_tail(fd, 4) == b""
    os.write(fd, b"abc")
    assert (take_tail(fd, 4), take_tail(fd, 4)) == (b"abc", b"")
    os.write(fd, b"123456")
    assert take_tail(fd, 4) == b"1234"
    os.close(fd)
    assert take_tail(fd, 4) == b""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_json_is_json(value: object) -> None:
    assert json.loads(encode(value)) == value


def test_report_that_does_not_fit_is_shortened(outbox: Outbox) -> None:
    report = {
        "status": "ok",
        "value": "\U0001f600" * 100_000,
        "files": [{"path": "p" * 4000, "size": 1}] * 1000,
        "pictures": [{"path": "q" * 4000, "offset": 7}] * 100,
        "notes": ["first"],
    }
    length = outbox.write_report(report)
    assert length <= REPORT_ROOM
    read = json.loads(outbox.read(0, length))
    assert read["status"] == "ok"
    assert len(read["pictures"]) == 100
    assert read["pictures"][0]["offset"] == 7
    assert read["notes"][0] == "first"
    assert "shortened" in read["notes"][-1]


def test_stdout_and_stderr_of_a_cell(guest: Guest) -> None:
    code = """
import os, sys, ctypes, warnings, logging, subprocess
print("one")
print("two", file=sys.stderr)
sys.stdout.buffer.write(b"three\\n")
os.write(1, b"four\\n")
os.write(2, b"five\\n")
ctypes.CDLL(None).puts(b"six")
subprocess.run(["echo", "seven"])
warnings.warn("eight")
logging.warning("nine")
"""
    result = guest.run(code)
    assert sorted(result.stdout.split()) == ["four", "one", "seven", "six", "three"]
    assert result.stdout.startswith("one\nthree\n")
    assert result.stderr.startswith("two\n")
    assert "UserWarning: eight" in result.stderr
    assert "WARNING:root:nine" in result.stderr
    assert result.stderr.endswith("five\n")


def test_next_call_starts_empty_and_old_handlers_still_work(guest: Guest) -> None:
    guest.run(
        "import logging, sys, os\nlogging.basicConfig(stream=sys.stdout)\nprint('a lot of text')\nos.write(1, b'more')"
    )
    result = guest.run("logging.warning('w')")
    assert result.stdout == "WARNING:root:w\n"
    assert guest.text("stdout") == "WARNING:root:w\n"


def test_text_wrapped_by_the_program_is_flushed(guest: Guest) -> None:
    result = guest.run("import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint('ä')")
    assert result.stdout == "ä\n"


def test_a_flood_is_cut_with_a_note(start: Start) -> None:
    guest = start(output_bytes=1000)
    result = guest.run("for _ in range(1000): print('x' * 1_000_000)\nimport sys\nprint('é' * 600, file=sys.stderr)")
    assert result.report["stdout"] == [1000, 1_000_001_000]
    assert result.stdout == "x" * 1000
    assert result.stderr == "é" * 500
    assert "stdout was cut: the first 1000 of 1000001000 bytes were kept" in result.notes
    assert any(note.startswith("stderr was cut") for note in result.notes)


def test_what_was_printed_can_be_read_after_a_kill(guest: Guest) -> None:
    guest.run("print('an earlier and longer text')")
    with pytest.raises(EOFError):
        guest.run("print('seen')\nimport os\nos._exit(3)")
    assert guest.text("stdout") == "seen\n"
