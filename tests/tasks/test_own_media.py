"""What a user brings as pictures and videos: every kind that is taken, every mistake named by the user's own name."""

from __future__ import annotations

import http.server
import io
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.media import clips

from saccade.errors import DecodeError, MediaError, SaccadeError, SettingsError, TooLargeError
from saccade.media.decode import OwnMediaSettings
from saccade.media.store import MediaStore
from saccade.tasks.media import brought, take, task_from_files

USUAL = OwnMediaSettings()


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "media")


def encoded(image: Image.Image, format_: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format_, **options)
    return file.getvalue()


def photo() -> Image.Image:
    image = Image.new("RGB", (6, 4), "blue")
    image.putpixel((0, 0), (255, 0, 0))
    return image


def seen(media: Any, store: MediaStore) -> Image.Image:
    part = take(media, store, USUAL).parts[0]
    return store.open(part).decode()


def test_a_path_as_text_and_as_path_bytes_an_image_and_an_array_are_one_picture(
    tmp_path: Path, store: MediaStore
) -> None:
    path = tmp_path / "photo.png"
    photo().save(path)
    given = [str(path), path, path.read_bytes(), photo(), np.asarray(photo()), np.asarray(photo()) / 255.0]
    for media in given:
        picture = seen(media, store)
        assert (picture.mode, picture.size) == ("RGB", (6, 4))
        assert picture.tobytes() == photo().tobytes()
    task = task_from_files("Which?", given, store)
    assert [item.name for item in task.media] == [
        *("0-photo.png", "1-photo.png", "2-picture", "3-picture", "4-array", "5-array")
    ]


@pytest.mark.parametrize(
    ("array", "mode"),
    [
        (np.zeros((4, 6), np.uint8), "L"),
        (np.zeros((4, 6, 1), np.uint8), "L"),
        (np.ones((4, 6), np.bool_), "L"),
        (np.zeros((4, 6, 4), np.uint8), "RGBA"),
        (np.ones((4, 6, 3), np.float32), "RGB"),
    ],
)
def test_arrays_of_pictures(array: Any, mode: str, store: MediaStore) -> None:
    picture = seen(array, store)
    assert (picture.mode, picture.size) == (mode, (6, 4))


@pytest.mark.parametrize(
    ("media", "says"),
    [
        (3, "builtins.int"),
        (None, "NoneType"),
        (np.zeros((2, 3, 4, 3), np.uint8), "shape (2, 3, 4, 3)"),
        (np.full((4, 6), 900, np.uint16), "values from 900 to 900"),
        (np.zeros((4, 0, 3), np.uint8), "shape (4, 0, 3)"),
        (np.full((4, 6), 1.5), "values from 1.5 to 1.5"),
    ],
)
def test_other_types_are_named_with_what_is_taken(media: Any, says: str, store: MediaStore) -> None:
    with pytest.raises(SettingsError, match=re.escape(says)) as caught:
        take(media, store, USUAL)
    assert "PIL images" in str(caught.value)


def test_turned_deep_and_many_paged_pictures_are_right_or_said(tmp_path: Path, store: MediaStore) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn to the right
    turned = encoded(photo(), "TIFF", exif=exif)
    assert seen(turned, store).size == (4, 6)
    assert seen(Image.open(io.BytesIO(encoded(photo(), "PNG", exif=exif))), store).size == (4, 6)
    deep = Image.fromarray(np.array([[0, 65_535], [32_768, 257]], np.uint16))
    assert np.asarray(seen(encoded(deep, "TIFF"), store)).tolist() == [[0, 255], [128, 1]]
    inks = Image.new("CMYK", (2, 2), (0, 255, 255, 0))
    assert seen(encoded(inks, "TIFF"), store).getpixel((0, 0)) == (255, 0, 0)
    assert seen(encoded(photo().convert("P"), "PNG"), store).mode == "RGB"
    path = tmp_path / "scan.tif"
    path.write_bytes(encoded(photo(), "TIFF", save_all=True, append_images=[photo(), photo()]))
    assert len(take(path, store, USUAL).parts) == 3
    named = task_from_files("Which?", [path, photo()], store).media
    assert [item.name for item in named] == [*(f"{at}-scan.tif, page {at + 1}" for at in range(3)), "3-picture"]


@pytest.mark.parametrize("format_", ["GIF", "WEBP", "PNG"])
def test_an_animation_is_a_video(format_: str, store: MediaStore) -> None:
    if format_ == "PNG":
        pytest.importorskip("av", reason="the extra `video` is not installed")
    frames = [Image.new("RGB", (16, 16), (shade, 0, 0)) for shade in (0, 90, 180)]
    part = take(encoded(frames[0], format_, save_all=True, append_images=frames[1:], duration=500), store, USUAL).parts[
        0
    ]
    assert part.frames == 3


