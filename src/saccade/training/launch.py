"""Starting the processes of a run from one, where no launcher did: they end together, and one error is reported.

launch(train_here, (settings, out), processes=8)
"""

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

_SAID_WHY = 2
"""Exit code of a process that has said why it ended."""


def launched() -> bool:
    """Whether this process is one of several already."""
    return "LOCAL_RANK" in os.environ


def is_first() -> bool:
    """Whether this process is the one that shows something; known before the processes have met."""
    return os.environ.get("RANK", "0") == "0"


def launch(program: Callable[..., None], arguments: tuple[Any, ...], processes: int) -> None:
    """Run `program(*arguments)`, which can be pickled, in each of `processes` processes.

    Raises:
        TrainingError: one raised a `SaccadeError`, whose text this has, or was killed; the others were stopped.
    """
    from torch.distributed import TCPStore
    from torch.multiprocessing import ProcessExitedException, get_context, start_processes

    # It would warn of each process that it ends because another one failed, and that is told here.
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
        # Who lost its peer may end before the one whose fault it was is seen.
        reasons = []
        while not errors.empty():
            reasons.append(errors.get())
        if error.exit_code == _SAID_WHY and reasons:
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
    """For processes that start: a Ctrl-C while they import would end each with a traceback, and their parent hears it.

    They inherit it until `_process` ends it.
    """
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
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # whoever started the processes has opened the port
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    end_with_parent()
    try:
        complete(program, arguments)
    except SaccadeError as error:
        errors.put(str(error))
        sys.exit(_SAID_WHY)


def complete(program: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Run `program(*arguments)` as one of several processes, and part from the others when it is done."""
    program(*arguments)
    from saccade.training.parallel import leave_group

    leave_group()


def end_with_parent() -> None:
    """From now on this process ends when the one that started it is gone: work that was killed must not continue.

    For processes of `multiprocessing`; a pool's take it as their `initializer`.
    """
    Thread(target=_wait_for_end_of_parent, daemon=True).start()


def _wait_for_end_of_parent() -> None:
    from multiprocessing import connection, parent_process

    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
