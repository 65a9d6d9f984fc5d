"""Attacks on the page: text in every field, read back by a parser that sees elements as a browser does."""

from __future__ import annotations

import base64
import json
import re
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import Markup
from tests.report.cases import Scene, answered, filled

from saccade.report.episodes import write_pages
from saccade.report.page import page_html, script_json

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
