"""The tool-use protocol: operations by benchmark, and calls per sample against accuracy."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final, Literal

from pydantic import FiniteFloat, NonNegativeInt

from saccade.dialects.base import recorded_dialect
from saccade.episode.looks import parsed
from saccade.episode.regions import Region
from saccade.errors import SaccadeError
from saccade.evals.protocols.base import Findings, Mean, Protocol, Rate, Rates, SampleRow, Studied, StudiedRun
from saccade.evals.rows import natural
from saccade.record.content import Code, ImagePart, Name, Record, Text, ToolCall, VideoPart
from saccade.record.execution import Execution, HostedCall, Status
from saccade.record.trajectory import Trajectory, Turn
from saccade.rewards.reward import is_call
from saccade.tools.context import Operation
from saccade.tools.registry import tool_class


class CallUse(Record):
    """One call and what it did."""

    turn: NonNegativeInt
    """From 0."""
    tool: Text = ""
    """Name of the typed tool, or of the provider's; empty for code that ran in our sandbox."""
    status: Status
    operations: tuple[Operation, ...]
    """In the order of `Operation`; never empty."""
    label: Operation
    """The one that stands for the call: see `label_of`."""
    pictures: NonNegativeInt
    """That came back."""


_PRECEDENCE: Final = (
    Operation.FRAME_FETCH,
    Operation.OCR,
    Operation.SEGMENT,
    Operation.DETECT_EDGES,
    Operation.COMPARE,
    Operation.CROP,
    Operation.ZOOM,
    Operation.ROTATE,
    Operation.ENHANCE,
    Operation.HISTOGRAM,
    Operation.DRAW,
    Operation.SKETCH,
    Operation.NUMERICAL_ANALYSIS,
)


def label_of(operations: Collection[Operation]) -> Operation:
    """Return the one label of a call, as the shares of PyVision-RL's figures 21, 23 and 25 need it.

    The paper does not say which of several counts. Here the most telling: what finds something comes before how the
    picture was prepared, and both before what was drawn or computed from it.
    """
    return min(operations, key=lambda one: _PRECEDENCE.index(one) if one in _PRECEDENCE else len(_PRECEDENCE))


class ToolUseRow(SampleRow):
    """One sample and its calls."""

    calls: tuple[CallUse, ...]


class OperationShare(Record):
    """One operation in some samples."""

    operation: Operation
    calls: Rate
    """Of calls that ended well."""
    samples: Rate
    """Of samples."""
    labels: Rate
    """Of calls that ended well, those that have it as their one label: these shares add up to 1."""


class CallBucket(Record):
    """Samples by their number of calls."""

    label: Name
    """`0`, `1`, `2`, `3+`."""
    samples: Rate
    """Of all samples."""
    accuracy: Mean | None
    """Inside the bucket; None if none of its samples is graded."""
    correct: Rate
    """Right ones of the bucket, over all graded samples: the green part of a bar of figure 8."""


class Use(Record):
    """Tool use of some samples."""

    samples: NonNegativeInt
    calls: NonNegativeInt
    failed: NonNegativeInt
    """Calls that did not end well."""
    operations: tuple[OperationShare, ...]
    """Those that occur, in the order of `Operation`."""
    buckets: tuple[CallBucket, ...]
    histogram: Mapping[int, NonNegativeInt]
    """Number of calls -> samples (PyVision-RL, figures 22 and 24)."""
    calls_per_sample: FiniteFloat | None


class ToolUse(Findings):
    """How often code and tools were used, and for what."""

    protocol: Literal["tool_use"] = "tool_use"
    total: Use
    sources: Mapping[str, Use]
    """By benchmark."""
    tools: Mapping[str, NonNegativeInt]
    """Typed tool -> calls."""
    rows: tuple[ToolUseRow, ...]


# What code does to pictures, read from its syntax tree without running it. Functions count where they are called, so
# code that is defined and never used does nothing; names live on from cell to cell. Types are not known for certain:
# names of methods decide.


ALIASES: Final[Mapping[str, str]] = {
    "np": "numpy",
    "cv": "cv2",
    "plt": "matplotlib.pyplot",
    "sns": "seaborn",
    **{
        name: f"PIL.{name}"
        for name in ("Image", "ImageChops", "ImageDraw", "ImageEnhance", "ImageFilter", "ImageOps", "ImageStat")
    },
}
"""What these names mean where code does not import them: sandboxes hold them from the start."""


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


