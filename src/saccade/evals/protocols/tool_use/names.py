"""Names of functions and methods by what they do to pictures; a table, no code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from saccade.tools.operation import Operation

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
"""By name alone: what the object is cannot be known from the code."""
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
