"""Encoding with stated options; data URLs tell the true type."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.media import clips

from saccade.cli.main import main
from saccade.errors import DecodeError, MediaError, MissingMediaError, TooLargeError
from saccade.media.decode import MIME_TYPES as PICTURES
from saccade.media.decode import SUFFIXES, DecodeLimits, decode, decode_plain, mime_type, named_as, suffix_of
from saccade.media.store import EncodeOptions, MediaStore, data_url, encode
from saccade.media.video import MIME_TYPES as VIDEOS
from saccade.media.video import VideoLimits
from saccade.record.codec import read_lines
from saccade.record.content import ImagePart, VideoPart
from saccade.record.trajectory import Trajectory
from saccade.sandbox.base import LazyImage
from saccade.training.sft.formats.files import MediaOut


def gradient(mode: str = "RGBA") -> Image.Image:
    y, x = np.mgrid[0:40, 0:60]
    return Image.fromarray(np.stack([4 * x, 6 * y, x + y, 255 - 4 * x], axis=-1).astype(np.uint8)).convert(mode)


@pytest.mark.parametrize(
    "options", [EncodeOptions(compression=0), EncodeOptions(), EncodeOptions("WEBP", lossless=True)]
)
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_lossless(options: EncodeOptions, mode: str) -> None:
    image = gradient(mode)
    again = decode_plain(encode(image, options))
    wanted = image if again.mode == mode else image.convert(again.mode)  # WebP has no grey
    assert again.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("format", ["JPEG", "WEBP"])
def test_quality_costs_bytes(format: str) -> None:
    image = gradient("RGB")
    low, high = (encode(image, EncodeOptions(format, quality=quality)) for quality in (10, 95))  # type: ignore[arg-type]
    assert len(low) < len(high)
    assert np.abs(np.asarray(decode(high), int) - np.asarray(image, int)).mean() < 6


def test_jpeg_composites_transparency() -> None:
    clear = Image.new("RGBA", (16, 16), (0, 0, 0, 0))
    data = encode(clear, EncodeOptions("JPEG", background=(200, 100, 50)))
    assert np.abs(np.array(decode(data).getpixel((8, 8)), int) - (200, 100, 50)).max() <= 3


def test_same_picture_same_bytes_and_no_metadata() -> None:
    image = gradient("RGB")
    marked = image.copy()
    marked.info["dpi"] = (300, 300)
    marked.info["comment"] = "secret"
    for format in ("PNG", "JPEG", "WEBP"):
        options = EncodeOptions(format)  # type: ignore[arg-type]
        assert encode(image, options) == encode(image, options) == encode(marked, options)


def test_other_modes_are_made_plain() -> None:
    assert decode_plain(encode(gradient("P"))).mode in ("RGB", "RGBA")
    assert decode_plain(encode(Image.new("I;16", (4, 4), 65_535))).getpixel((0, 0)) == 255


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
def test_data_url_has_the_true_type(format: str) -> None:
    options = EncodeOptions(format)  # type: ignore[arg-type]
    url = data_url(encode(gradient("RGB"), options))
    head, _, body = url.partition(",")
    data = base64.b64decode(body, validate=True)
    assert head == f"data:image/{format.lower()};base64"
    assert mime_type(data) == f"image/{format.lower()}"


def test_what_a_format_cannot_hold() -> None:
    with pytest.raises(TooLargeError, match="use PNG"):
        encode(Image.new("L", (16_400, 1)), EncodeOptions("WEBP"))
    with pytest.raises(MediaError, match="holds nothing"):
        encode(Image.new("RGB", (0, 5)))


@pytest.mark.parametrize("change", [{"quality": 0}, {"quality": 101}, {"compression": 10}, {"format": "GIF"}])
def test_options_out_of_range(change: dict[str, object]) -> None:
    with pytest.raises(MediaError):
        EncodeOptions(**change)  # type: ignore[arg-type]


def noise(mode: str = "RGB", seed: int = 0) -> Image.Image:
    shape = (30, 40) if mode == "L" else (30, 40, len(mode))
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, np.uint8))


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "media")


def files(store: MediaStore) -> list[Path]:
    return sorted(path for path in store.root.rglob("*") if path.is_file())


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_a_picture_comes_back_exactly(store: MediaStore, mode: str) -> None:
    image = noise(mode)
    part = store.put_image(image)
    again = store.open(part).decode()
    assert (part.width, part.height, part.mode, part.mime) == (40, 30, mode, "image/png")
    assert (again.mode, again.size, again.tobytes()) == (image.mode, image.size, image.tobytes())
    assert part in store
    assert part.sha256 in store


def test_other_modes_are_made_plain_store(store: MediaStore) -> None:
    assert store.put_image(noise().convert("P")).mode == "RGB"
    assert store.put_image(noise().convert("1")).mode == "L"
    assert store.put_image(noise().convert("CMYK")).mode == "RGB"


def test_an_opened_picture_is_what_the_sandbox_calls_a_lazy_image(store: MediaStore) -> None:
    stored = store.open(store.put_image(noise()))
    assert isinstance(stored, LazyImage)
    assert (stored.width, stored.height) == stored.decode().size


def test_encoded_bytes_are_kept_as_they_are(store: MediaStore) -> None:
    out = BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    noise().save(out, "JPEG", exif=exif)
    part = store.put_bytes(out.getvalue())
    assert part.sha256 == hashlib.sha256(out.getvalue()).hexdigest()
    assert (part.width, part.height, part.mime) == (30, 40, "image/jpeg")
    assert store.get_bytes(part.sha256) == out.getvalue()
    assert store.open(part).decode().size == (30, 40)


def test_the_same_picture_is_stored_once(store: MediaStore) -> None:
    assert store.put_image(noise()) == store.put_image(noise())
    assert len(files(store)) == 1
    assert store.put_image(noise(seed=1)) != store.put_image(noise())
    assert len(files(store)) == 2


def test_what_is_no_picture_is_not_stored(store: MediaStore) -> None:
    with pytest.raises(DecodeError):
        store.put_bytes(b"no picture")
    small = MediaStore(store.root, limits=DecodeLimits(pixels=100))
    with pytest.raises(TooLargeError):
        small.put_bytes(store.get_bytes(store.put_image(noise()).sha256))
    assert len(files(store)) == 1


def test_missing_and_malformed_names(store: MediaStore) -> None:
    with pytest.raises(MissingMediaError, match="holds no"):
        store.get_bytes("a" * 64)
    with pytest.raises(MissingMediaError, match="holds no"):
        store.open(ImagePart(sha256="a" * 64, width=1, height=1))
    for name in ("../../etc/passwd", "A" * 64, "a" * 63, "", "a" * 64 + "\n"):
        with pytest.raises(MediaError, match="no sha256"):
            store.get_bytes(name)
    with pytest.raises(MissingMediaError, match="holds no aaaa"):
        store.source("a" * 64)


def test_damage_is_noticed_when_asked_and_mended_by_putting_again(store: MediaStore) -> None:
    data = b"0123456789"
    name = store.put_blob(data)
    store.path(name).write_bytes(b"0123456780")
    verifying = MediaStore(store.root, verify=True)
    with pytest.raises(MediaError, match="damaged"):
        verifying.get_bytes(name)
    verifying.put_blob(data)
    assert verifying.get_bytes(name) == data


def test_a_store_that_is_not_there_yet_is_empty(store: MediaStore) -> None:
    assert "a" * 64 not in store
    assert store.sweep() == 0
    assert not store.root.exists()


def test_threads_that_write_the_same_pictures(store: MediaStore) -> None:
    blobs = [bytes([index]) * 20_000 for index in range(20)]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for blob in blobs:
                assert store.get_bytes(store.put_blob(blob)) == blob
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(files(store)) == len(blobs)


WRITER = """
import sys
from saccade.media.store import MediaStore
from saccade.media.video import VideoLimits
store = MediaStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for index in range(40):
    blob = bytes([index]) * 50_000
    assert store.get_bytes(store.put_blob(blob)) == blob
