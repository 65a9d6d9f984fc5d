"""Endings of names: every container that is read has one, and a broken file is called by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.media import clips

from saccade.cli.main import main
from saccade.media.decode import MIME_TYPES as PICTURES
from saccade.media.decode import SUFFIXES, named_as, suffix_of
from saccade.media.store import MediaStore
from saccade.media.video import MIME_TYPES as VIDEOS
from saccade.record.codec import read_lines
from saccade.record.content import VideoPart
from saccade.record.trajectory import Trajectory
from saccade.training.sft.formats.files import MediaOut

CLIPS = [("flv", "flv1", "flv"), ("ts", "mpeg2video", "mpegts"), ("wmv", "wmv2", "asf"), ("3gp", "mpeg4", "3gp")]


def test_every_format_that_is_read_has_an_ending() -> None:
    assert {*PICTURES.values(), *VIDEOS.values(), "video/quicktime", "video/3gpp", "video/webm"} <= SUFFIXES.keys()
    every = [suffix for suffixes in SUFFIXES.values() for suffix in suffixes]
    assert len(every) == len(set(every))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.flv", "video"),
        ("dir/A.TS", "video"),
        ("https://host/a.WMV?at=3.png", "video"),
        ("a.3gp", "video"),
        ("a.JPEG", "image"),
        ("a.txt", ""),
        ("mp4", ""),
    ],
)
def test_names(name: str, kind: str) -> None:
    assert [word for word in ("image", "video") if named_as(word, name)] == ([kind] if kind else [])


@pytest.mark.parametrize(("suffix", "codec", "container"), CLIPS)
def test_a_clip_is_asked_about_and_written_with_its_ending(
    suffix: str, codec: str, container: str, tmp_path: Path
) -> None:
    pytest.importorskip("av", reason="the extra `video` is not installed")
    clip, said, out = tmp_path / f"clip.{suffix}", tmp_path / "said.json", tmp_path / "run"
    clip.write_bytes(clips.clip(codec, container, 12))
    said.write_text(json.dumps(["<answer>\\boxed{red}</answer>"]))
    spoken = ["--model", f"scripted:{said}", "--dialect", "pyvision-rl-video"]
    assert main(["ask", str(clip), "Which?", *spoken, "--out", str(out)]) == 0
    (kept,) = read_lines(out / "trajectories.jsonl", Trajectory)
    (named,) = kept.task.media
    assert isinstance(named.part, VideoPart)
    assert (named.name, named.part.frames) == (f"0-clip.{suffix}", 12)
    assert suffix_of(named.part.mime) == f".{suffix}"
    (tmp_path / "data").mkdir()
    written = MediaOut(MediaStore(out / "media"), tmp_path / "data").path(named.part)
    assert (tmp_path / "data" / written).suffix == f".{suffix}"


def test_a_broken_clip_is_called_a_video(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("av", reason="the extra `video` is not installed")
    (tmp_path / "cut.flv").write_bytes(b"FLV\x01" + bytes(80))
    assert main(["ask", str(tmp_path / "cut.flv"), "Which?", "--model", "scripted:none"]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "cut.flv" in printed
    assert "picture" not in printed
