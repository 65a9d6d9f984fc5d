"""Attacks on the page: text in every field, read back by a parser that sees elements as a browser does."""

from __future__ import annotations

import base64
import json
import math
import re
import unicodedata
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from tests.report.cases import Scene, answered, filled

from saccade.report.page import page_html, script_json, write_pages
from saccade.report.plots import (
    CURVES_WIDTH,
    HEIGHT,
    Axes,
    Dot,
    Figure,
    Series,
    StackedBar,
    bars,
    curves,
    dots,
    scale,
    shares,
    short,
    stacks,
    tight,
)
from saccade.report.words import cut_end, one_line, readable

ATTACKS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</script><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</pre></code></textarea></title><iframe src=javascript:alert(1)>",
    '" onmouseover="alert(1)" x="',
    "javascript:alert(1)",
    "<!--<script>",
    "]]><script>alert(1)</script>",
    "{{ 7 * 7 }}{% raw %}",
    "\u2028</script>\u2029\x00<b>",
    "\u202egnp.exe\u2066 \x1b]8;;http://evil\x07link",
    "&lt;script&gt;&#60;img onerror=1&#62;",
]


ELEMENTS = frozenset(
    """
    html head meta title style body aside p noscript main footer dialog div button script section nav a header
    span h1 ol li b strong dl dt dd pre figure img svg g rect text figcaption ul h2 details summary article h3
    code table thead tbody tfoot tr th td i
    """.split()  # noqa: SIM905
)


ATTRIBUTES = frozenset(
    """
    lang charset http-equiv content name class id type aria-label aria-live aria-labelledby aria-hidden href
    hidden data-picture data-turn width height alt viewbox x y font-size role tabindex scope open
    """.split()  # noqa: SIM905
)


class Seen(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.comments: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        if not self.elements or self.elements[-1][0] not in ("script", "style"):
            self.text += data


def page_of(scene: Scene, text: str) -> str:
    return write_pages([filled(scene, text)], scene.store, scene.root / "page.html").page.read_text(encoding="utf-8")


def shape(seen: Seen) -> list[tuple[str, tuple[str, ...]]]:
    """Elements without the spans of highlighted code, which depend on the text by their nature."""
    return [(tag, tuple(attributes)) for tag, attributes in seen.elements if tag != "span"]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.few(4)
def test_text_stays_text(tmp_path: Path, attack: str) -> None:
    scene = Scene(tmp_path)
    page = page_of(scene, attack)
    seen = Seen(page)
    assert {tag for tag, _ in seen.elements} <= ELEMENTS
    assert {name for _, attributes in seen.elements for name in attributes} <= ATTRIBUTES
    for tag, attributes in seen.elements:
        assert tag != "a" or str(attributes["href"]).startswith("#e1-t")
        assert tag != "span" or set(attributes) <= {"class", "aria-hidden"}
    assert not seen.comments
    assert [tag for tag, _ in seen.elements].count("script") == 2
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]", page)
    harmless = Seen(page_of(Scene(tmp_path / "harmless"), "word"))
    assert shape(seen)[:12] == shape(harmless)[:12]


def test_the_attacks_are_on_the_page_as_text(tmp_path: Path) -> None:
    seen = Seen(page_of(Scene(tmp_path), ATTACKS[0]))
    # Question, choice, answer, gold, stop detail, prompt, four turns of many fields, settings.
    assert seen.text.count(ATTACKS[0]) > 40


def test_every_text_of_the_record_is_on_the_page(tmp_path: Path) -> None:
    """A field that the page forgets is found by a word that stands in that field alone."""
    scene = Scene(tmp_path)
    episode = filled(scene, "QQQ")
    parts = episode.model_dump_json().split("QQQ")
    text = "".join(f"{part}w{number}w" for number, part in enumerate(parts[:-1])) + parts[-1]
    # Names that refer to each other must stay the same, so these are not told apart.
    text = re.sub(r'"(name|image)":"w\d+w"', r'"\1":"photo"', text)
    task = json.loads(text)
    task["task"]["choices"][0] = task["task"]["answer"]
    marked = type(episode).model_validate_json(json.dumps(task), strict=True)
    page = write_pages([marked], scene.store, tmp_path / "page.html").page.read_text(encoding="utf-8")
    shown = Seen(page).text
    missing = [word for word in re.findall(r"w\d+w", json.dumps(task)) if word not in shown]
    by_value = {word: re.search(rf'"(\w+)":\s*\[?"[^"]*{word}', json.dumps(task)) for word in missing}
    assert len(re.findall(r"w\d+w", text)) > 60
    names = {found.group(1) if found else word for word, found in by_value.items()}
    # The layers of an execution are those of the whole episode, which are shown once.
    assert names <= {"layers"}, names


