"""Turn the pages of a PDF into pictures, by PDFium (extra `pdf`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any, Final

from PIL import Image

from saccade.core.registry import install
from saccade.errors import DecodeError, TooLargeError, UnavailableError
from saccade.media.decode import check_pages

Source = bytes | Path
_POINTS: Final = 72
"""Per inch, the unit of a PDF."""

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
