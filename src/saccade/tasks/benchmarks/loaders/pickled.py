"""Pickled lists of rows, as GeoQA, GeoQA+ and UniGeo publish theirs: a picture is an array of numbers in its row.

A pickle can name any function to be called when it is read. Here nothing is called but what makes arrays of numbers;
a file that names anything else is refused, and so are arrays of objects.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy
from PIL import Image

from saccade.errors import DataError
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.loaders.base import first_match
from saccade.tasks.benchmarks.row_files import SourceRow
from saccade.tasks.benchmarks.values import FieldError, RowProblem

_ARRAYS: Final = {
    (f"numpy.{core}.{module}", name)
    for core in ("core", "_core")
    for module, name in (("multiarray", "_reconstruct"), ("multiarray", "scalar"), ("numeric", "_frombuffer"))
}
_ALLOWED: Final = _ARRAYS | {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}


class _Rows(pickle.Unpickler):
    """Reads rows and arrays, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which rows of pictures and texts need not")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


class PickledRows:
    """Reads such files; the array `image` of a row becomes a picture."""

    def find(self, folder: Path, card: Card) -> tuple[Path, ...]:
        return first_match(folder, card.loader.files)

    def rows(self, files: tuple[Path, ...]) -> Iterator[SourceRow | RowProblem]:
        for file in files:
            place = {"_file": file.stem, "_folder": file.parent.name, "_above": file.parent.parent.name}
            for number, row in enumerate(_read(file)):
                if not isinstance(row, Mapping):
                    yield RowProblem(file.name, number, "row", "it is no table of fields")
                    continue
                try:
                    fields = {**row, "image": _picture(row.get("image")), "_row": number, **place}
                except FieldError as error:
                    yield RowProblem(file.name, number, error.field, error.reason)
                    continue
                yield SourceRow(file.name, number, fields)

    def count(self, files: tuple[Path, ...]) -> int:
        return sum(len(_read(file)) for file in files)


def _read(file: Path) -> list[Any]:
    try:
        with file.open("rb") as data:
            rows = _Rows(data, encoding="latin1").load()
    except Exception as error:  # a broken pickle can raise anything
        raise DataError(f"{file} is not read: {error}. Download it again, or convert it to JSON lines.") from error
    if not isinstance(rows, list):
        raise DataError(f"{file} holds no list of rows. Name another file.")
    return rows


def _picture(value: object) -> object:
    if not isinstance(value, numpy.ndarray):
        return value
    if (
        value.dtype.kind not in "uif"
        or value.ndim not in (2, 3)
        or (value.ndim == 3 and value.shape[2] not in (1, 3, 4))
    ):
        raise FieldError("images", f"an array {value.shape} of {value.dtype} is no picture")
    if value.dtype.kind == "f" and not numpy.isfinite(value).all():
        raise FieldError("images", "the picture has numbers that are none")
    plain = numpy.clip(value, 0, 255).astype(numpy.uint8)
    return Image.fromarray(plain[:, :, 0] if plain.ndim == 3 and plain.shape[2] == 1 else plain)


PICKLED = PickledRows()