def _named(operation: Operation, module: str, names: str) -> dict[str, Operation]:
    return {f"{module}.{name}" if module else name: operation for name in names.split()}


FUNCTIONS: Final[Mapping[str, Operation]] = {
    **_named(Operation.ZOOM, "", "cv2.resize cv2.pyrUp scipy.ndimage.zoom skimage.transform.rescale"),
    **_named(Operation.ROTATE, "cv2", "rotate flip getRotationMatrix2D warpAffine warpPerspective transpose"),
    **_named(Operation.ROTATE, "numpy", "rot90 flip fliplr flipud"),
    **_named(Operation.ROTATE, "PIL.ImageOps", "mirror flip exif_transpose"),
    **_named(Operation.ROTATE, "", "scipy.ndimage.rotate skimage.transform.rotate"),
    **_named(
        Operation.ENHANCE,
        "cv2",
        "equalizeHist createCLAHE convertScaleAbs GaussianBlur medianBlur bilateralFilter blur boxFilter filter2D LUT "
        "fastNlMeansDenoising fastNlMeansDenoisingColored addWeighted normalize detailEnhance edgePreservingFilter "
        "bitwise_not inpaint",
    ),
    **_named(Operation.ENHANCE, "PIL.ImageOps", "autocontrast equalize invert posterize solarize colorize"),
    **_named(
        Operation.SEGMENT,
        "cv2",
        "threshold adaptiveThreshold inRange kmeans connectedComponents connectedComponentsWithStats watershed "
        "grabCut floodFill morphologyEx erode dilate distanceTransform bitwise_and createBackgroundSubtractorMOG2",
    ),
    **_named(Operation.SEGMENT, "scipy.ndimage", "label find_objects binary_opening binary_closing binary_fill_holes"),
    **_named(Operation.SEGMENT, "skimage.measure", "label regionprops"),
    **_named(
        Operation.DETECT_EDGES,
        "cv2",
        "Canny Sobel Laplacian Scharr findContours HoughLines HoughLinesP HoughCircles cornerHarris "
        "goodFeaturesToTrack approxPolyDP createLineSegmentDetector SimpleBlobDetector_create convexHull minAreaRect "
        "ORB_create SIFT_create FastFeatureDetector_create",
    ),
    **_named(Operation.DETECT_EDGES, "skimage.feature", "canny corner_harris corner_peaks blob_dog blob_log"),
    **_named(Operation.DETECT_EDGES, "skimage.filters", "sobel scharr prewitt roberts"),
    **_named(Operation.DETECT_EDGES, "", "skimage.measure.find_contours scipy.ndimage.sobel"),
    **_named(Operation.HISTOGRAM, "", "cv2.calcHist numpy.histogram numpy.bincount matplotlib.pyplot.hist"),
    **_named(Operation.COMPARE, "cv2", "absdiff matchTemplate compareHist subtract hconcat vconcat BFMatcher"),
    **_named(Operation.COMPARE, "numpy", "hstack vstack dstack array_equal allclose"),
    **_named(Operation.COMPARE, "PIL.ImageChops", "difference subtract"),
    **_named(Operation.COMPARE, "skimage.metrics", "structural_similarity mean_squared_error"),
}
PACKAGES: Final[Mapping[str, Operation]] = {
    "PIL.ImageEnhance": Operation.ENHANCE,
    "skimage.exposure": Operation.ENHANCE,
    "skimage.segmentation": Operation.SEGMENT,
    "sklearn.cluster": Operation.SEGMENT,
    "pytesseract": Operation.OCR,
    "easyocr": Operation.OCR,
    "paddleocr": Operation.OCR,
    "rapidocr": Operation.OCR,
    "rapidocr_onnxruntime": Operation.OCR,
}
"""Everything of these."""
METHODS: Final[Mapping[str, Operation]] = {
    **_named(Operation.CROP, "", "crop"),
    **_named(Operation.ZOOM, "", "resize"),
    **_named(Operation.ROTATE, "", "rotate"),
    **_named(Operation.ENHANCE, "", "enhance point filter"),
    **_named(Operation.SEGMENT, "", "quantize fit_predict"),
    **_named(Operation.HISTOGRAM, "", "histogram getcolors hist"),
    **_named(Operation.OCR, "", "readtext image_to_string"),
    **_named(Operation.COMPARE, "", "paste"),
}
"""By name only: what the object is cannot be known from the code."""
EDGE_FILTERS: Final = _words("FIND_EDGES CONTOUR EDGE_ENHANCE EDGE_ENHANCE_MORE EMBOSS")

