"""Packed rows: a trajectory learns the same as in a padded row, and nothing of its neighbours reaches it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.tiny import tiny_folder
from tests.tokens.support import FAMILIES
from tests.training.sft.train.support import trajectory
from torch import Tensor

from saccade.episode.run_folder import RunFolder
from saccade.models.families.known import FAMILIES as KNOWN
from saccade.tokens.batch import BatchRow, Collator, token_row, token_trajectory
from saccade.tokens.pictures import PictureTensors
from saccade.training import weights
from saccade.training.settings import ModelSettings
from saccade.training.weights import Trainable, attend, boundaries, load_trainable

torch.set_num_threads(1)
LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=5)


def heads(tokens: int, queries: int = 4, others: int = 2, size: int = 8) -> list[Tensor]:
    generator = torch.Generator().manual_seed(tokens)
    return [
        torch.randn((1, count, tokens, size), generator=generator, requires_grad=True)
        for count in (queries, others, others)
    ]


class Layer(torch.nn.Module):
    num_key_value_groups = 2


def dense(query: Tensor, key: Tensor, value: Tensor, lengths: list[int], *, causal: bool) -> Tensor:
    """The same with a mask of all pairs of tokens."""
    own = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    seen = own[:, None] == own
    key, value = (tensor.repeat_interleave(2, dim=1) for tensor in (key, value))
    scores = (query @ key.mT * 0.3).masked_fill(~(seen.tril() if causal else seen), -torch.inf)
    return (scores.softmax(-1) @ value).transpose(1, 2)


def varlen(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, of_keys: Tensor, most: int, most_keys: int, *,
    scale: float, window_size: tuple[int, int], enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """What torch's kernel computes, by its documentation, of (tokens, heads, size)."""
    assert enable_gqa == (query.shape[1] != key.shape[1])
    assert torch.equal(ends, of_keys)
    lengths = ends.diff().tolist()
    assert most == most_keys == max(lengths)
    moved = (tensor.transpose(0, 1)[None] for tensor in (query, key, value))
    return dense(*moved, lengths, causal=window_size == (-1, 0))[0]


@pytest.mark.parametrize("flash", [False, True])
@pytest.mark.parametrize("windows", [False, True])
@given(lengths=LENGTHS)
def test_packed_attention_is_block_diagonal(lengths: list[int], windows: bool, flash: bool) -> None:
    tokens, ends = sum(lengths), boundaries(lengths)
    ours, theirs = heads(tokens), heads(tokens)
    mask, cu = (None, ends.flatten()) if windows else (ends, None)
    with pytest.MonkeyPatch.context() as patch:
        if flash:
            patch.setattr(weights, "_unfit", lambda query, dropout: "")
            patch.setattr(weights, "varlen_kernel", lambda *wanted: varlen)
        found, _ = attend(Layer(), *ours, mask, scaling=0.3, cu_seq_lens_q=cu)
    wanted = dense(*theirs, lengths, causal=not windows)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    for tensor, own, other in zip(
        "qkv", *(torch.autograd.grad(x.sin().sum(), y) for x, y in ((found, ours), (wanted, theirs))), strict=True
    ):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-5, msg=tensor)


@given(lengths=LENGTHS, data=st.data())
def test_nothing_of_a_neighbour_reaches_a_trajectory(lengths: list[int], data: st.DataObject) -> None:
    changed = data.draw(st.integers(0, len(lengths) - 1))
    ends = np.cumsum([0, *lengths])
    other = slice(ends[changed], ends[changed + 1])
    plain = heads(sum(lengths))
    touched = [tensor.detach().clone() for tensor in plain]
    for tensor in touched:
        tensor[:, :, other] = float("nan")
    before, after = (attend(Layer(), *each, boundaries(lengths), scaling=0.3)[0] for each in (plain, touched))
    kept = torch.ones(sum(lengths), dtype=torch.bool)
    kept[other] = False
    assert torch.equal(before[:, kept], after[:, kept])


def test_a_mask_and_no_mask_are_what_they_were() -> None:
    query, key, value = heads(6)
    causal = torch.full((6, 6), -torch.inf).triu(1)[None, None]
    for mask in (causal, None):
        found, _ = attend(Layer(), query, key, value, mask, scaling=0.3)
        torch.testing.assert_close(found, dense(query, key, value, [6], causal=True), rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return RunFolder(tmp_path_factory.mktemp("run"))


def rows(trained: Trainable, run: RunFolder) -> list[BatchRow]:
    """One of text and pictures, one of text alone, and one whose first tokens are as those of the one before."""
    shown = [
        token_row(token_trajectory(trajectory(run, number, looks=looks), trained.encoder))
        for number, looks in ((1, 2), (3, 0))
    ]
    ids = np.array(trained.encoder.text("Look at the picture and say what is written."))
    learned = np.arange(len(ids)) > 0
    return [shown[0], BatchRow("text", ids, learned, ()), shown[1], BatchRow("again", ids, learned, ())]


def learned(trained: Trainable, run: RunFolder, *, packed: bool) -> tuple[Tensor, dict[str, Tensor]]:
    chosen = rows(trained, run)
    batch = Collator(trained.encoder, PictureTensors(trained.encoder, run.store), trained.model, packed=packed)(chosen)
    assert batch.packed is packed
    scores = trained.scorer(batch, batch.lay_out([row.trained for row in chosen], False))
    trained.model.zero_grad()
    (scores.logprobs.sum() + 0.1 * scores.entropy.sum()).backward()
    return scores.logprobs.detach(), {
        name: w.grad.clone() for name, w in trained.parameters().items() if w.grad is not None
    }


@pytest.mark.parametrize(
    ("family", "more"),
    [
        *((family, {}) for family in FAMILIES if KNOWN[family].attention == "full"),
        ("qwen2_5_vl", {"gradient_checkpointing": True}),
        ("qwen2_5_vl", {"attention": "sdpa"}),
        ("qwen2_5_vl", {"language": "lora", "lora": {"dropout": 0.0}}),
    ],
)
def test_packed_rows_learn_what_padded_rows_learn(family: str, more: dict[str, object], run: RunFolder) -> None:
    settings = ModelSettings.model_validate({"source": str(tiny_folder(family)), "vision": "full", **more})
    trained = load_trainable(settings, torch.device("cpu"), 0)
    assert trained.packs is (settings.attention == "auto")
    trained.model.train()
    (ours, mine), (theirs, other) = (learned(trained, run, packed=packed) for packed in (True, False))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert mine.keys() == other.keys()
    for name, gradient in mine.items():
        torch.testing.assert_close(
            gradient, other[name], rtol=1e-3, atol=1e-3 * float(other[name].abs().max()) + 1e-6, msg=name
        )


@pytest.mark.parametrize("family", ["qwen3_5", "gemma4"])
def test_layers_that_see_beyond_are_not_packed(family: str) -> None:
    trained = load_trainable(ModelSettings(source=str(tiny_folder(family))), torch.device("cpu"), 0)
    assert not trained.packs