def test_a_video_is_known_by_its_bytes(tmp_path: Path, store: MediaStore) -> None:
    pytest.importorskip("av", reason="the extra `video` is not installed")
    for name, codec, container in (
        ("a.flv", "flv1", "flv"),
        ("a.ts", "mpeg2video", "mpegts"),
        ("a.wmv", "wmv2", "asf"),
        ("a.3gp", "mpeg4", "3gp"),
        ("no-suffix", "libx264", "mp4"),
    ):
        path = tmp_path / name
        path.write_bytes(clips.clip(codec, container, 12))
        taken = take(path, store, USUAL)
        assert (taken.name, taken.parts[0].frames) == (name, 12)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("cut.jpg", b"\xff\xd8\xff\xe0" + b"x" * 60, "is no picture that can be used"),
        ("notes.png", b"not a picture", "is no picture that can be used"),
        ("empty.png", b"", "is no picture that can be used"),
        ("cut.mp4", b"\0\0\0\x20ftypisom" + b"x" * 60, "cannot be read as a video"),
        ("empty.mp4", b"", "the file is empty"),
        ("notes.txt", b"some words\n" * 9, "is neither a picture of a known format"),
    ],
)
def test_a_broken_file_is_called_by_the_users_name(
    name: str, data: bytes, says: str, tmp_path: Path, store: MediaStore
) -> None:
    pytest.importorskip("av", reason="the extra `video` is not installed")
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DecodeError, match=says) as caught:
        take(path, store, USUAL)
    assert str(caught.value).startswith(str(path))
    assert "partial" not in str(caught.value)


def test_what_is_not_there(tmp_path: Path, store: MediaStore) -> None:
    with pytest.raises(MediaError, match=r"no\.png cannot be read: No such file"):
        take(tmp_path / "no.png", store, USUAL)
    with pytest.raises(MediaError, match="it is a folder"):
        take(tmp_path, store, USUAL)
    with pytest.raises(SettingsError, match="the question is empty"):
        task_from_files(" \n", [], store)


def test_limits_are_named_with_the_file_and_the_numbers(tmp_path: Path, store: MediaStore) -> None:
    path = tmp_path / "photo.png"
    photo().save(path)
    few = OwnMediaSettings(max_pixels=23)
    for media, name in ((path, str(path)), (photo(), "picture"), (np.asarray(photo()), "the array")):
        with pytest.raises(
            TooLargeError, match=r"6x4 pixels, 24 in all: over the limit of 23\..*media\.max_pixels"
        ) as e:
            brought("Which?", [media], store, settings=few)
        assert str(e.value).startswith(name)
    with pytest.raises(TooLargeError, match=r"photo\.png.*10 bytes.*media\.max_bytes"):
        brought("Which?", [path], store, settings=OwnMediaSettings(max_bytes=10))
    assert [item for item in (tmp_path / "media").rglob("*") if item.is_file()] == []


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves one picture in the ways that servers do."""

    def do_GET(self) -> None:
        data = encoded(photo(), "PNG")
        if self.path.startswith("/elsewhere"):
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1/a.png")
            self.end_headers()
            return
        if self.path.startswith("http://8.8.8.8/"):  # asked as a proxy
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("http://8.8.8.8/"))
            self.end_headers()
            return
        if self.path.startswith("/missing"):
            self.send_error(404)
            return
        self.send_response(200)
        if "unsaid" not in self.path:
            self.send_header("Content-Length", str(len(data) + 9 * ("short" in self.path)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


@pytest.fixture
def web() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_addresses_are_downloaded_when_that_is_allowed(web: str, store: MediaStore) -> None:
    with pytest.raises(SettingsError, match="nothing is downloaded unless you allow it: --allow-urls"):
        take(f"{web}/a/photo%201.png?size=1", store, USUAL)
    allowed = OwnMediaSettings(allow_urls=True)
    for path in ("/a/photo%201.png?size=1", "/unsaid/photo%201.png"):
        taken = take(web + path, store, allowed)
        assert (taken.name, taken.parts[0].width) == ("photo 1.png", 6)


@pytest.mark.parametrize(
    ("path", "settings", "says"),
    [
        ("/missing.png", {}, "404"),
        ("/elsewhere.png", {}, "leads to ftp:"),
        ("/short.png", {}, "broke off"),
        (
            "/photo.png",
            {"url_bytes": 20},
            r"87 bytes or more, over the limit of 20\. Raise media\.url_bytes\.$",
        ),
        ("/unsaid.png", {"url_bytes": 20}, r"over the limit of 20\. Raise media\.url_bytes\.$"),
        ("/unsaid.png", {"url_seconds": 1e-9}, "cannot be had|was not there"),
    ],
)
def test_a_download_that_fails_says_why(
    path: str, settings: dict[str, Any], says: str, web: str, store: MediaStore
) -> None:
    with pytest.raises(SaccadeError, match=says) as caught:
        take(web + path, store, OwnMediaSettings(allow_urls=True, **settings))
    assert str(caught.value).startswith(web)


@pytest.mark.parametrize("inside", ["http://127.0.0.1:1/a.png", "http://169.254.169.254/", "http://[::1]/a.png"])
def test_nobody_outside_leads_into_a_private_network(
    inside: str, web: str, store: MediaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", web)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(MediaError, match="which is in a private network"):
        take(f"http://8.8.8.8/{inside}", store, OwnMediaSettings(allow_urls=True))


def test_nobody_listens(store: MediaStore) -> None:
    with pytest.raises(MediaError, match=r"http://127.0.0.1:9/a\.png cannot be had"):
        take("http://127.0.0.1:9/a.png", store, OwnMediaSettings(allow_urls=True))