MARKS: Final = _words("annotate text axhline axvline hlines vlines add_patch add_artist add_line arrow axline grid")
"""Methods of axes that mark what is there."""
CHARTS: Final = _words(
    "plot scatter bar barh pie fill fill_between step stem quiver contour contourf boxplot stackplot heatmap"
)
"""Methods of axes that draw something of their own."""
CV_MARKS: Final = frozenset(
    f"cv2.{name}"
    for name in _words("rectangle circle line putText polylines arrowedLine ellipse drawContours drawMarker fillPoly")
)
LIMITS: Final = _words("xlim ylim set_xlim set_ylim")
"""Methods of axes that show a part of what is on them."""
SIZES: Final = _words("size shape width height ndim dtype mode format nbytes")
"""Attributes that tell what a picture is, and nothing of what is on it."""
CANVASES: Final = _words("PIL.Image.new numpy.zeros numpy.ones numpy.full numpy.zeros_like")
READERS: Final = _words("PIL.Image.open cv2.imread matplotlib.pyplot.imread imageio.imread")
VIDEOS: Final = _words("cv2.VideoCapture decord.VideoReader VideoReader imageio.get_reader av.open")
FRAMES: Final = _words("get_batch read retrieve get_data get_frame decode")
"""Methods of a video that give frames."""

MEASURES: Final = _words("sum len max min abs round sorted pow divmod")
"""Plain functions that compute a number."""
NUMERIC: Final = _words("numpy math cmath statistics scipy sympy fractions decimal shapely")
"""Packages that compute."""
PIXELS: Final = _words("getpixel getbbox mean std sum min max argmax argmin getextrema")
"""Methods that measure."""
NO_MEASURE: Final = _words(
    "array asarray zeros ones full zeros_like ones_like uint8 float32 hstack vstack concatenate stack copy"
)
"""Functions of numpy that only hold pixels."""
HARMLESS: Final = _words(
    "open imread show display imshow figure subplots subplot axis title suptitle tight_layout savefig save close print",
    "convert copy array asarray fromarray cvtColor set_title format range enumerate zip len int float str list tuple",
    "dict set imwrite size load thumbnail xlabel ylabel colorbar legend join append items get use type sorted xticks",
    "yticks makedirs exists subplots_adjust astype BytesIO clf VideoReader VideoCapture cpu isOpened release",
)
"""Reading, holding and showing: no operation on a picture."""


@dataclass
class Did:
    """What a stretch of code does."""

    operations: set[Operation] = field(default_factory=set)
    facts: set[str] = field(default_factory=set)
    """Of `marks`, `charts`, `canvas`, `picture`, `shows`, `shows_several`, `panels`, `narrows`, `tells`, `unknown`."""

    def add(self, other: Did) -> None:
        self.operations |= other.operations
        self.facts |= other.facts


@dataclass
class CodeReader:
    """Reads the cells of one episode in their order."""

    pictures: set[str] = field(default_factory=set)
    """Names that hold pictures of the task, or what was made of them."""
    videos: set[str] = field(default_factory=set)
    """Names that hold videos."""
    aliases: dict[str, str] = field(default_factory=lambda: dict(ALIASES))
    functions: dict[str, Did] = field(default_factory=dict)
    computed: set[str] = field(default_factory=set)
    """Names that hold a computed number."""
    narrowed: bool = False
    """Whether the cell that was read last shows a part of a picture by the limits of its axes."""

    def __post_init__(self) -> None:
        self.held = set(self.pictures)
        """Names that hold a picture itself, and not its size or a number."""

    def read(self, code: str) -> frozenset[Operation]:
        """Tell what the cell does: `unreadable` where it cannot be read, nothing where it does nothing to a picture."""
        tree = parsed(code)
        if tree is None:
            return frozenset({Operation.UNREADABLE})
        did = Did()
        self.narrowed = False
        try:
            _Walk(self, did).body(tree.body)
        except RecursionError:
            return frozenset({Operation.UNREADABLE})
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr) and _Walk(self, Did()).is_result(last.value):
            did.facts.add("tells")
        self.narrowed = {"shows", "narrows"} <= did.facts
        return frozenset(_operations(did))