"""


def test_two_processes_that_write_the_same_pictures(store: MediaStore) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(store.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.communicate("go\n", timeout=60)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert len(files(store)) == 40
    verifying = MediaStore(store.root, verify=True)
    for path in files(store):
        verifying.get_bytes(path.name)


# The process kills itself with SIGKILL where a crash hurts most: everything is written, nothing renamed.
CRASHING_WRITER = """
import os, signal, sys
from saccade.media import store as module
def crash(*names):
    os.kill(os.getpid(), signal.SIGKILL)
module.os.replace = crash
module.MediaStore(sys.argv[1]).put_blob(b"x" * 100_000)
"""


def test_kill_between_write_and_rename(store: MediaStore) -> None:
    run = subprocess.run([sys.executable, "-c", CRASHING_WRITER, str(store.root)], check=False, timeout=60)
    assert run.returncode == -signal.SIGKILL
    blob = b"x" * 100_000
    name = hashlib.sha256(blob).hexdigest()
    assert name not in store
    assert len(files(store)) == 1, "the writer left its temporary file"
    assert store.sweep() == 0, "a young temporary file may still be written"
    assert store.put_blob(blob) == name
    assert store.sweep(older_than_seconds=0) == 1
    assert files(store) == [store.path(name)]
    assert store.get_bytes(name) == blob


def test_failed_write_leaves_nothing(store: MediaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("saccade.media.store.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.put_blob(b"data")
    assert files(store) == []


def test_a_file_of_a_video_is_copied_whole_or_not_at_all(store: MediaStore, tmp_path: Path) -> None:
    clip = tmp_path / "clip.gif"
    frames = [noise(seed=number) for number in range(4)]
    frames[0].save(clip, save_all=True, append_images=frames[1:], duration=100)
    size = clip.stat().st_size
    part = store.put_video(clip, limits=VideoLimits(data_bytes=size))
    assert store.get_bytes(part.sha256) == clip.read_bytes()
    assert store.put_video(clip.read_bytes()) == part
    assert (part.width, part.height, part.mime) == (40, 30, "image/gif")
    assert files(store) == [store.path(part.sha256)]
    with pytest.raises(TooLargeError, match=f"more than {size - 1:,} bytes"):
        store.put_video(clip, limits=VideoLimits(data_bytes=size - 1))
    with pytest.raises(MediaError, match=r"none\.mp4 cannot be read: .*No such file"):
        store.put_video(tmp_path / "none.mp4")
    (tmp_path / "text.mp4").write_bytes(b"no video")
    with pytest.raises(MediaError):
        store.put_video(tmp_path / "text.mp4")
    assert files(store) == [store.path(part.sha256)]


@pytest.mark.parametrize("change", [{"width": 41}, {"height": 31}, {"mode": "L"}])
def test_a_record_must_say_size_and_mode(store: MediaStore, change: dict[str, object]) -> None:
    part = store.put_image(noise())
    with pytest.raises(MediaError, match="its record says"):
        store.open(part.model_copy(update=change)).decode()


def test_two_digits_name_the_folder_and_what_is_there_is_not_written_again(store: MediaStore) -> None:
    name = store.put_blob(b"0123456789")
    assert store.path(name) == store.root / name[:2] / name
    before = store.path(name).stat().st_ino
    assert store.put_blob(b"0123456789") == name
    assert store.path(name).stat().st_ino == before
    store.path(name).write_bytes(b"0123456780")
    store.put_blob(b"0123456789")
    assert store.get_bytes(name) == b"0123456780"  # the size is right; only a verifying store looks at every byte
    verifying = MediaStore(store.root, verify=True)
    assert verifying.put_blob(b"0123456789") == name
    assert store.get_bytes(name) == b"0123456789"


def test_everything_is_on_the_disk_before_it_has_its_name(store: MediaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    def note(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        synced.append("folder" if path.is_dir() else f"{path.parent.name}: {path.read_bytes()!r}")

    monkeypatch.setattr("saccade.media.store.os.fsync", note)
    store.put_blob(b"data")
    assert synced == ["partial: b'data'", "folder"]


@pytest.mark.parametrize(("mode", "mime"), [("RGB", "image/jpeg"), ("RGBA", "image/png")])
def test_a_smaller_picture_keeps_its_transparency(tmp_path: Path, mode: str, mime: str) -> None:
    store = MediaStore(tmp_path)
    large = store.put_image(Image.new(mode, (80, 60)))
    small = store.put_smaller(large, 1200)
    assert (small.mime, small.width, small.height) == (mime, 40, 30)
    assert mime_type(store.get_bytes(small.sha256)) == mime


def test_a_video_is_on_the_disk_before_it_has_its_name(
    store: MediaStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = tmp_path / "clip.gif"
    noise().save(clip, save_all=True, append_images=[noise(seed=1)], duration=100)
    full = clip.read_bytes()
    synced: list[str | bytes] = []

    def note(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        synced.append("folder" if path.is_dir() else path.read_bytes())

    monkeypatch.setattr("saccade.media.store.os.fsync", note)
    store.put_video(clip)
    assert synced == [full, "folder"]


def test_a_file_is_stored_as_its_bytes_are(store: MediaStore, tmp_path: Path) -> None:
    noise("RGBA").save(tmp_path / "a.webp", lossless=True)
    data = (tmp_path / "a.webp").read_bytes()
    part = store.put_file(tmp_path / "a.webp")
    assert part == store.put_file(str(tmp_path / "a.webp")) == store.put_bytes(data)
    assert (part.width, part.height, part.mode, part.mime) == (40, 30, "RGBA", "image/webp")
    assert part.sha256 == hashlib.sha256(data).hexdigest()
    assert files(store) == [store.path(part.sha256)]
    assert store.get_bytes(part.sha256) == data


def test_of_a_file_that_cannot_be_stored_nothing_is_left(store: MediaStore, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"x" * 500)
    with pytest.raises(DecodeError):
        store.put_file(tmp_path / "bad.png")
    with pytest.raises(TooLargeError, match=r"bad\.png has more than 499 bytes\. .* or raise media\.max_bytes\.$"):
        store.limited(DecodeLimits(data_bytes=499)).put_file(tmp_path / "bad.png")
    with pytest.raises(MediaError, match=r"none\.png cannot be read: No such file or directory\. Check the path\.$"):
        store.put_file(tmp_path / "none.png")
    assert files(store) == []


def test_what_decoders_read_is_verified_where_asked(store: MediaStore) -> None:
    part = store.put_image(noise())
    assert store.source(part.sha256) == store.path(part.sha256)
    verifying = MediaStore(store.root, verify=True)
    assert verifying.source(part.sha256) == store.get_bytes(part.sha256)
    store.path(part.sha256).write_bytes(b"damaged")
    with pytest.raises(MediaError, match="is damaged: delete it and put the same media again"):
        verifying.source(part.sha256)
    assert (verifying.limited(DecodeLimits(pixels=7)).verify, store.limited(DecodeLimits(pixels=7)).verify) == (
        True,
        False,
    )


def test_only_what_is_old_is_swept_and_a_file_that_goes_meanwhile_is_not_counted(
    store: MediaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store.root / "partial"
    folder.mkdir(parents=True)
    now = time.time()
    monkeypatch.setattr("saccade.media.store.time.time", lambda: now)
    for name, age in (("new", 3_599), ("old", 3_600), ("older", 9_000), ("gone", 9_000)):
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (now - age, now - age))
    unlink = Path.unlink

    def racing(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        if path.name == "gone":
            unlink(path)  # as if another process had been first

    monkeypatch.setattr(Path, "unlink", racing)
    assert store.sweep() == 2
    assert sorted(path.name for path in folder.iterdir()) == ["new"]
    assert store.sweep(3_599) == 1


def test_a_store_of_a_relative_folder_is_read_by_a_process_that_works_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = MediaStore("media")
    part = store.put_image(Image.new("RGB", (3, 2), "red"))
    sent = pickle.dumps(store)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert pickle.loads(sent).get_bytes(part.sha256)


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
