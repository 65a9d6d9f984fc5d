"""The guards of conftest.py hold."""

import os
import random
import socket

import numpy as np
import pytest


def test_network_beyond_this_machine_is_refused() -> None:
    with socket.socket() as sock, pytest.raises(RuntimeError, match="loopback"):
        sock.connect(("192.0.2.1", 9))
    with pytest.raises(RuntimeError, match="loopback"):
        socket.getaddrinfo("example.invalid", 80)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(RuntimeError, match="loopback"):
        sock.sendto(b"x", ("192.0.2.1", 9))


def test_loopback_works() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        peer, _ = server.accept()
        with peer:
            client.sendall(b"look")
            assert peer.recv(4) == b"look"


def test_no_secret_is_in_the_environment() -> None:
    assert not [name for name in os.environ if name.upper().endswith(("_API_KEY", "_TOKEN", "_PROXY"))]


def test_random_numbers_are_the_same_in_each_run() -> None:
    assert random.random() == random.Random(0).random()
    assert np.random.rand() == np.random.RandomState(0).rand()
