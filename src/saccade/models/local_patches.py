"""On a CPU, a convolution whose kernel covers just what it is given is a slow way to write a product of matrices.

The patch embedding of the Qwen towers is one. The backward pass of that convolution was a third of a training step of
a tiny model. Same weights, same sums; only their order may differ.
"""

from __future__ import annotations

from typing import Any

import torch


def multiply_patches(model: Any) -> None:
    """Let the patch embedding of `model`, if it has one of the Qwen towers, multiply matrices from now on."""
    tower = getattr(getattr(model, "model", None), "visual", None)
    embedding = getattr(tower, "patch_embed", None)
    kernel = getattr(embedding, "proj", None)
    if isinstance(kernel, torch.nn.Conv3d) and kernel.kernel_size == kernel.stride and not any(kernel.padding):
        # A class of its own, not a function on the object: copies of the model must use their own weights.
        embedding.__class__ = type("MultipliedPatches", (_Multiplied, type(embedding)), {})


class _Multiplied:
    proj: torch.nn.Conv3d

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """(patches, channels · frames · height · width) to (patches, features)."""
        weight = self.proj.weight.flatten(1)
        patches = hidden_states.view(-1, weight.shape[1]).to(weight.dtype)
        return torch.nn.functional.linear(patches, weight, self.proj.bias)
