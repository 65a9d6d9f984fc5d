"""The 26 tools of VISTA-Gym (Lu et al., 2025, appendix B) by the paper's names, and what answers to each here.

The paper gives 26 as their number and names 25, of which ChartDet and ChartOCR stand in two families; counting
DiagramFormalizer's two endpoints apart gives 26, which is our reading. A tool with several entries takes a `task`.
"""

from __future__ import annotations

from typing import Final

from saccade.tools.definition import NamedTool

_CHART = "chart to table"
_SVG = "chart to SVG"
_SCG = "chart to SCG"
_CAPTION = "chart caption, answer"
_CDL = "geometry to CDL"

VISTA_TOOLS: Final = (
    NamedTool("perception", "GroundingDINO", "grounding_dino"),
    NamedTool("perception", "SAM", "sam"),
    NamedTool("perception", "EasyOCR", "ocr"),
    NamedTool(_CHART, "UniChart", "unichart"),
    NamedTool(_CHART, "DePlot", "deplot"),
    NamedTool(_CHART, "ChartMoE.to_table", "chartmoe", {"task": "to_table"}),
    NamedTool(_CHART, "ChartMoE.extract_data", "chartmoe", {"task": "extract_data"}),
    NamedTool(_SVG, "OpenCV", "opencv"),
    NamedTool(_SVG, "ChartDet", "chartdet", {"task": "svg"}),
    NamedTool(_SVG, "ChartOCR", "chartocr", {"task": "svg"}),
    NamedTool(_SCG, "ChartDet", "chartdet", {"task": "scg"}),
    NamedTool(_SCG, "ChartOCR", "chartocr", {"task": "scg"}),
    NamedTool(_CAPTION, "ChartAssistant", "chartassistant"),
    NamedTool(_CAPTION, "ChartVLM", "chartvlm"),
    NamedTool(_CAPTION, "ChartMoE.answer", "chartmoe", {"task": "answer"}),
    NamedTool(_CAPTION, "ChartMoE.analyze", "chartmoe", {"task": "analyze"}),
    NamedTool(_CAPTION, "ChartMoE.describe", "chartmoe", {"task": "describe"}),
    NamedTool(_CDL, "image_cdl", "image_cdl"),
    NamedTool(_CDL, "text_cdl", "text_cdl"),
    NamedTool(_CDL, "construction_cdl", "construction_cdl"),
    NamedTool(_CDL, "goal_cdl", "goal_cdl"),
    NamedTool("geometry solver", "Inter-GPS", "inter_gps"),
    NamedTool("geometry solver", "DiagramFormalizer.ImgCDL", "diagram_formalizer", {"task": "image_cdl"}),
    NamedTool("geometry solver", "DiagramFormalizer.ConsCDL", "diagram_formalizer", {"task": "construction_cdl"}),
    NamedTool("geometry answer", "G-LLaVA", "gllava"),
    NamedTool("geometry answer", "MultiMath", "multimath"),
)
"""In the paper's order."""