def _operations(did: Did) -> set[Operation]:
    """Return the operations, with what only the whole cell can say."""
    operations, facts = set(did.operations), did.facts
    if "marks" in facts:
        operations.add(Operation.SKETCH if "canvas" in facts and "picture" not in facts else Operation.DRAW)
    if "charts" in facts:
        operations.add(Operation.DRAW if {"shows", "picture"} <= facts else Operation.SKETCH)
    if {"shows_several", "panels"} <= facts and Operation.FRAME_FETCH not in operations:
        operations.add(Operation.COMPARE)
    if {"shows", "narrows"} <= facts:
        operations.add(Operation.ZOOM)
    if "tells" in facts:
        operations.add(Operation.NUMERICAL_ANALYSIS)
    if not operations and "unknown" in facts:
        operations.add(Operation.OTHER)
    return operations


@dataclass
class _Walk:
    reader: CodeReader
    did: Did
    loops: int = 0

    def body(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef(name=name, body=body) | ast.AsyncFunctionDef(name=name, body=body):
                inside = _Walk(self.reader, Did())
                inside.body(body)
                self.reader.functions[name] = inside.did
                return
            case ast.Import(names=names):
                for alias in names:
                    bound = alias.name if alias.asname else alias.name.partition(".")[0]
                    self.reader.aliases[alias.asname or bound] = bound
            case ast.ImportFrom(module=str(module), names=names):
                self.reader.aliases |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in names}
            case ast.Assign(targets=targets, value=value):
                self._assign(targets, value)
            case ast.For(target=target, iter=value):
                self._assign([target], value)
            case ast.Name(id=name) if name in self.reader.pictures:
                self.did.facts.add("picture")
            case ast.Subscript(ctx=ast.Load()):
                self._subscript(node)
            case ast.BinOp(op=ast.Sub(), left=left, right=right) if self._differ(left, right):
                self.did.operations.add(Operation.COMPARE)
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=ast.Compare(), right=ast.Compare()):
                self.did.operations.add(Operation.SEGMENT)  # a mask by colour
            case ast.Call():
                self._call(node)
        looped = isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.GeneratorExp)
        self.loops += looped
        self.body(ast.iter_child_nodes(node))
        self.loops -= looped

    def is_computed(self, node: ast.AST) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self.reader.computed
            case ast.BinOp(left=left, right=right):
                texts = _is_text(left) or _is_text(right)
                return not texts or self.is_computed(left) or self.is_computed(right)
            case ast.Compare():
                return True
            case ast.Call(func=func) if self._measures(func):
                return True
            case ast.Lambda():
                return False
            case ast.Attribute(attr=attr) if attr in SIZES:
                return False
        return any(self.is_computed(child) for child in ast.iter_child_nodes(node))

    def is_result(self, node: ast.expr) -> bool:
        """Return whether the value of this last expression of a cell is a number that was computed."""
        if isinstance(node, ast.Call) and not self._measures(node.func):
            return False  # such as plt.imshow(...), whose value nobody asked for
        return self.is_computed(node)

    def _measures(self, func: ast.expr) -> bool:
        name = self._dotted(func)
        root, _, rest = name.partition(".")
        if root in NUMERIC:
            return rest.rpartition(".")[2] not in NO_MEASURE
        return name in MEASURES or (isinstance(func, ast.Attribute) and func.attr in PIXELS)

    def _assign(self, targets: list[ast.expr], value: ast.expr) -> None:
        bound = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        used = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
        calls = {self._dotted(node.func) for node in ast.walk(value) if isinstance(node, ast.Call)}
        reader = self.reader
        if calls & VIDEOS:
            reader.videos |= bound
        if calls & READERS or used & reader.pictures:
            reader.pictures |= bound
        pairs = [(target, value) for target in targets]
        if len(targets) == 1 and isinstance(targets[0], ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(targets[0].elts, value.elts, strict=False))
        held = {target.id for target, one in pairs if isinstance(target, ast.Name) and self._picture(one)}
        reader.held = (reader.held - bound) | held
        if self.is_computed(value):
            reader.computed |= bound
        else:
            reader.computed -= bound

    def _subscript(self, node: ast.Subscript) -> None:
        if self._is_video(node.value):
            self.did.operations.add(Operation.FRAME_FETCH)
            return
        axes = node.slice.elts[:2] if isinstance(node.slice, ast.Tuple) else []
        edges = [edge for axis in axes if isinstance(axis, ast.Slice) for edge in (axis.lower, axis.upper) if edge]
        if len(axes) == 2 and all(isinstance(axis, ast.Slice) for axis in axes) and len(edges) >= 2:
            self.did.operations.add(Operation.CROP)

    def _call(self, node: ast.Call) -> None:
        name, method = self._dotted(node.func), node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in self.reader.functions:
            self.did.add(self.reader.functions[name])
            return
        operation = self._operation(node, name, method)
        if name == "numpy.subtract" and len(node.args) > 1 and self._differ(*node.args[:2]):
            operation = Operation.COMPARE
        if operation is not None:
            self.did.operations.add(operation)
        facts = self._facts(node, name, method)
        self.did.facts |= facts
        last = method or name.rpartition(".")[2]
        if operation is None and not facts and last not in HARMLESS:
            self.did.facts.add("unknown")

    def _operation(self, node: ast.Call, name: str, method: str) -> Operation | None:
        if name in FUNCTIONS:
            return FUNCTIONS[name]
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            if (package := ".".join(parts[:length])) in PACKAGES:
                return PACKAGES[package]
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if method in FRAMES and owner is not None and self._is_video(owner):
            return Operation.FRAME_FETCH
        words = {part.attr for argument in node.args for part in ast.walk(argument) if isinstance(part, ast.Attribute)}
        if method == "filter" and words & EDGE_FILTERS:
            return Operation.DETECT_EDGES
        if method == "transpose":
            return Operation.ROTATE if any(word.startswith(("FLIP", "ROTATE", "TRANS")) for word in words) else None
        root = parts[0] if name else ""
        return None if root in NUMERIC else METHODS.get(method)

    def _facts(self, node: ast.Call, name: str, method: str) -> set[str]:
        last = method or name.rpartition(".")[2]
        axes = self._is_axes(node.func)
        several = last == "imshow" and ("shows" in self.did.facts or self.loops > 0)
        facts = {
            "marks": name in CV_MARKS or name == "PIL.ImageDraw.Draw" or (axes and last in MARKS),
            "charts": axes and last in CHARTS,
            "canvas": name in CANVASES,
            "picture": name in READERS,
            "shows": last == "imshow",
            "shows_several": several,
            "narrows": axes and last in LIMITS and bool(node.args or node.keywords),
            "panels": last in ("subplots", "subplot", "add_subplot"),
            "tells": name == "print" and any(map(self.is_computed, node.args)),
        }
        return {fact for fact, yes in facts.items() if yes}

    def _differ(self, left: ast.expr, right: ast.expr) -> bool:
        """Return whether both are pictures, and not the same one (channels of a picture are it)."""
        one, other = self._picture(left), self._picture(right)
        return bool(one and other and one != other)

    def _picture(self, node: ast.expr) -> str:
        """Tell which picture an expression holds, empty if it is none: what made it, whatever was done to it since."""
        match node:
            case ast.Name(id=name):
                return name if name in self.reader.held else ""
            case ast.Attribute(value=value, attr=attr):
                return "" if attr in SIZES else self._picture(value)
            case ast.Subscript(value=value, slice=place):
                if self._is_video(value):
                    return ast.unparse(node)
                picture = self._picture(value)
                parts = [axis for axis in ast.walk(place) if isinstance(axis, ast.Slice) and (axis.lower or axis.upper)]
                one_of = parts or isinstance(place, ast.Constant)
                return f"{picture}[{ast.unparse(place)}]" if picture and one_of else picture
            case ast.BinOp(left=left, right=right):
                return self._picture(left) or self._picture(right)
            case ast.Call(func=func, args=args):
                return self._made(node, func, args)
        return ""

    def _made(self, node: ast.Call, func: ast.expr, args: list[ast.expr]) -> str:
        name = self._dotted(func)
        method = func.attr if isinstance(func, ast.Attribute) else ""
        owner = self._picture(func.value) if isinstance(func, ast.Attribute) else ""
        if name in READERS or (isinstance(func, ast.Attribute) and self._is_video(func.value)):
            return ast.unparse(node)
        if owner:
            made = ast.unparse(node) if method == "crop" else owner
            return "" if self._measures(func) else made
        return self._picture(args[0]) if args and not self._measures(func) else ""

    def _is_video(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return self._dotted(node.func) in VIDEOS
        return isinstance(node, ast.Name) and node.id in self.reader.videos

    def _is_axes(self, func: ast.expr) -> bool:
        if not isinstance(func, ast.Attribute):
            return False
        owner = func.value.value if isinstance(func.value, ast.Subscript) else func.value
        name = self._dotted(owner)
        return (
            name in ("matplotlib.pyplot", "seaborn") or name.startswith(("ax", "fig")) or name.endswith((".gca", "_ax"))
        )

    def _dotted(self, node: ast.expr) -> str:
        """Return `a.b.c` with its first name as it was imported; an empty text for anything else."""
        names = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.reader.aliases.get(node.id, node.id), *reversed(names)])


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


