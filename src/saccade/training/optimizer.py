"""The optimizer with its groups of weights, and the learning rate as a pure function of the step."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from saccade.training.settings import OptimizerSettings
from saccade.training.weights import Trainable

# A model divided among the processes by torch's FSDP2: each keeps a part of every weight, and gathers what it needs.
#
# (`torch.distributed.fsdp.fully_shard`; the idea is ZeRO's third stage, Rajbhandari et al., 2020.) A layer of the
# language model is gathered when it is reached, forward and backward. The vision tower, where not every pass has
# pictures, and what stands outside the layers are gathered by every process at the beginning of every pass. In low
# precision, layers and tower are gathered in bfloat16, and gradients are added up over the processes in float32.
#
# Every process must call the scorer equally often, with gradient or without, unless the model is `gathered`.


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


# Muon (Jordan et al., 2024): the momentum of a matrix is made orthogonal before it is applied; AdamW for the rest.
#
# For models trained from nothing, which learn in fewer steps so. Updates of matrices are scaled to the size of AdamW's
# (Liu et al., 2025, `0.2 sqrt(max(rows, columns))`), so one learning rate serves both.


_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_MOMENTUM = 0.95


class Muon(torch.optim.Optimizer):  # type: ignore[misc]
    """One optimizer over groups; those with `orthogonal` true hold matrices alone."""

    def __init__(self, groups: Iterable[dict[str, Any]], betas: tuple[float, float], epsilon: float) -> None:
        super().__init__(list(groups), {"betas": betas, "eps": epsilon, "orthogonal": False})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """One update of every weight that has a gradient; `closure` is not asked."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            for weight in weights:
                weight.mul_(1.0 - group["lr"] * group["weight_decay"])
            changes = self._orthogonal(weights) if group["orthogonal"] else [self._adam(w, group) for w in weights]
            for weight, change in zip(weights, changes, strict=True):
                weight.sub_(change, alpha=group["lr"])

    def _orthogonal(self, weights: list[torch.Tensor]) -> list[torch.Tensor]:
        """Matrices of one shape go through the iteration together: many small products cost more than a large one.

        Where weights are divided, every process does it for whole matrices.
        """
        ahead = [full_tensor(self._ahead(weight)) for weight in weights]
        tensors: list[torch.Tensor] = list(ahead)
        shapes = defaultdict(list)
        for number, matrix in enumerate(ahead):
            shapes[matrix.shape].append(number)
        for shape, numbers in shapes.items():
            together = orthogonalised(torch.stack([ahead[number] for number in numbers]))
            for number, matrix in zip(numbers, together, strict=True):
                tensors[number] = like(weights[number], matrix * 0.2 * max(shape) ** 0.5)
        return tensors

    def _ahead(self, weight: torch.Tensor) -> torch.Tensor:
        """Nesterov's momentum."""
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        state["momentum"].lerp_(weight.grad, 1.0 - _MOMENTUM)
        return weight.grad.lerp(state["momentum"], _MOMENTUM)

    def _adam(self, weight: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        state = self.state[weight]
        if not state:
            state |= {"step": torch.zeros(()), "mean": torch.zeros_like(weight), "square": torch.zeros_like(weight)}
        first, second = group["betas"]
        state["step"] += 1
        state["mean"].lerp_(weight.grad, 1.0 - first)
        state["square"].lerp_(weight.grad.square(), 1.0 - second)
        step = float(state["step"])
        root = (state["square"] / (1.0 - second**step)).sqrt_().add_(group["eps"])
        return state["mean"] / root / (1.0 - first**step)


def orthogonalised(matrices: torch.Tensor) -> torch.Tensor:
    """About the orthogonal matrix next to each of `matrices`, by a Newton-Schulz iteration in bfloat16.

    Args:
        matrices: (matrices, rows, columns), each by itself. All singular values of the results are near 1; the
            iteration is made for so little precision.
    """
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    matrix = (matrices.mT if tall else matrices).bfloat16()
    matrix = matrix / (matrix.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        square = matrix @ matrix.mT
        matrix = torch.baddbmm(matrix, torch.baddbmm(square, square, square, beta=b, alpha=c), matrix, beta=a)
    return (matrix.mT if tall else matrix).to(matrices.dtype)


def make_optimizer(
    trained: Trainable, settings: OptimizerSettings, kept: Mapping[str, torch.nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimizer over `kept`, which are trained weights by their names.

    Weight decay is on matrices alone; each group keeps its full rate as `base_lr`.
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
        return Muon(param_groups, settings.betas, settings.epsilon)
    fused = trained.checkpoint.device.type in ("cpu", "cuda")
    return torch.optim.AdamW(param_groups, betas=settings.betas, eps=settings.epsilon, fused=fused)


def is_orthogonal(name: str, weight: torch.Tensor) -> bool:
    """Whether Muon makes updates of the weight of that name orthogonal."""
    return weight.ndim == 2 and "embed" not in name


def rate_fraction(step: int, total: int, settings: OptimizerSettings) -> float:
    """Fraction of the full learning rate at step `step` (from 0) of `total`: linear up, then a cosine down."""
    warm = math.ceil(settings.warmup * total)
    if step < warm:
        return (step + 1) / warm
    done = (step - warm) / max(1, total - warm)
    return settings.final_fraction + (1.0 - settings.final_fraction) * 0.5 * (1.0 + math.cos(math.pi * done))


def set_rate(optimizer: torch.optim.Optimizer, fraction: float) -> None:
    """Give every group its full rate times `fraction`."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * fraction


def optimizer_tensors(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.nn.Parameter]
) -> dict[str, torch.Tensor]:
    """The optimizer's state by the names of the weights, as plain tensors."""
    return {
        f"{name}/{key}": value
        for name, parameter in parameters.items()
        for key, value in optimizer.state[parameter].items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.nn.Parameter], tensors: Mapping[str, torch.Tensor]
) -> None:
    """Put back what `optimizer_tensors` gave, of the weights in `parameters`."""
    for name in tensors:
        weight, _, key = name.rpartition("/")
        if weight in parameters:
            value = tensors[name].to(parameters[weight].device)
            divided = value.ndim > 0  # but for the number of steps
            optimizer.state[parameters[weight]][key] = like(parameters[weight], value) if divided else value
