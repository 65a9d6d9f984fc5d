"""What torch's allocator held."""

from collections.abc import Callable

import torch


def allocated(work: Callable[[], object]) -> int:
    """Most bytes above those at the beginning while `work` ran, as torch's profiler tells every allocation on a CPU."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        work()
    held = most = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most