def test_the_policy_names_this_style_and_this_script_alone() -> None:
    page = page_html("title", Markup("<p>x</p>"), {})
    seen = Seen(page)
    [policy] = [a["content"] for _, a in seen.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        [body] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"""(https?:|//[a-z]|url\(|@import|\bstyle=|\son[a-z]+=)""", page.replace("http-equiv", ""))


def test_data_for_the_script_cannot_end_it() -> None:
    value = {"</script>": "<!-- \u2028 ]]> & \x00"}
    text = script_json(value)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value


def test_problems_are_told_on_the_page() -> None:
    page = page_html("t", Markup(""), {}, ("line 3 <b>is</b> torn",))
    assert "line 3 &lt;b&gt;is&lt;/b&gt; torn" in page


def test_nothing_depends_on_the_order_of_a_set_or_the_clock(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    episodes = [scene.episode(scene.ran("image_clue_0.crop((1, 2, 60, 70))"), answered())] * 2
    pages = [write_pages(episodes, scene.store, tmp_path / f"{name}.html").page.read_bytes() for name in "ab"]
    assert pages[0] == pages[1]


def test_terminal_sequences_are_dropped() -> None:
    assert readable("\x1b[1;31mred\x1b[0m \x1b]0;title\x07done\x1b(B") == "red done"


def test_hidden_characters_are_written_out() -> None:
    assert readable("a\u202eb\x00\u200b\ufeff\u2028") == "a⟨U+202E⟩b⟨U+0000⟩⟨U+200B⟩⟨U+FEFF⟩⟨U+2028⟩"


def test_what_people_write_stays() -> None:
    text = "日本語 naïve 👩\u200d👧 مرحبا\n\tx = 1"
    assert readable(text) == text


def test_a_lone_carriage_return_shows_what_it_hid() -> None:
    assert readable("true\rfalse\r\nend") == "true␍\nfalse\nend"


@given(st.text(max_size=60))
def test_nothing_that_acts_is_left(text: str) -> None:
    for character in readable(text):
        assert character in "\n\t\u200c\u200d" or unicodedata.category(character) not in ("Cc", "Cf", "Zl", "Zp")


@given(st.text(max_size=60), st.integers(1, 40))
def test_cuts(text: str, longest: int) -> None:
    assert len(one_line(text, longest)) <= longest
    cut = cut_end(text, longest)
    assert cut == text if len(text) <= longest else re.search(rf"{len(text) - longest} more characters", cut)


HOSTILE = "</svg><script>alert(1)</script>&\u202e"


AXES = Axes("step", "right", percent=True)


numbers = st.floats(-1e12, 1e12, allow_nan=False).filter(lambda value: value == 0 or abs(value) > 1e-9)


def elements(figure: Figure | None, tag: str) -> list[ElementTree.Element]:
    assert figure is not None
    root = ElementTree.fromstring(str(figure.svg))
    assert (root[0].tag, root[1].tag) == ("title", "desc")
    return list(root.iter(tag))


@given(st.lists(numbers, min_size=1, max_size=20), st.booleans())
def test_an_axis_holds_its_values(values: list[float], zero: bool) -> None:
    axis = scale(values, (10.0, 200.0), zero=zero)
    assert 2 <= len(axis.ticks) <= 9
    for value in [*values, *([0.0] if zero else [])]:
        assert 10 <= axis(value) <= 200
    across = tight(values, (10.0, 200.0))
    assert all(10 <= across(value) <= 200 for value in values)
    assert all(across.low <= tick <= across.high for tick in across.ticks)


@pytest.mark.parametrize(("most", "end"), [(0.62, 1.0), (0.11, 1.0), (1.0, 1.0), (0.08, 0.08), (0.0, 1.0)])
def test_an_axis_of_percent_ends_at_100_but_for_small_shares(most: float, end: float) -> None:
    assert scale([most], (0, 100), zero=True, share=True).high == pytest.approx(end)


def test_what_has_nothing_to_show_is_flat() -> None:
    def flat(*figures: Figure | None) -> list[str]:
        return [figure.flat for figure in figures if figure is not None]

    assert flat(
        *(bars("", "", {"a": {"x": one, "y": other}}, "", True) for one, other in ((0, 0), (1, 1), (0, 1)))
    ) == [
        "0%",
        "100%",
        "",
    ]
    assert flat(bars("", "", {"a": {"x": 1.0}}, "calls", False)) == [""], "one call is something"
    assert flat(*(curves("", "", [Series("a", ((1, y), (2, y)), 0)], AXES) for y in (0, 0.5, 1))) == ["0%", "", "100%"]
    kinds = {"right": "a", "wrong": "b"}
    assert flat(
        *(shares("", "", [StackedBar("a", parts)], kinds) for parts in ({"right": 2}, {"right": 2, "wrong": 1}))
    ) == [
        "right, 100%",
        "",
    ]
    assert flat(dots("", "", [Dot("a", 1.0), Dot("b", 1.0)], "")) == ["100%"]


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [
        (0.0, 0.1, "0"),
        (0.30000000000000004, 0.1, "0.3"),
        (0.25, 0.05, "0.25"),
        (0.75, 0.25, "0.75"),
        (7.5, 2.5, "7.5"),
        (1200, 200, "1,200"),
        (35000, 5000, "35k"),
        (1.25e6, 0, "1.25M"),
        (-0.5, 0.5, "−0.5"),
        (1e-5, 2e-6, "1e−05"),
        (0.123456, 0, "0.123"),
    ],
)
def test_numbers_are_short(value: float, step: float, text: str) -> None:
    assert short(value, step) == text


