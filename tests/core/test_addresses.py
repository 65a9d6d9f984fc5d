"""What is the address of a server, and what is none."""

import pytest

from saccade.core.http import checked_address
from saccade.errors import SettingsError


def checked(address: str) -> str:
    return checked_address(address, "the engine's", 8000, "a key goes into THERE")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ftp://engine", "must look like http://host:port"),
        ("engine:8000", "must look like .* Example: http://127.0.0.1:8000"),
        ("", "must look like"),
        ("http://", "must look like"),
        ("http://[", "must look like"),
        ("http://a b", "must look like"),
        ("http://engine:1?key=x", "must look like"),
        ("http://engine:1/#x", "must look like"),
        ("http://engine:port", "the engine's address cannot be read"),
        ("http://engine:80000", "ports are 1 to 65535"),
        ("http://engine:0", "ports are 1 to 65535"),
    ],
)
def test_what_is_none(address: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        checked(address)


def test_a_secret_in_it_is_not_said_again() -> None:
    with pytest.raises(SettingsError, match="a key goes into THERE") as raised:
        checked("http://me:secret@engine:1")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("https://engine/", "https://engine"),
        ("http://engine:1/v1", "http://engine:1/v1"),
        ("http://[fe80::1%25eth0]:8000", "http://[fe80::1%25eth0]:8000"),
    ],
)
def test_what_is_meant(address: str, meant: str) -> None:
    assert checked(address) == meant
