"""The default and the bounds of every limit, as docs/sandbox.md and the papers' recipes rely on them."""

from __future__ import annotations

from tests.schema_numbers import numbers_of_models

NUMBERS = """
wall_seconds default 20.0, exclusiveMinimum 0, maximum 86400
cpu_seconds default 20, exclusiveMinimum 0, maximum 86400
memory_bytes default 2147483648, minimum 67108864
processes default 32, maximum 4096, minimum 4
open_files default 256, maximum 65536, minimum 128
file_bytes default 67108864, minimum 0
workspace_bytes default 134217728, minimum 1048576
workspace_files default 2048, minimum 16
output_bytes default 1048576, maximum 67108864, minimum 1024
pictures default 16, maximum 1024, minimum 0
picture_pixels default 12800000, minimum 1024
total_pixels default 64000000, minimum 1024
"""


def test_the_numbers_of_every_limit() -> None:
    lines = [line.split(" ", 1) for line in NUMBERS.strip().splitlines()]
    expected = [f"Limits {name} {number}" for name, numbers in lines for number in numbers.split(", ")]
    assert numbers_of_models(["saccade.sandbox.limits"]) == expected