def test_curves_stand_where_their_values_are_and_skip_what_is_no_number() -> None:
    points = ((1.0, 0.0), (2.0, math.nan), (3.0, 1.0), (4.0, math.inf))
    figure = curves("Accuracy", "right by step", [Series("a", points, 0, marks=True)], AXES)
    marks = [(float(mark.get("cx", "")), float(mark.get("cy", ""))) for mark in elements(figure, "circle")]
    (left, low), (right, high) = marks
    assert 0 < left < right < CURVES_WIDTH
    assert 0 < high < low < HEIGHT
    assert [mark[0].text for mark in elements(figure, "circle")] == ["a: 0% at 1", "a: 100% at 3"]
    assert curves("nothing", "", [Series("a", ((1.0, math.nan),), 0)], AXES) is None


def test_columns_add_up_and_many_steps_share_one() -> None:
    parts = {"decoding": [(step, 3.0) for step in range(1000)], "update": [(step, 1.0) for step in range(1000)]}
    figure = stacks("Time", "", {**parts, "never": [(1.0, 0.0)]}, ("step", "seconds"))
    columns = elements(figure, "rect")
    assert len(columns) == 2 * 100
    heights = [float(column.get("height", "")) for column in columns]
    assert heights[::2] == pytest.approx([3 * value for value in heights[1::2]], abs=0.5)
    assert figure is not None
    assert [key.name for key in figure.legend] == ["decoding", "update"]
    assert stacks("Time", "", {"never": [(1.0, 0.0)]}, ("step", "seconds")) is None


def test_shares_are_parts_of_the_whole() -> None:
    figure = shares(
        "Outcomes", "", [StackedBar("run", {"right": 3, "wrong": 1})], {"right": "a", "wrong": "b", "lost": "c"}
    )
    widths = [float(part.get("width", "")) for part in elements(figure, "rect")]
    assert widths[0] + 1 == pytest.approx(3 * (widths[1] + 1), abs=0.5)
    assert [key.name for key in figure.legend] == ["right", "wrong"] if figure else False


def test_texts_of_strangers_stay_texts() -> None:
    series = [Series(HOSTILE, ((1.0, 1.0),), 0, marks=True), Series("b", ((1.0, 1.0),), 1)]
    made = [
        curves(HOSTILE, HOSTILE, series, AXES),
        stacks(HOSTILE, HOSTILE, {HOSTILE: [(1.0, 1.0)]}, ("step", "seconds")),
        bars(HOSTILE, HOSTILE, {HOSTILE: {HOSTILE: 0.5}}, "share", True),
        shares(HOSTILE, HOSTILE, [StackedBar(HOSTILE, {HOSTILE: 1})], {HOSTILE: "tone-right"}),
        dots(HOSTILE, HOSTILE, [Dot(HOSTILE, 0.5, why=HOSTILE)], "right"),
    ]
    for figure in made:
        assert figure is not None
        assert not elements(figure, "script")
        assert "\u202e" not in figure.svg
        assert not re.search(r"\sstyle=", str(figure.svg)), "the page's policy forbids styles of elements"