# What each call of a sample did: what its code says, corrected by what came of it.
#
# Numbers count as analysed only if they were printed; a picture is enlarged only if one came back that is larger than
# what it shows; a part that came back pixel for pixel was cut out, whatever the code looks like; a video's pictures are
# its frames.


def call_uses(studied: Studied) -> Iterator[CallUse]:
    """Return what the calls did, in their order."""
    reader = _reader(studied.trajectory)
    for number, turn in enumerate(studied.trajectory.turns):
        yield from (_hosted(number, call, reader) for call in turn.hosted if call.execution.status is not Status.LOST)
        run, action = turn.execution, turn.action
        if run is None or not is_call(turn):
            continue
        if isinstance(action, Code):
            said = reader.read(action.code)
            operations = _corrected(set(said), number, turn, studied, narrowed=reader.narrowed)
        else:
            operations = _by_tool(action) if isinstance(action, ToolCall) else {Operation.OTHER}
        yield _use_of(number, action.name if isinstance(action, ToolCall) else "", run, operations)


def _use_of(number: int, tool: str, run: Execution, operations: set[Operation]) -> CallUse:
    return CallUse(
        turn=number,
        tool=tool,
        status=run.status,
        operations=tuple(one for one in Operation if one in operations),
        label=label_of(operations),
        pictures=len(run.pictures),
    )


