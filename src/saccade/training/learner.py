"""Divide a model among the processes of a run, and update its weights: gradients and optimizer.

    for item in learner.share_passes(passes, sizes):
        learner.backward(loss(item.rows), counts=item.counts)
    norm = learner.gradient_norm(clip)
    learner.step(fraction)                   # or zero_grad(), and nothing has happened

Losses are parts of a sum over all processes, and the gradient is that of the sum: the same as that of one process, but
for the order in which floats are added.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from saccade.tokens.batch import Batch
from saccade.training.checkpoints import Checkpoints, RunState
from saccade.training.parallel import Processes
from saccade.training.settings import OptimizerSettings, decoder_layers, swap_tensors, vision_modules
from saccade.training.weights import Trainable

# The optimizer; the learning rate is a pure function of the step.


class DividedModel:
    """The model of a `Trainable`, divided among the processes by torch's FSDP2 (ZeRO's third stage).

    A layer of the language model is gathered when it is reached, forward and backward. The vision tower, as not every
    pass has pictures, and all that is outside the layers are gathered by every process at the start of every pass. In
    low precision, layers and tower are gathered in bfloat16, and gradients are summed over the processes in float32.
    Every process must call the scorer equally often, with gradient or without, unless the model is `gathered`.
    """

    def __init__(self, trained: Trainable, processes: Processes) -> None:
        """Divide the weights of `trained`; all processes call it together."""
        self.trained = trained
        self._main = processes.is_main
        self._empty = _without_data(trained)
        scorer, model, family = trained.scorer, trained.model, trained.encoder.family
        mesh = init_device_mesh(trained.checkpoint.device.type, (processes.count,))
        plain = MixedPrecisionPolicy(cast_forward_inputs=False)
        low = MixedPrecisionPolicy(cast_forward_inputs=False, param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        inner = low if trained.low_precision else plain
        towers = vision_modules(model, family)
        # Hooks run in this order: the towers are gathered before anything else of a pass.
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
        """Give every process all weights in the precision of the arithmetic; all enter and leave together."""
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
        """Return an undivided copy on the host, in the first process only; all processes call it together."""
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
        """Make a first pass: the scorer must be the first module that runs, before the engine calls its parts."""
        axes = self.trained.encoder.family.rope_axes
        ids = torch.full((1, 2), self.trained.encoder.pad_id)
        positions = torch.arange(2).repeat(axes, 1, 1) if axes > 1 else torch.arange(2)[None]
        with torch.no_grad(), self.trained.autocast():
            self.trained.scorer(Batch(ids, positions, {}, ((0, 0, 2),)), torch.tensor([[False, True]]))
        for module in self._modules:
            module.reshard()


def full_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Gather the parts of all processes, which call it together where `tensor` is divided."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of `tensor` that this process keeps, sharing its memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def like(tensor: torch.Tensor, full: torch.Tensor) -> torch.Tensor:
    """Divide `full`, which every process has, as `tensor` is divided."""
    if not isinstance(tensor, DTensor):
        return full
    divided: torch.Tensor = distribute_tensor(full, tensor.device_mesh, tensor.placements, src_data_rank=None)
    return divided


def _gather(modules: list[Any]) -> None:
    for module in modules:
        module.unshard()


def _without_data(trained: Trainable) -> tuple[Any, Any]:
    """Copy the model and its adapter with weights that have no memory."""
    memo: dict[int, Any] = {
        id(weight): torch.nn.Parameter(torch.empty_like(weight, device="meta"), weight.requires_grad)
        for weight in trained.model.parameters()
    }
    pair: tuple[Any, Any] = copy.deepcopy((trained.model, trained.adapter), memo)
    return pair


class MuonWithAdamW:
    """Muon (Jordan et al., 2024) for matrices, AdamW for the rest, as one optimizer; for models trained from nothing.

    Updates of matrices are scaled to the size of AdamW's (Liu et al., 2025, `0.2 sqrt(max(rows, columns))`), so one
    learning rate serves both. Groups with `orthogonal` true hold matrices only.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], betas: tuple[float, float], epsilon: float) -> None:
        matrices: list[dict[str, Any]] = []
        rest: list[dict[str, Any]] = []
        for group in groups:
            (matrices if group["orthogonal"] else rest).append(group)
        self._parts: list[torch.optim.Optimizer] = []
        if matrices:
            self._parts.append(torch.optim.Muon(matrices, adjust_lr_fn="match_rms_adamw"))
        if rest:
            self._parts.append(torch.optim.AdamW(rest, betas=betas, eps=epsilon))
        self.param_groups = [group for part in self._parts for group in part.param_groups]
        self.state: dict[torch.Tensor, dict[str, Any]] = defaultdict(dict)
        for part in self._parts:
            part.state = self.state

    def step(self) -> None:
        """Update every weight that has a gradient."""
        for part in self._parts:
            part.step()


