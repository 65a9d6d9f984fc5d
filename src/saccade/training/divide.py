"""A model divided among the processes by torch's FSDP2: each keeps a part of every weight, and gathers what it needs.

(`torch.distributed.fsdp.fully_shard`; the idea is ZeRO's third stage, Rajbhandari et al., 2020.) A layer of the
language model is gathered when it is reached, forward and backward. The vision tower, where not every pass has
pictures, and what stands outside the layers are gathered by every process at the beginning of every pass. In low
precision, layers and tower are gathered in bfloat16, and gradients are added up over the processes in float32.

Every process must call the scorer equally often, with gradient or without, unless the model is `gathered`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from saccade.tokens.batch import Batch
from saccade.training.parallel import Processes
from saccade.training.parts import decoder_layers, swap_tensors, vision_modules
from saccade.training.weights import Trainable


class DividedModel:
    """The model of a `Trainable`, divided; collective are the methods that say so."""

    def __init__(self, trained: Trainable, processes: Processes) -> None:
        """From now on every process keeps a part of the weights of `trained` alone; collective."""
        self.trained = trained
        self._main = processes.is_main
        self._empty = _without_data(trained)
        scorer, model, family = trained.scorer, trained.model, trained.encoder.family
        mesh = init_device_mesh(trained.checkpoint.device.type, (processes.count,))
        plain = MixedPrecisionPolicy(cast_forward_inputs=False)
        low = MixedPrecisionPolicy(cast_forward_inputs=False, param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        inner = low if trained.low_precision else plain
        towers = vision_modules(model, family)
        # What stands first is called first: the towers are gathered before anything else of a pass.
        scorer.register_forward_pre_hook(lambda *_: _gather(towers))
        if any(weight.requires_grad and trained.is_vision(name) for name, weight in model.named_parameters()):
            scorer.always = [getattr(model.model, part) for part in family.vision_parts if hasattr(model.model, part)]
        for tower in towers:
            fully_shard(tower, mesh=mesh, mp_policy=inner, reshard_after_forward=False)
        self._layers = decoder_layers(model)
        for layer in self._layers:
            fully_shard(layer, mesh=mesh, mp_policy=inner)
        fully_shard(scorer, mesh=mesh, mp_policy=plain, reshard_after_forward=False)
        self._modules = [module for module in scorer.modules() if isinstance(module, FSDPModule)]
        for module in self._modules:
            module.set_gradient_divide_factor(1.0)  # losses are parts of a sum
            module.set_force_sum_reduction_for_comms(True)
        self._begin()

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Every process has all weights, in the precision of the arithmetic, and may use them by itself; collective."""
        for layer in self._layers:
            layer.set_reshard_after_forward(False, recurse=False)
        _gather(self._modules)
        try:
            yield
        finally:
            for layer in self._layers:
                layer.set_reshard_after_forward(True, recurse=False)
            for module in self._modules:
                module.reshard()

    def full_model(self) -> Trainable | None:
        """A copy in the memory of the host, of its own and not divided, in the first process; collective."""
        tensors = {}
        for name, weight in self.trained.model.named_parameters():
            value = full_tensor(weight.detach())
            if self._main:
                tensors[name] = value.cpu()
        if not self._main:
            return None
        model, adapter = copy.deepcopy(self._empty)
        names = {id(weight): name for name, weight in model.named_parameters()}
        swap_tensors(
            model, lambda old: torch.nn.Parameter(tensors[names[id(old)]], False) if id(old) in names else old.cpu()
        )
        return replace(self.trained, checkpoint=replace(self.trained.checkpoint, model=model), adapter=adapter)

    def _begin(self) -> None:
        """A first pass: the scorer must be the first module that runs, before the engine calls its parts."""
        axes = self.trained.encoder.family.rope_axes
        ids = torch.full((1, 2), self.trained.encoder.pad_id)
        positions = torch.arange(2).repeat(axes, 1, 1) if axes > 1 else torch.arange(2)[None]
        with torch.no_grad(), self.trained.autocast():
            self.trained.scorer(Batch(ids, positions, {}, ((0, 0, 2),)), torch.tensor([[False, True]]))
        for module in self._modules:
            module.reshard()


def full_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` with the parts of all processes; collective where it is divided."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """What this process keeps of `tensor`, sharing its memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def like(tensor: torch.Tensor, full: torch.Tensor) -> torch.Tensor:
    """`full` divided as `tensor` is, where it is; every process has it."""
    if not isinstance(tensor, DTensor):
        return full
    divided: torch.Tensor = distribute_tensor(full, tensor.device_mesh, tensor.placements, src_data_rank=None)
    return divided


def _gather(modules: list[Any]) -> None:
    for module in modules:
        module.unshard()


def _without_data(trained: Trainable) -> tuple[Any, Any]:
    """Model and adapter around it, with weights that have no memory."""
    memo: dict[int, Any] = {
        id(weight): torch.nn.Parameter(torch.empty_like(weight, device="meta"), weight.requires_grad)
        for weight in trained.model.parameters()
    }
    pair: tuple[Any, Any] = copy.deepcopy((trained.model, trained.adapter), memo)
    return pair
