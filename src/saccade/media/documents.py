"""Tells files by their first bytes, and turns the pages of documents into pictures: PDF by PDFium, TIFF by Pillow.

HEIC, the pictures of telephones, is read by Pillow with the extra `heic`, PDF with the extra `pdf`. What no library
here reads is named, with what to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any, Final

from PIL import Image

from saccade.core.plugins import install
from saccade.errors import DecodeError, MediaError, TooLargeError, UnavailableError

Source = bytes | Path
_HEAD: Final = 4096
_POINTS: Final = 72
"""Per inch, the unit of a PDF."""
_HEIC: Final = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs")
_HEIF: Final = (*_HEIC, b"mif1", b"mif2", b"msf1")

_NOT_READ: Final[tuple[tuple[str, str, str], ...]] = (
    (
        r"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*|<!--.*?-->\s*|<!DOCTYPE svg.*?>\s*)*<(svg:)?svg[\s>]",
        "SVG",
        "It is a drawing without a size in pixels: export it as PNG, as with `rsvg-convert drawing.svg -o a.png`",
    ),
    (r"\x1f\x8b", "compressed by gzip (as .svgz is)", "Unpack it; export an SVG as PNG"),
    (r"\xff\x0a|\x00\x00\x00\x0cJXL \r\n", "JPEG XL", "Convert it to PNG, as with `djxl a.jxl a.png`"),
    (r"8BPS", "Photoshop", "Export it as PNG"),
    (r"%!PS|\xc5\xd0\xd3\xc6", "PostScript", "Convert it to PDF, as with `ps2pdf`, or to PNG"),
    (r"PK\x03\x04", "an archive, as the documents of offices are", "Export the document as PDF, or unpack the archive"),
    (r"\xd0\xcf\x11\xe0", "a document of an older office program", "Export it as PDF"),
    (r"\{\\rtf", "RTF", "Export it as PDF"),
    (r".{128}DICM", "DICOM", "Export its pictures as PNG"),
    (r"(\xef\xbb\xbf)?\s*<(!doctype )?html", "a page of the web", "Save the picture that the page shows"),
    (r"version https://git-lfs", "a pointer of Git LFS and not the file", "Fetch the file with `git lfs pull`"),
)
"""Beginning of a file -> what it is, and what to do."""


def kind(head: bytes) -> str:
    """Return `pdf`, `heic`, or an empty text for everything else, from the first bytes of a file."""
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head[4:8] == b"ftyp" and head[8:12] in _HEIF:
        brands = head[16 : int.from_bytes(head[:4], "big")]
        compatible = {brands[at : at + 4] for at in range(0, len(brands), 4)}
        avif = head[8:12] not in _HEIC and b"avif" in compatible and not compatible.intersection(_HEIC)
        return "" if avif else "heic"
    return ""


def refusal(head: bytes) -> str:
    """Return what a file is that is not read, and what to do about it; empty if its first bytes say nothing."""
    if kind(head) == "pdf":
        return "it is a PDF, and one picture was asked for. Save the page that is meant as PNG."
    text = head[:_HEAD].decode("latin-1")
    for beginning, name, advice in _NOT_READ:
        if re.match(beginning, text, re.DOTALL | re.IGNORECASE):
            return f"it is {name}, which is not read here. {advice}."
    return ""


def first_bytes(data: Source) -> bytes:
    """Return the beginning of a file. Raises `MediaError` if it cannot be read."""
    if isinstance(data, bytes):
        return data[:_HEAD]
    try:
        with data.open("rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise MediaError(f"{data} cannot be read: {error.strerror or error}. Check the path.") from error


_registered = False


def load_heic() -> None:
    """Teach Pillow to read HEIC. Raises `UnavailableError` without the extra `heic`."""
    global _registered
    if _registered:
        return
    try:
        import pillow_heif
    except ImportError as error:
        raise UnavailableError(
            f"it is a HEIC picture, which needs pillow-heif: {install('heic')}. Or convert it to JPEG."
        ) from error
    pillow_heif.register_heif_opener(thumbnails=False)
    _registered = True


_pdfium = Lock()
"""PDFium may be called by one thread at a time."""


def pdf_pages(data: Source, *, most: int, dpi: int, pixels: int) -> Iterator[Image.Image]:
    """Yield the pages of a PDF as they are printed, filled-in forms included, as RGB at `dpi` dots per inch.

    Raises:
        UnavailableError: the extra `pdf` is not installed.
        DecodeError: it is broken, has no pages, or asks for a password.
        TooLargeError: it has more pages than `most`, or one has more than `pixels` pixels.
    """
    try:
        import pypdfium2
    except ImportError as error:
        raise UnavailableError(
            f"it is a PDF, which needs pypdfium2: {install('pdf')}. Or save its pages as PNG."
        ) from error
    try:
        with _pdfium:
            document = pypdfium2.PdfDocument(data)
            document.init_forms()
            pages = len(document)
    except pypdfium2.PdfiumError as error:
        locked = "assword" in str(error)
        advice = "It asks for a password: save it without one." if locked else "Get it again from its source."
        raise DecodeError(f"the PDF cannot be opened: {error} {advice}") from error
    try:
        if not pages:
            raise DecodeError("the PDF has no pages. Get it again from its source.")
        check_pages(pages, most)
        for number in range(pages):
            with _pdfium:
                image = _rendered(document, number, dpi, pixels)
            yield image
    finally:
        with _pdfium:
            document.close()


def _rendered(document: Any, number: int, dpi: int, pixels: int) -> Image.Image:
    import pypdfium2

    try:
        page = document[number]
        width, height = (side * dpi / _POINTS for side in page.get_size())
        if width * height > pixels:
            raise TooLargeError(
                f"page {number + 1} has {width:.0f}x{height:.0f} pixels at {dpi} dots per inch: over the limit of "
                f"{pixels:,}. Ask for fewer (media.pdf_dpi)."
            )
        bitmap = page.render(scale=dpi / _POINTS)
        image: Image.Image = bitmap.to_pil().convert("RGB")
    except pypdfium2.PdfiumError as error:
        raise DecodeError(f"page {number + 1} of the PDF cannot be drawn: {error} Save the file again.") from error
    bitmap.close()
    page.close()
    return image


def check_pages(pages: int, most: int) -> None:
    """Raise `TooLargeError` for more pages than `most`."""
    if pages > most:
        raise TooLargeError(
            f"it has {pages:,} pages, over the limit of {most:,}. Give those that matter, or raise the limit "
            "(media.pages)."
        )
