"""DePlot and UniChart: the table behind a chart, written by a checkpoint.

google/deplot: 282 million parameters, 1.1 GB, Apache 2.0; Liu et al., DePlot (2023). ahmed-masry/unichart-base-960: 201
million, 0.8 GB, GPL 3.0 as its authors publish it; Masry et al., UniChart (2023). What they write may be wrong.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

from saccade.plugins.vista.checkpoint import CheckpointTool, Placed, checkpoint_needs
from saccade.tools.base import ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.definition import ToolModel
from saccade.tools.measure import LookArguments, look, picture_of

# Linearised tables, as chart readers write them, taken apart into rows.
#
# DePlot: rows end with `<0x0A>`, cells with `|`, and a first row `TITLE | ...`. UniChart: rows end with `&`.


class ChartTable(ToolModel):
    """A table as it was written; whether its rows are equally long is not checked."""

    title: str
    """Empty if none was written."""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def read_table(text: str, row_end: str) -> ChartTable:
    """Return the table of a linearised text; rows without a cell are left out."""
    lines = [[cell.strip() for cell in line.split("|")] for line in text.split(row_end)]
    kept = [tuple(line) for line in lines if any(line)]
    title = ""
    if kept and kept[0][0].upper() == "TITLE":
        title = " | ".join(kept.pop(0)[1:])
    return ChartTable(title=title, header=kept[0] if kept else (), rows=tuple(kept[1:]))


def as_markdown(table: ChartTable) -> str:
    """Write the table for a model to read; a sentence if there is none."""
    if not table.header:
        return "No table was written."
    lines = [table.header, ("---",) * len(table.header), *table.rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{table.title}\n{body}" if table.title else body


_DEPLOT_HEADER: Final = "Generate underlying data table of the figure below:"
_UNICHART_PROMPT: Final = "<extract_data_table> <s_answer>"


class ChartReaderResult(ToolModel):
    """Table as it was written."""

    image: str
    table: ChartTable
    raw: str
    """The text of the model."""
    complete: bool
    """False if it was cut at the most tokens of the setup."""


@dataclass(frozen=True, slots=True)
class ReaderCheckpoint:
    """A loaded checkpoint with its processor."""

    processor: Any
    model: Any
    most: int
    """Tokens."""


class _ChartReader(CheckpointTool[LookArguments, ChartReaderResult, tuple[str, Image.Image]]):
    arguments = LookArguments
    result = ChartReaderResult
    batch = 4
    row_end: str

    @abstractmethod
    def _written(self, reader: ReaderCheckpoint, pictures: Sequence[Image.Image]) -> Sequence[tuple[str, bool]]:
        """Return the text of each picture, and whether it came to its end."""

    def _seen(self, arguments: LookArguments, context: ToolContext) -> tuple[str, Image.Image]:
        part = look(arguments, context)
        return part.image, picture_of(part.rgb)

    def _passed(
        self, held: ReaderCheckpoint, seen: Sequence[tuple[str, Image.Image]]
    ) -> Sequence[ToolOutcome[ChartReaderResult]]:
        texts = self._written(held, [picture for _, picture in seen])
        return [self._outcome(image, *text) for (image, _), text in zip(seen, texts, strict=True)]

    def _outcome(self, image: str, raw: str, complete: bool) -> ToolOutcome[ChartReaderResult]:
        table = read_table(raw, self.row_end)
        value = ChartReaderResult(image=image, table=table, raw=raw, complete=complete)
        cut = "" if complete else "\nThe table was cut: the model wrote as much as the setup of tools allows."
        return ToolOutcome(value, text=as_markdown(table) + cut)


def _generated(reader: ReaderCheckpoint, inputs: dict[str, Any]) -> tuple[Any, list[bool]]:
    import torch

    before = inputs["decoder_input_ids"].shape[1] if "decoder_input_ids" in inputs else 1
    with torch.inference_mode():
        ids = reader.model.generate(**inputs, max_new_tokens=reader.most, do_sample=False, num_beams=1)
    end = reader.processor.tokenizer.eos_token_id
    return ids, [bool((row[before:] == end).any()) for row in ids]


class DePlot(_ChartReader):
    """The table of a chart by DePlot."""

    name = "deplot"
    suits = (("charts", 2),)
    description = (
        "Write the table behind a chart with DePlot. Gives title, header and rows as the model wrote them; numbers may "
        "be wrong."
    )
    needs = checkpoint_needs("deplot", "DePlot (Pix2Struct); google/deplot has 1.1 GB, Apache 2.0", "google/deplot")
    row_end = "<0x0A>"

    def _loaded(self, placed: Placed) -> ReaderCheckpoint:
        from transformers import Pix2StructForConditionalGeneration, Pix2StructProcessor

        processor = Pix2StructProcessor.from_pretrained(placed.setup.weights, **placed.hub)
        model = Pix2StructForConditionalGeneration.from_pretrained(
            placed.setup.weights, dtype=placed.dtype, **placed.hub
        )
        return ReaderCheckpoint(processor, model.to(placed.device).eval(), placed.setup.max_tokens)

    def _written(self, reader: ReaderCheckpoint, pictures: Sequence[Image.Image]) -> Sequence[tuple[str, bool]]:
        images = reader.processor.image_processor
        # The question stands in the picture. The original's font comes from the hub; this one is Matplotlib's, like it.
        headed = [
            images.render_header(np.asarray(picture).transpose(2, 0, 1), _DEPLOT_HEADER, font_path=_font())
            for picture in pictures
        ]
        inputs = images(headed, is_vqa=False, return_tensors="pt", input_data_format="channels_first")
        model = reader.model
        given = {
            "flattened_patches": inputs["flattened_patches"].to(model.device, model.dtype),
            "attention_mask": inputs["attention_mask"].to(model.device),
        }
        ids, complete = _generated(reader, given)
        texts = reader.processor.tokenizer.batch_decode(ids, skip_special_tokens=True)
        return list(zip((text.strip() for text in texts), complete, strict=True))


def _font() -> str:
    import matplotlib

    return str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")


class UniChart(_ChartReader):
    """The table of a chart by UniChart."""

    name = "unichart"
    suits = (("charts", 3),)
    description = (
        "Write the table behind a chart with UniChart. Gives header and rows as the model wrote them; numbers may be "
        "wrong."
    )
    needs = checkpoint_needs(
        "unichart",
        "UniChart (Donut); ahmed-masry/unichart-base-960 has 0.8 GB, GPL 3.0",
        "ahmed-masry/unichart-base-960",
    )
    row_end = "&"

    def _loaded(self, placed: Placed) -> ReaderCheckpoint:
        from transformers import DonutProcessor, VisionEncoderDecoderModel

        processor = DonutProcessor.from_pretrained(placed.setup.weights, **placed.hub)
        model = VisionEncoderDecoderModel.from_pretrained(placed.setup.weights, dtype=placed.dtype, **placed.hub)
        return ReaderCheckpoint(processor, model.to(placed.device).eval(), placed.setup.max_tokens)

    def _written(self, reader: ReaderCheckpoint, pictures: Sequence[Image.Image]) -> Sequence[tuple[str, bool]]:
        model, tokenizer = reader.model, reader.processor.tokenizer
        pixels = reader.processor.image_processor(list(pictures), return_tensors="pt")["pixel_values"]
        prompt = tokenizer(_UNICHART_PROMPT, add_special_tokens=False, return_tensors="pt")["input_ids"]
        given = {
            "pixel_values": pixels.to(model.device, model.dtype),
            "decoder_input_ids": prompt.expand(len(pictures), -1).to(model.device),
        }
        ids, complete = _generated(reader, given)
        # Only what follows the prompt is the table.
        texts = tokenizer.batch_decode(ids[:, prompt.shape[1] :], skip_special_tokens=True)
        return list(zip((text.strip() for text in texts), complete, strict=True))
