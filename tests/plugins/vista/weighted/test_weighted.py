"""Tools that hold a checkpoint, on random weights that are written to a folder and loaded as real ones are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.plugins.vista.weighted import tiny

from saccade.errors import UnavailableError
from saccade.plugins.vista import weights as sam_module
from saccade.plugins.vista.weights import (
    CheckpointSlot,
    DePlot,
    GroundingDino,
    Part,
    Placed,
    ReaderCheckpoint,
    Sam,
    UniChart,
    _generated,
    _load,
    _outcome,
    _overlap,
    _Prompt,
    _segment,
    _Segmenter,
    as_markdown,
    prepared,
    read_table,
    suppressed,
)
from saccade.tools.base import Needs, Tool, ToolCallInput
from saccade.tools.context import CallProblem, ProblemKind, ToolContext
from saccade.tools.measure import LookArguments, look
from saccade.tools.registry import make_tool
from saccade.tools.setup import VARIABLE, ToolSetup

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (90, 140, 3)).astype(np.uint8))
Setup = Callable[[str, Callable[[Path], Path]], None]


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    """Writes weights and the setup that names them."""

    def write(tool: str, make: Callable[[Path], Path]) -> None:
        folder = tmp_path / make.__name__
        folder.mkdir()
        make(folder)
        file = tmp_path / "setup.toml"
        file.write_text(f"[{tool}]\nweights = {str(folder)!r}\nmax_tokens = 8\ndevice = 'cpu'\n", encoding="utf-8")
        monkeypatch.setenv(VARIABLE, str(file))

    return write


def value_of(tool: Tool[Any, Any], arguments: object, alias: str | None = None) -> Any:
    result = tool.call(arguments, ToolContext({"photo": PICTURE}), alias=alias)
    assert result.ok, result.problem
    return result.value


@pytest.mark.slow
@pytest.mark.parametrize("make", [tiny.grounding_dino, tiny.mm_grounding_dino])
def test_grounding_dino(setup: Setup, make: Callable[[Path], Path]) -> None:
    setup("grounding_dino", make)
    tool = GroundingDino()
    asked = {"caption": "A red cup; a dog", "box_threshold": 0.0, "text_threshold": 0.0, "nms": 1.0}
    found_boxes = value_of(tool, asked, "groundingdino")["boxes"]
    assert len(found_boxes) == 20
    assert [box["score"] for box in found_boxes] == sorted((box["score"] for box in found_boxes), reverse=True)
    assert all(0 <= b[0] < b[2] <= 140 and 0 <= b[1] < b[3] <= 90 for b in (box["box"] for box in found_boxes))
    assert "red cup" in found_boxes[0]["phrase"]
    part = value_of(tool, {**asked, "box": [40, 30, 100, 80]})["boxes"]
    assert all(39.9 <= b[0] < b[2] <= 100.1 and 29.9 <= b[1] < b[3] <= 80.1 for b in (box["box"] for box in part))
    result = tool.call({**asked, "box_threshold": 1.0, "caption": "a cat"}, ToolContext({"photo": PICTURE}))
    assert (result.value or {})["boxes"] == []
    assert "Nothing of the caption" in result.text
    context = ToolContext({"photo": PICTURE})
    calls = [tool.arguments(**arguments) for arguments in (asked, {**asked, "image": 7}, asked)]
    batch = tool.run_batch([(arguments, context) for arguments in calls])
    assert isinstance(batch[1], Exception)
    assert [b.phrase for b in batch[0].value.boxes] == [b.phrase for b in batch[2].value.boxes]


@pytest.mark.parametrize(("make", "stretches"), [(tiny.sam, False), (tiny.sam2, True)])
def test_each_version_of_sam_is_loaded_as_itself(tmp_path: Path, make: Callable[[Path], Path], stretches: bool) -> None:
    held = _load(Placed(ToolSetup(weights=str(make(tmp_path))), "cpu", torch.float32))
    assert (held.model.config.model_type, held.stretches, held.side) == (make.__name__, stretches, 64)
    assert type(held.model).__name__ == ("Sam2Model" if stretches else "SamModel")


@pytest.mark.slow
@pytest.mark.parametrize("make", [tiny.sam, tiny.sam2])
def test_sam(setup: Setup, make: Callable[[Path], Path]) -> None:
    setup("sam", make)
    tool, context = Sam(), ToolContext({"photo": PICTURE})
    result = tool.call({"points": [[30, 40], [100, 20]], "labels": [1, 0], "all_masks": True}, context)
    assert result.ok, result.problem
    masks: Any = (result.value or {})["masks"]
    assert len(masks) == len(result.pictures) == 3
    for mask, picture in zip(masks, result.pictures, strict=True):
        pixels = np.asarray(picture.image)
        assert pixels.shape == (90, 140, 3)
        assert set(np.unique(pixels)) <= {0, 255}
        assert mask["coverage"] == pytest.approx((pixels[..., 0] > 0).mean(), abs=1e-5)
        assert mask["box"] is None or pixels[mask["box"][1] : mask["box"][3], mask["box"][0] : mask["box"][2]].any()
    best = tool.call({"box_prompt": [10, 10, 60, 60]}, context, alias="sam2")
    assert best.ok, best.problem
    assert len(best.pictures) == 1
    small = ToolContext({"photo": PICTURE.crop((20, 10, 90, 70))})
    given = [ToolCallInput({"box": [5, 5, 60, 50]}, seen) for seen in (context, small, context)]
    for one, call in zip(tool.call_batch(given), given, strict=True):
        alone = tool.call(call.arguments, call.context)
        assert (one.value or {})["masks"][0]["score"] == pytest.approx((alone.value or {})["masks"][0]["score"], 1e-3)


@pytest.mark.parametrize(("tool", "make"), [(DePlot(), tiny.deplot), (UniChart(), tiny.unichart)])
def test_chart_readers(setup: Setup, tool: DePlot | UniChart, make: Callable[[Path], Path]) -> None:
    setup(tool.name, make)
    value = value_of(tool, {})
    assert value["image"] == "photo"
    assert value["raw"]
    assert value["table"]["header"]
    assert value["complete"] is False
    context = ToolContext({"photo": PICTURE})
    network, passes = tool._slot.get().model, []
    network.register_forward_pre_hook(lambda _, given, named: passes.append(_rows(named)), with_kwargs=True)
    one, two = tool.run_batch([(tool.arguments(), context), (tool.arguments(box=(0, 0, 70, 80)), context)])
    assert (one.value.raw, two.value.image) == (value["raw"], "photo")
    assert one.text.endswith("The table was cut: the model wrote as much as the setup of tools allows.")
    assert set(passes) == {2}, "every step of the model is for both"


def _rows(given: dict[str, Any]) -> int:
    return len(given["decoder_input_ids"])


NAMES = ("grounding_dino", "sam", "deplot", "unichart")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_weights_that_cannot_be_loaded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    (tmp_path / "setup.toml").write_text(f"[{name}]\nweights = {str(folder)!r}\n", encoding="utf-8")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    arguments = {"grounding_dino": {"caption": "a"}, "sam": {"points": [[1, 1]]}}.get(name, {})
    result = make_tool(name).call(arguments, ToolContext({"photo": PICTURE}))
    assert result.problem.kind is ProblemKind.UNAVAILABLE
    assert "cannot be loaded" in result.problem.detail


PHOTO = Image.new("RGB", (140, 90), "white")
CONTEXT = ToolContext({"photo": PHOTO})


def loaded(tool: Tool[Any, Any], network: object) -> Any:
    """The tool with a network in place of its checkpoint."""
    made: Any = tool
    made._slot = SimpleNamespace(get=lambda: network)
    made.needs = Needs()
    return made


def test_a_checkpoint_is_loaded_once_where_and_as_the_setup_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "saccade.plugins.vista")
    file, placed = tmp_path / "setup.toml", []

    def load(where: Placed) -> int:
        placed.append(where)
        if where.setup.weights == "torn":
            raise OSError("it ends\n in the middle")
        return len(placed)

    def written(weights: str, more: str = "") -> CheckpointSlot[int]:
        file.write_text(f'[sam]\nweights = "{weights}"\n{more}')
        os.utime(file, (len(placed), len(placed)))
        return slot

    slot = CheckpointSlot("sam", load)
    monkeypatch.setenv(VARIABLE, str(file))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert [written("a/b").get(), slot.get()] == [1, 1]
    assert (placed[0].device, placed[0].dtype, placed[0].hub) == ("cuda", torch.float32, {"trust_remote_code": False})
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert written("a/b", 'revision = "v1"\ndtype = "bfloat16"\n').get() == 2
    assert (placed[1].device, placed[1].dtype) == ("cpu", torch.bfloat16)
    assert placed[1].hub == {"trust_remote_code": False, "revision": "v1"}
    assert written("a/b", 'device = "cuda:1"\n').get() == 3
    assert placed[2].device == "cuda:1"
    assert ["a/b" in text for text in caplog.messages] == [True] * 3
    with pytest.raises(UnavailableError, match=r"'torn' of sam cannot be loaded: OSError: it ends in the middle$"):
        written("torn").get()


def test_a_checkpoint_of_something_else_is_no_sam(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    with pytest.raises(ValueError, match="it is a checkpoint of vit, not of sam or sam2"):
        sam_module._load(Placed(ToolSetup(weights=str(tmp_path)), "cpu", torch.float32))


@pytest.mark.parametrize(
    ("a", "b", "overlap"),
    [
        ((0, 0, 10, 10), (0, 0, 10, 10), 1), ((0, 0, 10, 10), (5, 0, 15, 10), 1 / 3),
        ((0, 0, 10, 10), (10, 0, 20, 10), 0),
        ((0, 0, 10, 10), (0, 10, 10, 20), 0), ((0, 0, 10, 10), (20, 20, 30, 30), 0),
        ((0, 0, 4, 4), (1, 2, 3, 8), 4 / 24),
        ((0, 0, 10, 10), (20, 0, 30, 10), 0), ((0, 0, 1, 1), (0, 0, 10, 10), 0.01),
    ],
)  # fmt: skip
def test_overlap_of_boxes(a: Part, b: Part, overlap: float) -> None:
    assert _overlap(a, b) == _overlap(b, a) == pytest.approx(overlap)
    kept = suppressed([(0.9, a, "a"), (0.8, b, "b")], overlap)
    assert [row[2] for row in kept] == ["a", "b"]
    if overlap:
        assert [row[2] for row in suppressed([(0.9, a, "a"), (0.8, b, "b")], overlap - 1e-9)] == ["a"]


def test_found_boxes_are_clipped_sorted_and_drawn() -> None:
    seen = look(LookArguments(box=(40, 30, 100, 80)), CONTEXT)
    boxes = {
        "scores": np.array([0.50004, 0.9, 0.8, 0.7, 0.6, 0.4]),
        "boxes": np.array(
            [[-5, 2.04, 20.06, 70], [1, 1, 30, 30], [2, 1, 30, 30], [60, 0, 70, 9], [10, 50, 20, 60], [50, 1, 58, 9]]
        ),
        "text_labels": ["a cup [SEP]", "dog", "again", "outside", "below", "aside"],
    }
    found = _outcome(seen, boxes, 0.5)
    assert found.value.image == "photo"
    assert [(one.box, one.phrase, one.score) for one in found.value.boxes] == [
        ((41.0, 31.0, 70.0, 60.0), "dog", 0.9),
        ((40.0, 32.0, 60.1, 80.0), "a cup", 0.5),
        ((90.0, 31.0, 98.0, 39.0), "aside", 0.4),
    ]
    ((name, picture),) = found.pictures
    red = np.asarray(picture)[..., 1] == 0
    assert (name, picture.size) == ("boxes", (60, 50))
    assert red[1, 1:30].all()
    assert red[2, 1:30].all()
    assert not red[3, 22:28].any()
    assert red[10:48, 0].all()
    nothing = _outcome(seen, {"scores": np.zeros(0), "boxes": np.zeros((0, 4)), "text_labels": [""]}, 0.5)
    assert nothing.value.boxes == ()
    assert nothing.pictures == ()
    assert nothing.text == "Nothing of the caption was found in photo. A lower box_threshold may."


class Detecting:
    """In place of processor and model: one box for each picture, as wide as its place in the batch."""

    device, dtype = "cpu", torch.float64

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, **given: Any) -> Any:
        if "images" in given:
            self.seen.append((given["text"], [picture.size for picture in given["images"]]))
            ids = torch.arange(len(given["text"]))[:, None]
            return Inputs(pixel_values=torch.zeros(len(given["text"]), 3), input_ids=ids)
        self.seen.append(given["pixel_values"].dtype)
        count = len(given["input_ids"])
        return SimpleNamespace(logits=torch.arange(count)[:, None], pred_boxes=torch.arange(count)[:, None])

    def post_process_grounded_object_detection(self, outputs: Any, ids: Any, **given: Any) -> list[dict[str, Any]]:
        self.seen.append((outputs.logits.tolist(), outputs.pred_boxes.tolist(), ids.tolist(), given))
        wide = float(outputs.logits[0, 0]) + 5
        return [{"scores": np.array([0.9]), "boxes": np.array([[0, 0, wide, 5]]), "text_labels": ["cup"]}]


class Inputs(dict[str, Any]):
    def to(self, device: object) -> Inputs:
        return self


def test_one_pass_for_all_calls_and_no_ones_mistake_is_anothers() -> None:
    network = Detecting()
    tool = loaded(GroundingDino(), SimpleNamespace(processor=network, model=network))
    asked = {"caption": "A cup", "box_threshold": 0.1, "text_threshold": 0.2}
    calls = [tool.arguments(**asked), tool.arguments(**asked, image=7), tool.arguments(**asked, box=(0, 0, 60, 50))]
    first, wrong, second = tool.run_batch([(one, CONTEXT) for one in calls])
    assert isinstance(wrong, CallProblem)
    assert [one.value.boxes[0].box for one in (first, second)] == [(0, 0, 5, 5), (0, 0, 6, 5)]
    assert network.seen[0] == (["a cup.", "a cup."], [(140, 90), (60, 50)])
    assert network.seen[1] is torch.float64
    given = {"threshold": 0.1, "text_threshold": 0.2}
    assert network.seen[2:] == [
        ([[0.0]], [[0.0]], [[0]], {**given, "target_sizes": [(90, 140)]}),
        ([[1.0]], [[1.0]], [[1]], {**given, "target_sizes": [(50, 60)]}),
    ]
    assert tool.run(calls[2], CONTEXT).value.boxes[0].box == (0, 0, 5, 5)
    with pytest.raises(CallProblem):
        tool.run(calls[1], CONTEXT)
    network.seen.clear()
    assert len(tool.run_batch([(calls[1], CONTEXT)])) == 1
    assert network.seen == []


@pytest.mark.parametrize(
    ("shape", "stretches", "filled"),
    [
        ((50, 100), False, (10, 20)),
        ((100, 50), False, (20, 10)),
        ((2, 100), False, (1, 20)),
        ((50, 100), True, (20, 20)),
    ],
)
def test_a_picture_is_scaled_into_a_square(shape: tuple[int, int], stretches: bool, filled: tuple[int, int]) -> None:
    rgb = np.full((*shape, 3), (255, 0, 51), np.uint8)
    pixels, scale = prepared(rgb, 20, stretches=stretches)
    assert scale == (filled[1] / shape[1], filled[0] / shape[0])
    assert pixels.dtype == np.float32
    inside = pixels[:, : filled[0], : filled[1]]
    for channel, value in zip(inside, ((1 - 0.485) / 0.229, -0.456 / 0.224, (0.2 - 0.406) / 0.225), strict=True):
        assert np.allclose(channel, value, rtol=1e-5)
    assert not pixels[:, filled[0] :].any()
    assert not pixels[:, :, filled[1] :].any()


class Segmenting:
    device, dtype = "cpu", torch.float32

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self.passes: list[int] = []

    def __call__(self, **given: Any) -> Any:
        self.given = given
        size = len(given["pixel_values"])
        self.passes.append(size)
        masks = torch.full((size, 1, 3, 5, 5), -1.0)
        masks[:, 0, 1] = 1.0
        return SimpleNamespace(pred_masks=masks, iou_scores=torch.tensor([[[0.25, 1.5, -0.5]]]).expand(size, 1, 3))


def test_prompts_are_given_in_the_scale_of_the_square() -> None:
    network = Segmenting()
    rgb = np.zeros((50, 100, 3), np.uint8)
    both = _Prompt("photo", rgb, [(50.0, 25.0), (10.0, 5.0)], (1, 0), (0, 10, 60, 50), all_masks=True)
    ((masks, scores),) = _segment(_Segmenter(network, 20, stretches=True), [both])
    assert network.given["input_points"].tolist() == [[[[10, 10], [2, 2]]]]
    assert network.given["input_labels"].tolist() == [[[1, 0]]]
    assert network.given["input_boxes"].tolist() == [[pytest.approx([0, 4, 12, 20])]]
    assert network.given["pixel_values"].shape == (1, 3, 20, 20)
    assert network.given["multimask_output"] is True
    assert scores == [0.25, 1.0, 0.0]
    assert [int(mask.mean()) for mask in masks] == [0, 255, 0]
    points = _Prompt("photo", rgb, [(50.0, 25.0), (0.0, 0.0)], (), None, all_masks=True)
    _segment(_Segmenter(network, 20, stretches=True), [points])
    assert network.given["input_labels"].tolist() == [[[1, 1]]]
    assert "input_boxes" not in network.given
    boxed = _Prompt("photo", rgb, [], (), (0, 10, 50, 50), all_masks=True)
    _segment(_Segmenter(network, 20, stretches=False), [boxed])
    assert not {"input_points", "input_labels"} & set(network.given)
    assert network.given["input_boxes"].tolist() == [[[0, 2, 10, 10]]]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "Neither points nor a box"),
        ({"points": [[1, 1]], "labels": [1, 0]}, "There are 1 points and 2 labels"),
        ({"points": [[1, 1], [2, 2]], "labels": [1]}, "There are 2 points and 1 labels"),
        ({"points": [[141, 1]]}, "141"),
    ],
)
def test_prompts_that_say_nothing_are_refused(arguments: dict[str, Any], why: str) -> None:
    result = loaded(Sam(), _Segmenter(Segmenting(), 20, stretches=True)).call(arguments, CONTEXT)
    assert not result.ok
    assert why in result.text


def test_calls_together_are_one_pass_for_each_kind_of_prompt() -> None:
    network = Segmenting()
    tool = loaded(Sam(), _Segmenter(network, 20, stretches=True))
    point, two, box = {"points": [[1, 1]]}, {"points": [[1, 1], [9, 9]]}, {"box": [0, 0, 50, 50], "all_masks": True}
    given = [point, two, point, {"points": [[141, 1]]}, box, {}, point]
    results = tool.call_batch([ToolCallInput(arguments, CONTEXT) for arguments in given])
    assert sorted(network.passes) == [1, 1, 3]
    assert [result.ok for result in results] == [True, True, True, False, True, False, True]
    assert [len(result.pictures) for result in results] == [1, 1, 1, 0, 3, 0, 1]


def test_the_best_mask_or_all_the_best_first(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = loaded(Sam(), _Segmenter(Segmenting(), 20, stretches=True))
    one = tool.call({"points": [[1, 1]]}, CONTEXT)
    assert [mask["score"] for mask in one.value["masks"]] == [1.0]
    assert len(one.pictures) == 1
    every = tool.call({"box": [0, 0, 9, 9], "all_masks": True}, CONTEXT)
    assert [mask["score"] for mask in every.value["masks"]] == [1.0, 0.25, 0.0]
    assert [mask["coverage"] for mask in every.value["masks"]] == [1.0, 0.0, 0.0]
    assert np.asarray(every.pictures[0].image).min() == 255
    for most, ok in ((140 * 90, True), (140 * 90 - 1, False)):
        monkeypatch.setattr(sam_module, "MAX_PIXELS", most)
        refused = tool.call({"points": [[1, 1]]}, CONTEXT)
        assert refused.ok is ok
        assert ok or f"more than {most:,} pixels" in refused.text


@pytest.mark.parametrize(("prompt", "complete"), [(None, [True, False]), (torch.zeros((2, 2)), [False, False])])
def test_a_text_is_complete_if_it_ends_behind_its_prompt(prompt: Any, complete: list[bool]) -> None:
    asked: dict[str, Any] = {}

    def generate(**given: Any) -> Any:
        asked.update(given)
        return torch.tensor([[9, 1, 4], [1, 4, 4]])

    reader: Any = SimpleNamespace(
        model=SimpleNamespace(generate=generate),
        processor=SimpleNamespace(tokenizer=SimpleNamespace(eos_token_id=1)),
        most=7,
    )
    ids, ended = _generated(reader, {} if prompt is None else {"decoder_input_ids": prompt})
    assert ids.tolist() == [[9, 1, 4], [1, 4, 4]]
    assert ended == complete
    assert (asked["max_new_tokens"], asked["do_sample"], asked["num_beams"]) == (7, False, 1)


class Written(DePlot):
    def _written(self, reader: ReaderCheckpoint, pictures: Any) -> list[tuple[str, bool]]:
        return [(f"Size | {picture.size[0]}", picture.size[0] > 60) for picture in pictures]


def test_tables_of_several_calls() -> None:
    tool = loaded(Written(), None)
    calls = [LookArguments(), LookArguments(image=7), LookArguments(box=(0, 0, 60, 50))]
    first, wrong, second = tool.run_batch([(one, CONTEXT) for one in calls])
    assert isinstance(wrong, CallProblem)
    assert [(one.value.image, one.value.raw, one.value.complete) for one in (first, second)] == [
        ("photo", "Size | 140", True),
        ("photo", "Size | 60", False),
    ]
    assert first.text == "| Size | 140 |\n| --- | --- |"
    assert second.text == (
        "| Size | 60 |\n| --- | --- |\nThe table was cut: the model wrote as much as the setup of tools allows."
    )
    assert tool.run(calls[0], CONTEXT).value.raw == "Size | 140"
    with pytest.raises(CallProblem):
        tool.run(calls[1], CONTEXT)


def test_tables_without_a_title_and_with_a_long_one() -> None:
    table = read_table("a | b & | & 1 | 2 &", "&")
    assert (table.title, table.header, table.rows) == ("", ("a", "b"), (("1", "2"),))
    assert as_markdown(table) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
    long = read_table("title | a | b & c", "&")
    assert (long.title, long.header, long.rows) == ("a | b", ("c",), ())
    alone = read_table("TITLE | a", "&")
    assert (alone.title, alone.header, as_markdown(alone)) == ("a", (), "No table was written.")