def _by_tool(call: ToolCall) -> set[Operation]:
    """Return what the class of the registered tool says of the call; `other` for a tool that is not registered."""
    kind = tool_class(call.name)
    return {Operation.OTHER} if kind is None else set(kind.operations(call.arguments))


def _hosted(number: int, call: HostedCall, reader: CodeReader) -> CallUse:
    """Return a call of a provider's sandbox, by what its code says only; what a shell or an editor did is `other`."""
    found = set(reader.read(call.code)) if call.language == "python" else {Operation.OTHER}
    return _use_of(number, call.tool, call.execution, found or {Operation.NO_OPERATION})


def _corrected(
    operations: set[Operation], number: int, turn: Turn, studied: Studied, *, narrowed: bool
) -> set[Operation]:
    """Add `narrowed`: the axes of a picture show a part of it, which a figure of any size enlarges."""
    run, task = turn.execution, studied.trajectory.task
    assert run is not None
    shown = [picture.image for picture in run.pictures]
    if not (run.stdout.strip() or run.value):
        operations.discard(Operation.NUMERICAL_ANALYSIS)
    # Regions are sought in pixels, so only where something came back that the code does not explain.
    needed = shown and (Operation.ZOOM in operations or not operations - {Operation.OTHER})
    looked = [region for region in studied.regions if region.turn == number] if needed else []
    if any(region.seen and not _is_full_picture(region, studied.trajectory) for region in looked):
        operations.add(Operation.CROP)
    cut_somewhere = Operation.CROP in operations and not looked
    if not shown or not (narrowed or cut_somewhere or _enlarged(shown, looked, studied.trajectory)):
        operations.discard(Operation.ZOOM)
    video = any(isinstance(item.part, VideoPart) for item in task.media)
    if video and shown and not operations - {Operation.OTHER}:
        operations.add(Operation.FRAME_FETCH)
    if len(operations) > 1:
        operations.discard(Operation.OTHER)
    return operations or {Operation.NO_OPERATION}


