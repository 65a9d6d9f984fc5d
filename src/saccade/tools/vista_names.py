"""The 26 tools of VISTA-Gym (Lu et al., 2025, appendix B) by the paper's names, and what answers to each here.

The paper gives 26 as their number and names 25, of which ChartDet and ChartOCR stand in two families; counting
DiagramFormalizer's two endpoints apart gives 26, which is our reading. A tool with several entries takes a `task`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class VistaTool:
    """One of the 26."""

    family: str
    name: str
    """The paper's."""
    tool: str
    """Ours."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Arguments by which ours does what the paper's does."""


_CHART = "chart to table"
_SVG = "chart to SVG"
_SCG = "chart to SCG"
_CAPTION = "chart caption, answer"
_CDL = "geometry to CDL"

VISTA_TOOLS: Final = (
    VistaTool("perception", "GroundingDINO", "grounding_dino"),
    VistaTool("perception", "SAM", "sam"),
    VistaTool("perception", "EasyOCR", "ocr"),
    VistaTool(_CHART, "UniChart", "unichart"),
    VistaTool(_CHART, "DePlot", "deplot"),
    VistaTool(_CHART, "ChartMoE.to_table", "chartmoe", {"task": "to_table"}),
    VistaTool(_CHART, "ChartMoE.extract_data", "chartmoe", {"task": "extract_data"}),
    VistaTool(_SVG, "OpenCV", "opencv"),
    VistaTool(_SVG, "ChartDet", "chartdet", {"task": "svg"}),
    VistaTool(_SVG, "ChartOCR", "chartocr", {"task": "svg"}),
    VistaTool(_SCG, "ChartDet", "chartdet", {"task": "scg"}),
    VistaTool(_SCG, "ChartOCR", "chartocr", {"task": "scg"}),
    VistaTool(_CAPTION, "ChartAssistant", "chartassistant"),
    VistaTool(_CAPTION, "ChartVLM", "chartvlm"),
    VistaTool(_CAPTION, "ChartMoE.answer", "chartmoe", {"task": "answer"}),
    VistaTool(_CAPTION, "ChartMoE.analyze", "chartmoe", {"task": "analyze"}),
    VistaTool(_CAPTION, "ChartMoE.describe", "chartmoe", {"task": "describe"}),
    VistaTool(_CDL, "image_cdl", "image_cdl"),
    VistaTool(_CDL, "text_cdl", "text_cdl"),
    VistaTool(_CDL, "construction_cdl", "construction_cdl"),
    VistaTool(_CDL, "goal_cdl", "goal_cdl"),
    VistaTool("geometry solver", "Inter-GPS", "inter_gps"),
    VistaTool("geometry solver", "DiagramFormalizer.ImgCDL", "diagram_formalizer", {"task": "image_cdl"}),
    VistaTool("geometry solver", "DiagramFormalizer.ConsCDL", "diagram_formalizer", {"task": "construction_cdl"}),
    VistaTool("geometry answer", "G-LLaVA", "gllava"),
    VistaTool("geometry answer", "MultiMath", "multimath"),
)
"""In the paper's order."""
