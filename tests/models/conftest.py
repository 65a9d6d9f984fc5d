from collections.abc import Iterator

import pytest
from tests.models.wire_server import WireServer, running


@pytest.fixture(scope="session")
def _wire_server() -> Iterator[WireServer]:
    with running() as server:
        yield server


@pytest.fixture
def server(_wire_server: WireServer) -> WireServer:
    return _wire_server.will()