def make_optimizer(
    trained: Trainable, settings: OptimizerSettings, kept: Mapping[str, torch.nn.Parameter]
) -> torch.optim.Optimizer | MuonWithAdamW:
    """Make the optimizer over `kept`, trained weights by their names.

    Weight decay applies to matrices only; each group keeps its full rate as `base_lr`.
    """
    groups: dict[tuple[bool, bool, bool], list[torch.nn.Parameter]] = {}
    for name, parameter in kept.items():
        orthogonal = settings.method == "muon" and is_orthogonal(name, parameter)
        groups.setdefault((trained.is_vision(name), parameter.ndim >= 2, orthogonal), []).append(parameter)
    param_groups = []
    for (vision, matrix, orthogonal), parameters in groups.items():
        rate = settings.vision_learning_rate if vision and settings.vision_learning_rate else settings.learning_rate
        decay = settings.weight_decay if matrix else 0.0
        group = {"params": parameters, "lr": rate, "base_lr": rate, "weight_decay": decay}
        param_groups.append(group | ({"orthogonal": orthogonal} if settings.method == "muon" else {}))
    if settings.method == "muon":
        return MuonWithAdamW(param_groups, settings.betas, settings.epsilon)
    fused = trained.checkpoint.device.type in ("cpu", "cuda")
    return torch.optim.AdamW(param_groups, betas=settings.betas, eps=settings.epsilon, fused=fused)


def is_orthogonal(name: str, weight: torch.Tensor) -> bool:
    """Return whether Muon updates the weight of that name."""
    return weight.ndim == 2 and "embed" not in name


def rate_fraction(step: int, total: int, settings: OptimizerSettings) -> float:
    """Return the fraction of the full learning rate at `step` (from 0) of `total`: linear up, then a cosine down."""
    warm = math.ceil(settings.warmup * total)
    if step < warm:
        return (step + 1) / warm
    done = (step - warm) / max(1, total - warm)
    return settings.final_fraction + (1.0 - settings.final_fraction) * 0.5 * (1.0 + math.cos(math.pi * done))


def set_rate(optimizer: torch.optim.Optimizer | MuonWithAdamW, fraction: float) -> None:
    """Set the rate of every group to `fraction` of its full one."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * fraction


def optimizer_tensors(
    optimizer: torch.optim.Optimizer | MuonWithAdamW, parameters: Mapping[str, torch.nn.Parameter]
) -> dict[str, torch.Tensor]:
    """Return the optimizer state as tensors, named `WEIGHT/KEY`."""
    return {
        f"{name}/{key}": value
        for name, parameter in parameters.items()
        for key, value in optimizer.state[parameter].items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer | MuonWithAdamW,
    parameters: Mapping[str, torch.nn.Parameter],
    tensors: Mapping[str, torch.Tensor],
) -> None:
    """Restore the result of `optimizer_tensors` for the weights in `parameters`."""
    for name in tensors:
        weight, _, key = name.rpartition("/")
        if weight in parameters:
            value = tensors[name].to(parameters[weight].device)
            divided = value.ndim > 0  # but for the number of steps
            optimizer.state[parameters[weight]][key] = like(parameters[weight], value) if divided else value


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass of a process."""

    rows: Sequence[int]
    counts: bool = True
    """False: the pass is made only because the other processes make one; its loss counts as 0."""