def _enlarged(shown: list[ImagePart], looked: list[Region], trajectory: Trajectory) -> bool:
    """Tell whether a picture is larger than a part cut out, or else than the smallest of the task's pictures."""
    areas = [(region.box[2] - region.box[0]) * (region.box[3] - region.box[1]) for region in looked]
    areas = areas or [item.part.width * item.part.height for item in trajectory.task.media]
    return not areas or any(part.width * part.height > min(areas) for part in shown)


def _is_full_picture(region: Region, trajectory: Trajectory) -> bool:
    return any(
        item.name == region.name and region.box == (0, 0, item.part.width, item.part.height)
        for item in trajectory.task.media
    )


def _reader(trajectory: Trajectory) -> CodeReader:
    """Return a reader that knows what the first code found bound."""
    try:
        opening = recorded_dialect(trajectory.provenance.dialect).open(trajectory.task)
    except SaccadeError:
        return CodeReader()
    videos = {item.name for item in trajectory.task.media if isinstance(item.part, VideoPart)}
    return CodeReader(
        pictures={name for name, media in opening.bindings.items() if media not in videos},
        videos={name for name, media in opening.bindings.items() if media in videos},
    )


_LAST: Final = 3
"""Calls from which samples share a bucket, as in CodeV's figure."""


def row(studied: Studied) -> ToolUseRow:
    """Return the row of one sample: its calls, in order."""
    return ToolUseRow(**studied.head, calls=tuple(call_uses(studied)))


def findings(rows: Sequence[ToolUseRow], about: StudiedRun) -> ToolUse:
    """Return the findings of all rows."""
    sources = sorted({row.source for row in rows}, key=natural)
    groups = {source: [row for row in rows if row.source == source] for source in sources}
    return ToolUse(
        about=about,
        total=use(rows),
        sources={source: use(group) for source, group in groups.items()},
        tools=dict(sorted(Counter(call.tool for row in rows for call in row.calls if call.tool).items())),
        rows=tuple(rows),
    )


def use(rows: Sequence[ToolUseRow]) -> Use:
    """Summarise the tool use of some samples."""
    rates = Rates(rows)
    well = [[call for call in row.calls if call.status is Status.OK] for row in rows]
    calls = [len(row.calls) for row in rows]
    seen = {operation for listed in well for call in listed for operation in call.operations}
    kinds = [operation for operation in Operation if operation in seen]
    of_calls = rates.shares([[(sum(kind in c.operations for c in one), len(one)) for one in well] for kind in kinds])
    of_labels = rates.shares([[(sum(c.label is kind for c in one), len(one)) for one in well] for kind in kinds])
    of_samples = rates.rates([[any(kind in call.operations for call in one) for one in well] for kind in kinds])
    return Use(
        samples=len(rows),
        calls=sum(calls),
        failed=sum(calls) - sum(map(len, well)),
        operations=tuple(
            OperationShare(operation=kind, calls=share, samples=samples, labels=labels)
            for kind, share, samples, labels in zip(kinds, of_calls, of_samples, of_labels, strict=True)
        ),
        buckets=_buckets(rows, rates),
        histogram=dict(sorted(Counter(calls).items())),
        calls_per_sample=fmean(calls) if calls else None,
    )


def _buckets(rows: Sequence[ToolUseRow], rates: Rates) -> tuple[CallBucket, ...]:
    numbers = [min(len(row.calls), _LAST) for row in rows]
    span = range(_LAST + 1)
    samples = rates.rates([[number == bucket for number in numbers] for bucket in span])
    inside = [[row.correct if n == bucket else None for row, n in zip(rows, numbers, strict=True)] for bucket in span]
    correct = [
        [None if row.correct is None else row.right and n == bucket for row, n in zip(rows, numbers, strict=True)]
        for bucket in span
    ]
    made = zip(span, samples, rates.credits(inside), rates.rates(correct), strict=True)
    return tuple(
        CallBucket(label=f"{bucket}+" if bucket == _LAST else str(bucket), samples=one, accuracy=mean, correct=right)
        for bucket, one, mean, right in made
    )


PROTOCOL: Final = Protocol("tool_use", "Tool use (PyVision, CodeV)", ToolUse, row, findings)
