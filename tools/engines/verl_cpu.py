"""Lets verl train on a machine without a GPU, for trying a run out: a platform of its own, and nothing of verl changed.

verl 0.9.1 knows CUDA and NPUs. Registered by `make verl` as a plug-in of verl (`verl.plugins`); it does something only
where VERL_PLATFORM is `cpu`, which `saccade rl --on verl --set verl.device=cpu` sets:

* a platform "cpu" whose memory functions do nothing, with gloo between processes and logical "GPU"s of Ray;
* weights go to the servers by shared memory, as there is no CUDA IPC;
* verl asks for "cpu:gloo,<device>:<backend>", which names the CPU twice here, and torch refuses that;
* verl keeps a reference policy in pinned memory, which only a machine with an accelerator has.
"""

import contextlib
import os
import types
from collections.abc import Iterator
from typing import Any

if os.environ.get("VERL_PLATFORM") == "cpu":
    import torch
    import torch.distributed.fsdp
    from verl.plugin.platform.platform_base import PlatformBase
    from verl.plugin.platform.platform_manager import PlatformRegistry, set_platform

    _IDLE = (
        "empty_cache synchronize ipc_collect set_device manual_seed manual_seed_all reset_peak_memory_stats "
        "set_per_process_memory_fraction"
    )
    _NUMBERS = "memory_allocated memory_reserved max_memory_allocated max_memory_reserved"

    def _device() -> types.ModuleType:
        """What verl calls where torch.cuda would be."""
        device: Any = types.ModuleType("verl_cpu_device")
        for name in _IDLE.split():
            setattr(device, name, lambda *given, **named: None)
        for name in _NUMBERS.split():
            setattr(device, name, lambda *given, **named: 0)
        device.is_available = lambda: False
        device.get_device_name = lambda *given: "cpu"
        device.current_device = lambda: "cpu"
        device.device_count = lambda: 1
        device.mem_get_info = lambda *given: (8 << 30, 16 << 30)
        device.get_rng_state = lambda *given: torch.get_rng_state()
        device.set_rng_state = lambda state, *given: torch.set_rng_state(state)
        return device

    @PlatformRegistry.register(platform="cpu")
    class CpuPlatform(PlatformBase):
        """Every process is a device."""

        device_name = vendor_name = "cpu"
        device_module = _device()

        def is_available(self) -> bool:
            return True

        def is_platform_available(self, use_smi_check: bool = False) -> bool:
            return True

        def current_device(self) -> str:
            return "cpu"

        def device_count(self) -> int:
            return 1

        def set_device(self, index: int) -> None: ...

        def synchronize(self, index: int | None = None) -> None: ...

        def manual_seed(self, seed: int) -> None:
            torch.manual_seed(seed)

        def manual_seed_all(self, seed: int) -> None:
            torch.manual_seed(seed)

        def set_allocator_settings(self, settings: str) -> None: ...

        def empty_cache(self) -> None: ...

        def get_device_capability(self, index: int = 0) -> tuple[None, None]:
            return None, None

        def communication_backend_name(self) -> str:
            return "gloo"

        def visible_devices_envvar(self) -> str:
            return "CUDA_VISIBLE_DEVICES"

        @contextlib.contextmanager
        def nvtx_range(self, message: str) -> Iterator[None]:
            yield

        def profiler_start(self) -> None: ...

        def profiler_stop(self) -> None: ...

        def ray_resource_name(self) -> str:
            return "GPU"

        def ray_resource_options(self, count: int) -> dict[str, int]:
            return {"num_gpus": count}

        def ray_noset_envvars(self) -> list[str]:
            return []

        def is_ipc_supported(self) -> bool:
            return False

        def cudart(self) -> None: ...

    set_platform(CpuPlatform())

    _initialise = torch.distributed.init_process_group

    def _init_process_group(backend: str | None = None, *given: Any, **named: Any) -> Any:
        return _initialise("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *given, **named)

    torch.distributed.init_process_group = _init_process_group

    class _Unpinned(torch.distributed.fsdp.CPUOffloadPolicy):  # type: ignore[misc]
        def __init__(self, pin_memory: bool = False) -> None:
            super().__init__(pin_memory=False)

    torch.distributed.fsdp.CPUOffloadPolicy = _Unpinned