class Learner:
    """Makes the same update in every process; each holds all weights, gradients and optimizer state."""

    def __init__(self, trained: Trainable, settings: OptimizerSettings, processes: Processes) -> None:
        self.trained = trained
        self.processes = processes
        self._weights = trained.parameters()
        self._optimizer = make_optimizer(trained, settings, self._weights)

    @property
    def learning_rate(self) -> float:
        """That of the last update."""
        return float(self._optimizer.param_groups[0]["lr"]) if self._optimizer.param_groups else 0.0

    def share_passes(self, passes: Sequence[Sequence[int]], sizes: Sequence[float]) -> list[Pass]:
        """Return this process's share of the forward passes of an update, at least one in all."""
        return [Pass(rows) for rows in self.processes.balanced_shares(passes, sizes) if rows is not None]

    def backward(self, loss: torch.Tensor, *, counts: bool = True) -> None:
        torch.autograd.backward(loss if counts else loss * 0.0)

    def gradient_norm(self, clip: float) -> float:
        """Return the norm of the whole gradient, then clip it to `clip` (0: no limit)."""
        parameters = list(self._weights.values())
        self.processes.sum_gradients(parameters)
        return float(torch.nn.utils.clip_grad_norm_(parameters, clip or float("inf")))

    def step(self, fraction: float) -> None:
        """Update the weights at `fraction` of the full learning rate, and drop the gradient."""
        set_rate(self._optimizer, fraction)
        self._optimizer.step()
        self.zero_grad()

    def zero_grad(self) -> None:
        for parameter in self._weights.values():
            parameter.grad = None

    def gathered(self) -> AbstractContextManager[None]:
        """Let every process use the whole model by itself; all enter and leave together."""
        return nullcontext()

    def snapshot(self) -> Trainable | None:
        """Return a copy of the policy for export, in the first process only; every process calls it."""
        if not self.processes.is_main:
            return None
        trained = self.trained
        model, adapter = copy.deepcopy((trained.model, trained.adapter))
        return replace(trained, checkpoint=replace(trained.checkpoint, model=model), adapter=adapter)

    def finished(self) -> Trainable | None:
        """Return the policy itself where `snapshot` returns a copy; the learner must not be used again."""
        return self.trained if self.processes.is_main else None

    def save(self, checkpoints: Checkpoints, state: RunState) -> None:
        """Copy everything to the host, and begin to write a checkpoint of it; every process calls it."""
        checkpoints.finish()  # or the host would hold two
        kept = (self._weights, optimizer_tensors(self._optimizer, self._weights))
        own: list[dict[str, torch.Tensor]] = [
            {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
            if self.processes.is_main
            else {}
            for tensors in kept
        ]
        checkpoints.save(state, *own)

    def restore(self, weights: Mapping[str, torch.Tensor], optimizer: Mapping[str, torch.Tensor]) -> None:
        """Restore a checkpoint, whatever number of processes wrote it."""
        with torch.no_grad():
            for name, parameter in self._weights.items():
                parameter.copy_(like(parameter, weights[name].to(parameter.device)))
        restore_optimizer(self._optimizer, self._weights, optimizer)


class ShardedLearner(Learner):
    """Makes the same updates with weights, gradients and optimizer state divided among the processes.

    For models whose training does not fit one GPU: of the 16 bytes of a weight (float32 value, gradient and AdamW's two
    moments) one of N processes keeps an N-th. `--plan` prints what a GPU holds besides.
    """

    def __init__(self, trained: Trainable, settings: OptimizerSettings, processes: Processes) -> None:
        """Divide the weights of `trained`; all processes call it together."""
        self._divided = DividedModel(trained, processes)
        super().__init__(trained, settings, processes)

    def share_passes(self, passes: Sequence[Sequence[int]], sizes: Sequence[float]) -> list[Pass]:
        """Return equally many passes in every process, as all compute together; fillers do not count."""
        least = min(range(len(passes)), key=lambda at: sizes[at])
        filler = Pass(passes[least][-1:], counts=False)
        own = self.processes.balanced_shares(passes, sizes)
        return [filler if rows is None else Pass(rows) for rows in own]

    def gradient_norm(self, clip: float) -> float:
        parts = [own_part(weight.grad) for weight in self._weights.values() if weight.grad is not None]
        own = float(torch.nn.utils.get_total_norm(parts)) if parts else 0.0
        norm = self.processes.all_sum([own**2])[0] ** 0.5
        if clip and norm > clip:
            for part in parts:
                part.mul_(clip / (norm + 1e-6))
        return float(norm)

    def gathered(self) -> AbstractContextManager[None]:
        return self._divided.gathered()

    def snapshot(self) -> Trainable | None:
        return self._divided.full_model()

    def finished(self) -> Trainable | None:
        return self._divided.full_model()

    def save(self, checkpoints: Checkpoints, state: RunState) -> None:
        """Copy whole tensors to the host, some of them in each process, and begin to write them."""
        checkpoints.finish()
        tensors = optimizer_tensors(self._optimizer, self._weights)
        keeper = keepers({name: weight.numel() for name, weight in self._weights.items()}, self.processes.count)
        owners = {name: keeper[name.rpartition("/")[0]] for name in tensors}
        checkpoints.save(state, self._taken(self._weights, keeper), self._taken(tensors, owners))

    def _taken(self, tensors: Mapping[str, torch.Tensor], owners: Mapping[str, int]) -> dict[str, torch.Tensor]:
        """Return the whole tensors that this process writes; all processes gather in the same order."""
        own = {}
        for name, tensor in tensors.items():
            full = full_tensor(tensor.detach())
            if owners[name] == self.processes.rank:
                own[name] = full.to("cpu", copy=True)
        return own


def make_learner(trained: Trainable, settings: OptimizerSettings, processes: Processes, shard: bool) -> Learner:
    """Make the learner of a run, divided where `shard` and several processes ask for it."""
    kind = ShardedLearner if shard and processes.count > 1 else Learner
    return kind(trained, settings, processes)


def keepers(sizes: Mapping[str, int], processes: int) -> dict[str, int]:
    """Assign each weight to the process that writes it: the largest first, each to the process with least."""
    taken = [0] * processes
    keeper_of = {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        keeper_of[name] = taken.index(min(taken))
        taken[keeper_of[name]] += sizes[name]
    return keeper_of
