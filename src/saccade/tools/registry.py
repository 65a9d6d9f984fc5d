"""The tools by versioned id, and by the other names under which published models call them.

`ALIASES` lets a name be looked up without importing a tool. A tool that needs weights or a server is registered like
any other, so that a call of it is reported as unavailable and not as a name made up by the model.
Installed packages add tools by entry points of the group `saccade.tools`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from pydantic import JsonValue

from saccade.errors import ToolError
from saccade.record.registry import Registry, is_subclass
from saccade.tools.base import Tool

TOOLS: Final = Registry[type[Tool[Any, Any]]](
    "tools",
    {
        "chartassistant@1": "saccade.vlm_tools.charts:ChartAssistant [models]",
        "chartdet@1": "saccade.tools.chart.chartdet:ChartDet",
        "chartocr@1": "saccade.tools.chart.chartocr:ChartOcr [ocr]",
        "chartmoe@1": "saccade.vlm_tools.charts:ChartMoe [models]",
        "chartvlm@1": "saccade.vlm_tools.charts:ChartVlm [models]",
        "color_mask@1": "saccade.tools.color_mask:ColorMask",
        "color_stats@1": "saccade.tools.color_stats:ColorStats",
        "construction_cdl@1": "saccade.tools.geometry.image_cdl:ConstructionCdl [ocr]",
        "contours@1": "saccade.tools.contours:Contours",
        "crop@1": "saccade.tools.crop:Crop",
        "diagram_formalizer@1": "saccade.vlm_tools.geometry:DiagramFormalizer [models]",
        "draw@1": "saccade.tools.draw:Draw",
        "deplot@1": "saccade.tools.weighted.chart_readers:DePlot [local]",
        "edges@1": "saccade.tools.edges:Edges",
        "gllava@1": "saccade.vlm_tools.geometry:GLlava [models]",
        "goal_cdl@1": "saccade.tools.geometry.text_cdl:GoalCdl",
        "grounding_dino@1": "saccade.tools.weighted.grounding_dino:GroundingDino [local]",
        "hough_circles@1": "saccade.tools.hough:HoughCircles",
        "hough_lines@1": "saccade.tools.hough:HoughLines",
        "image_cdl@1": "saccade.tools.geometry.image_cdl:ImageCdl [ocr]",
        "inter_gps@1": "saccade.tools.geometry.inter_gps:InterGps",
        "match_template@1": "saccade.tools.match_template:MatchTemplate",
        "multimath@1": "saccade.vlm_tools.geometry:MultiMath [models]",
        "ocr@1": "saccade.tools.ocr:Ocr [ocr]",
        "opencv@1": "saccade.tools.chart.opencv:OpenCv",
        "rotate@1": "saccade.tools.rotate:Rotate",
        "sam@1": "saccade.tools.weighted.sam:Sam [local]",
        "select_frames@1": "saccade.tools.select_frames:SelectFrames [video]",
        "text_cdl@1": "saccade.tools.geometry.text_cdl:TextCdl",
        "threshold@1": "saccade.tools.threshold:Threshold",
        "unichart@1": "saccade.tools.weighted.chart_readers:UniChart [local]",
    },
    is_subclass(Tool, "a subclass of saccade.tools.base.Tool"),
)

_CHARTMOE: Final = ("to_table", "extract_data", "answer", "analyze", "describe")
ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "zoom_in": "crop",
        "crop_image": "crop",
        "crop_image_normalized": "crop",
        "image_zoom_in_tool": "crop",
        "image_rotate_tool": "rotate",
        "easyocr": "ocr",
        "chart_to_svg": "opencv",
        "chartdet_svg": "chartdet",
        "chartdet_scg": "chartdet",
        "chartocr_svg": "chartocr",
        "chartocr_scg": "chartocr",
        "intergps": "inter_gps",
        "groundingdino": "grounding_dino",
        "mm_grounding_dino": "grounding_dino",
        "sam2": "sam",
        "segment_anything": "sam",
        **{f"chartmoe{sign}{task}": "chartmoe" for task in _CHARTMOE for sign in "_."},
        "chart_assistant": "chartassistant",
        "chartast": "chartassistant",
        "chart_vlm": "chartvlm",
        "diagramformalizer": "diagram_formalizer",
        "diagram_formalizer_image_cdl": "diagram_formalizer",
        "diagram_formalizer_construction_cdl": "diagram_formalizer",
        "g_llava": "gllava",
        "multimath_server": "multimath",
    }
)
"""Other name -> name of the tool."""


def lacking(name: str) -> str:
    """How to get what a registered tool of that name lacks here; empty if it lacks nothing, or there is none."""
    return make_tool(name).needs.remedy if name in TOOLS.names() else ""


@dataclass(frozen=True, slots=True)
class ToolSource:
    """How a tool is made, in this process or another."""

    name: str
    """Name, alias, versioned id, or the user's own class."""
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    """Arguments of the constructor, such as where weights lie."""

    def make(self) -> Tool[Any, Any]:
        """A new tool. Raises as `make_tool` does."""
        return make_tool(self.name, self.options)

    def elsewhere(self) -> ToolSource:
        """The same where the current folder is another: the file of one's own code by its absolute path."""
        code = TOOLS.code(self.name)
        if code is None or not code.is_file:
            return self
        return ToolSource(f"{code.path}:{code.attribute}", self.options)


def make_tool(name: str, options: Mapping[str, JsonValue] = MappingProxyType({})) -> Tool[Any, Any]:
    """A new tool of that name, alias or versioned id, or of the user's own class (`file.py:NAME`, `module:NAME`).

    `options` are the arguments of its constructor.

    Raises:
        RegistryError: nothing has that name (suggests the nearest), or it is no tool.
        ToolError: the class lacks something that a tool declares, or does not take these options.
    """
    return _made(name, TOOLS.load(ALIASES.get(name, name)), options)


def recorded_tool(name: str) -> Tool[Any, Any]:
    """The tool that a model or a record named; no code is run for it. Raises as `make_tool`."""
    return _made(name, TOOLS.load_recorded(ALIASES.get(name, name)), {})


def _made(spec: str, kind: type[Tool[Any, Any]], options: Mapping[str, JsonValue]) -> Tool[Any, Any]:
    missing = [name for name in ("name", "description", "arguments", "result") if not hasattr(kind, name)]
    if missing:
        raise ToolError(f"{spec} is a tool without {', '.join(missing)}: give the class these attributes.")
    try:
        return kind(**options)
    except TypeError as error:  # an abstract method, or a constructor that takes other arguments
        given = f"the options {', '.join(options)}" if options else "no arguments"
        raise ToolError(
            f"{spec} cannot be made with {given}: {error}. A tool has a method `run`, and every argument of its "
            "constructor has a default."
        ) from error
