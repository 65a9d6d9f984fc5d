"""List units of measure: their spellings, and factors to the first unit of each dimension.

A unit that is not listed is compared by its word only. Money of different currencies is never converted. The table is
our own: `pint` lacks 22 of its 138 spellings, takes `cat`, `pin` and `circle` for units, and needs half a second to
start.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

ORDINAL: Final = "ordinal"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit, as a multiple of the first one of its dimension."""

    dimension: str
    factor: Fraction


_TABLE: Final = {
    "length": {
        "m meter metre meters metres": "1",
        "mm millimeter millimetre millimeters millimetres": "1/1000",
        "cm centimeter centimetre centimeters centimetres": "1/100",
        "dm decimeter decimetre decimeters decimetres": "1/10",
        "km kilometer kilometre kilometers kilometres": "1000",
        "in inch inches": "0.0254",
        "ft foot feet": "0.3048",
        "yd yard yards": "0.9144",
        "mi mile miles": "1609.344",
    },
    "mass": {
        "kg kilogram kilograms": "1",
        "g gram grams": "1/1000",
        "mg milligram milligrams": "1/1000000",
        "lb lbs": "0.45359237",
        "oz ounce ounces": "0.028349523125",
    },
    "time": {
        "s sec secs second seconds": "1",
        "ms millisecond milliseconds": "1/1000",
        "min mins minute minutes": "60",
        "h hr hrs hour hours": "3600",
        "day days": "86400",
        "week weeks": "604800",
    },
    "volume": {
        "l liter litre liters litres": "1",
        "ml milliliter millilitre milliliters millilitres": "1/1000",
    },
    "area": {
        "m² sqm": "1",
        "cm²": "1/10000",
        "mm²": "1/1000000",
        "km²": "1000000",
        "in²": "0.00064516",
        "ft² sqft": "0.09290304",
    },
    "cubic": {"m³": "1", "cm³": "1/1000000", "mm³": "1/1000000000", "in³": "0.000016387064"},
    "angle": {"° deg degs degree degrees": "1"},
    "temperature": {"°c celsius": "1"},
    "fahrenheit": {"°f fahrenheit": "1"},
    "percent": {"% percent pct percentage": "1"},
    "dollar": {"$ dollar dollars usd": "1", "¢ cent cents": "1/100"},
    "euro": {"€ euro euros eur": "1"},
    "pound": {"£ pound pounds gbp": "1"},
    "yen": {"¥ yen jpy": "1"},
    "year": {"year years yr yrs": "1", "month months": "1/12"},
    "pixel": {"px pixel pixels": "1"},
    ORDINAL: {"st nd rd th": "1"},
}
_UNITS: Final = {
    name: Unit(dimension, Fraction(factor))
    for dimension, rows in _TABLE.items()
    for names, factor in rows.items()
    for name in names.split()
}
SCALES: Final = {
    "hundred": 100,
    "dozen": 12,
    "thousand": 1_000,
    "million": 1_000_000,
    "billion": 1_000_000_000,
    "trillion": 1_000_000_000_000,
    "mn": 1_000_000,
    "bn": 1_000_000_000,
}
ATTACHED_SCALES: Final = {"K": 1_000, "k": 1_000, "M": 1_000_000, "B": 1_000_000_000, "T": 1_000_000_000_000}
"""Read only where they follow the digits at once: `5M` is five million, `5 m` five metres."""


def unit_named(word: str) -> Unit:
    """The unit that `word` names; an unknown word is a dimension of its own, singular and plural alike."""
    word = word.casefold()
    known = _UNITS.get(word)
    if known is not None:
        return known
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 2 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return Unit(f"word:{word}", Fraction(1))


def is_known(word: str) -> bool:
    """Whether `word` is in the table."""
    return word.casefold() in _UNITS
