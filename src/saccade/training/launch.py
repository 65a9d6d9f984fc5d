"""Start the processes of a run from one, where no launcher did: they end together, and one error is reported."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread, current_thread, main_thread
from typing import Any

from saccade.errors import SaccadeError, TrainingError

_REPORTED = 2
"""Exit code of a process that has reported its error."""


def launched() -> bool:
    """Return whether this process is already one of several."""
    return "LOCAL_RANK" in os.environ


def is_first() -> bool:
    """Return whether this process is the one that prints; known before the processes have met."""
    return os.environ.get("RANK", "0") == "0"


def launch(program: Callable[..., None], arguments: tuple[Any, ...], processes: int) -> None:
    """Run `program(*arguments)`, which can be pickled, in each of `processes` processes.

    Raises `TrainingError`: one raised a `SaccadeError`, whose text this has, or was killed; the others were stopped.
    """
    from torch.distributed import TCPStore
    from torch.multiprocessing import ProcessExitedException, get_context, start_processes

    # It would warn of each process that it ends because another one failed, which is reported below.
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)
    errors = get_context("spawn").SimpleQueue()
    # They meet here: a port that the first of them opened later could be taken by then.
    meeting = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    try:
        with _interrupts_ignored():
            started = start_processes(
                _process,
                (program, arguments, processes, meeting.port, errors),
                nprocs=processes,
                join=False,
                start_method="spawn",
            )
        try:
            while not started.join():
                pass
        except KeyboardInterrupt:
            for process in started.processes:
                process.terminate()  # one that still starts would not find what its parent takes along
                process.join()
            raise
    except ProcessExitedException as error:
        # A process that lost its peer may be seen to end before the one that failed.
        reasons = []
        while not errors.empty():
            reasons.append(errors.get())
        if error.exit_code == _REPORTED and reasons:
            raise TrainingError(reasons[0]) from None
        how = f"ended with exit code {error.exit_code}"
        if error.signal_name is not None:
            how = f"was killed ({error.signal_name})"
        raise TrainingError(
            f"process {error.error_index} of {processes} {how}, and the others were stopped. The same command "
            "resumes from the last checkpoint; `saccade sft` and `saccade rl` want --resume for it."
        ) from None


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C in processes that start, until `_process` runs: imports would end with tracebacks."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if current_thread() is main_thread() else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _process(rank: int, program: Callable[..., None], arguments: Any, processes: int, port: int, errors: Any) -> None:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the parent has opened the port
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    end_with_parent()
    try:
        complete(program, arguments)
    except SaccadeError as error:
        errors.put(str(error))
        sys.exit(_REPORTED)


def complete(program: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Run `program(*arguments)` as one of several processes, and leave the group when it is done."""
    program(*arguments)
    from saccade.training.parallel import leave_group

    leave_group()


def end_with_parent() -> None:
    """End this process, one of `multiprocessing`, as soon as its parent is gone: work that was killed must not go on.

    Pools take it as their `initializer`.
    """
    from multiprocessing import connection, parent_process

    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    Thread(target=wait, daemon=True).start()
