"""Episodes as pages: boxes, turns, media, words, and many of them in one file or a folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from markupsafe import Markup
from tests.media import clips
from tests.report.cases import Scene, answered, noise
from tests.report.demo_run import make

from saccade.cli.main import main
from saccade.dialects.base import DIALECTS, load_dialect
from saccade.episode.regions import regions
from saccade.errors import UnavailableError
from saccade.record.codec import dumps, read_lines
from saccade.record.content import Action, Answer, Code, ParseError, ToolCall, VideoPart
from saccade.record.execution import Status
from saccade.record.task import AnswerType, EvidenceBox, NamedMedia
from saccade.record.trajectory import (
    EpisodeLimits,
    FinishReason,
    Provenance,
    Score,
    StopReason,
    TokenCounts,
    Trajectory,
    Turn,
)
from saccade.report.episode_view import card, episode_view, is_frame, legend, segments, verdict
from saccade.report.page import Site, episode_html, page_html, write_pages
from saccade.report.picture_book import PictureBook
from saccade.report.runs import open_run
from saccade.report.words import duration, money


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def shown(scene: Scene, episode: Trajectory) -> str:
    return episode_html(episode_view("e1", episode, PictureBook(scene.store)))


def test_turns_say_what_happened(scene: Scene) -> None:
    failed = scene.ran("1 / 0", status=Status.ERROR, committed=False)
    garbage = Turn(text="hm", action=ParseError(reason="no action"), finish_reason=FinishReason.LENGTH)
    unrun = Turn(text="```python\nx\n```", action=Code(code="x"))
    page = shown(scene, scene.episode(failed, garbage, unrun, answered()))
    deeds = re.findall(r"Turn \d: </span>(.*?)</h3>", page)
    assert deeds == ["ran code", "wrote no action", "wrote code that was not run", "answered"]
    first, second, *_ = re.findall(r"<article.*?</article>", page, re.DOTALL)
    for said in ('<span class="status bad">error</span>', "state rolled back", "Nothing came back."):
        assert said in first
    assert "no action was found" in second
    assert "cut off" in second
    assert "<strong>a cat</strong>" in page
    assert "The model gave its answer." in page


def test_each_picture_is_embedded_once_and_huge_ones_are_scaled_down(scene: Scene) -> None:
    part = noise((60, 40), seed=3)
    book = PictureBook(scene.store, large=200)
    view = episode_view("e1", scene.episode(scene.ran("x", part), scene.ran("y", part), answered()), book)
    assert len(book.sources) == 2, "the task's picture, and the one that came back twice"
    picture = view.pictures[scene.part.sha256]
    assert (picture.size, picture.note) == ("400×300", "shown at 200×150")


def test_sums_and_settings(scene: Scene) -> None:
    counts = TokenCounts(context=1000, sampled=20)
    first = scene.ran("x").model_copy(update={"tokens": counts, "dollars": 0.002, "model_seconds": 1.5})
    made = Provenance(model="m", dialect="pyvision@1:repo", limits=EpisodeLimits(turns=5))
    page = shown(scene, scene.episode(first, answered(), provenance=made))
    rows = [re.findall("<td>(.*?)</td>", row) for row in re.findall(r"<tr>.*?</tr>", page, re.DOTALL)]
    assert ["1", "code", "1.5 s", "0 ms", "1,000", "–", "20", "$0.0020"] in rows
    assert ["total", "answer", "1.5 s", "0 ms", "1,000", "–", "20", "$0.0020"] in rows
    facts = set(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", page))
    assert {("model", "m"), ("limit: turns", "5"), ("cost", "$0.0020")} <= facts


def test_choices_show_what_was_chosen_and_what_is_right(scene: Scene) -> None:
    task = scene.task(choices=("cat", "dog", "cow"), answer="dog", answer_type=AnswerType.CHOICE)
    for said in ("A", "cat"):
        assert re.findall('<li class="(.*?)"><b>', shown(scene, scene.episode(answered(said), task=task))) == [
            "chosen",
            "gold",
            "",
        ]


def test_evidence_is_told_from_looks(scene: Scene) -> None:
    task = scene.task(evidence=(EvidenceBox(image="photo", xyxy=(60, 70, 80, 90), label="sign"),))
    turn = scene.ran("image_clue_0.crop((50, 60, 150, 130))")
    view = episode_view("e1", scene.episode(turn, answered(), task=task), PictureBook(scene.store))
    look, evidence = legend(view.boxes["photo"])
    assert (look.turn, look.edges, look.place) == (1, (50, 60, 150, 130), "100×70 at 50, 60")
    assert (evidence.turn, evidence.colour, evidence.title) == (None, "evidence", "evidence: sign")
    assert view.looked == {1: 1}


def test_numbers_of_boxes_do_not_cover_each_other(scene: Scene) -> None:
    same = [scene.ran(f"image_clue_0.crop((200, 150, 260, {200 + row}))") for row in range(5)]
    view = episode_view("e1", scene.episode(*same, answered()), PictureBook(scene.store))
    tags = [box.tag for box in view.boxes["photo"]]
    for index, one in enumerate(tags):
        assert 0 <= one[0] < one[2] <= 400
        assert 0 <= one[1] < one[3] <= 300
        for other in tags[:index]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@pytest.mark.parametrize(
    ("scores", "word", "right"),
    [
        ([], "not scored", None),
        ([Score(name="correct", value=1.0)], "right", True),
        ([Score(name="correct", value=0.0), Score(name="format", value=1.0)], "wrong", False),
        ([Score(name="correct", value=0.4)], "correct 0.4", None),
        ([Score(name="correct"), Score(name="format", value=1.0)], "not scored", None),
    ],
)
def test_verdicts(scores: list[Score], word: str, right: bool | None) -> None:
    found = verdict(scores)
    assert (found.word, found.right) == (word, right)


def test_missing_and_broken_media_are_placeholders_with_a_reason(scene: Scene) -> None:
    turn = scene.ran("x", noise((30, 30), seed=5), noise((31, 30), seed=6))
    assert turn.execution is not None
    gone, broken = (picture.image for picture in turn.execution.pictures)
    scene.store.path(gone.sha256).unlink()
    scene.store.path(broken.sha256).write_bytes(b"no picture")
    view = episode_view("e1", scene.episode(turn, answered()), PictureBook(scene.store))
    first, second = view.pictures[gone.sha256], view.pictures[broken.sha256]
    assert "missing" in first.problem
    assert "cannot be shown" in second.problem
    assert str(scene.root) not in first.problem + second.problem, "a page that is sent on names no folder of its maker"
    alone = episode_view("e1", scene.episode(turn, answered()), PictureBook(None))
    assert "missing" in alone.pictures[scene.part.sha256].problem


def test_a_video_is_a_strip_of_frames_with_a_player_where_the_file_lies_beside_the_page(scene: Scene) -> None:
    pytest.importorskip("av")
    part = scene.store.put_video(clips.h264(60))
    task = scene.task(media=(NamedMedia(name="clip", part=part),))
    turn = scene.ran("frame.show()", noise((40, 30), 7))
    episode = scene.episode(turn, answered(), task=task)
    book = PictureBook(scene.store)
    film = episode_view("e1", episode, book).videos["clip"]
    assert len(film.frames) == 8
    assert film.frames[0].caption == "0.0 s"
    assert [(frame.caption, frame.turn) for frame in film.looked] == [("turn 1", 1)]
    assert (film.href, film.problem) == ("", "")
    assert {frame.picture.key for frame in (*film.frames, *film.looked)} <= set(book.sources)
    book.folder = scene.store.path(part.sha256).parents[2]
    film = episode_view("e1", episode, book).videos["clip"]
    assert (book.folder / film.href).read_bytes() == scene.store.get_bytes(part.sha256)
    assert ".." not in film.href
    page = page_html("x", episode_html(episode_view("e1", episode, book), root="../"), book.sources)
    assert f'src="../{film.href}"' in page
    assert "media-src" in page
    assert "media-src" not in page_html("x", Markup("<p>no film</p>"), {})


def test_a_video_without_frames_says_why(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("av")
    part = scene.store.put_video(clips.h264(10))
    episode = scene.episode(answered(), task=scene.task(media=(NamedMedia(name="clip", part=part),)))

    def problem(book: PictureBook) -> str:
        film = episode_view("e1", episode, book).videos["clip"]
        assert film.frames == ()
        return film.problem

    def lacking(*_: object, **__: object) -> None:
        raise UnavailableError("no PyAV")

    assert "no media folder" in problem(PictureBook(None))
    with monkeypatch.context() as patch:
        patch.setattr("saccade.report.episode_view.sample_frames", lacking)
        assert "pip install 'saccade-vlm[video]'" in problem(PictureBook(scene.store))
    scene.store.path(part.sha256).write_bytes(b"broken")
    assert "cannot be read" in problem(PictureBook(scene.store))
    scene.store.path(part.sha256).unlink()
    assert problem(PictureBook(scene.store)).startswith("missing")


def test_frames_that_were_sampled_before_are_known_by_their_names() -> None:
    names = {"video@1.50s#45": True, "video@x": False, "clue": False, "a@s#": False}
    assert {name: is_frame(name) for name in names} == names


def test_a_video_is_named(scene: Scene) -> None:
    part = VideoPart(sha256="0" * 64, width=64, height=48, frames=50, fps=25, seconds=2)
    task = scene.task(media=(NamedMedia(name="clip", part=part),))
    view = episode_view("e1", scene.episode(answered(), task=task), PictureBook(scene.store))
    assert "2.0 s, 50 frames" in view.pictures[part.sha256].problem


def test_an_episode_that_never_began(scene: Scene) -> None:
    episode = scene.episode(stop=StopReason.MODEL_LOST, stop_detail="503")
    page = shown(scene, episode)
    for said in ("The model wrote nothing.", "no answer", "<pre>503</pre>"):
        assert said in page
    assert card("#e1", episode, PictureBook(scene.store)).turns == 0


def test_units() -> None:
    times = (0, 0.0001, 0.25, 3.44, 125, 7300)
    assert [duration(t) for t in times] == ["0 ms", "<1 ms", "250 ms", "3.4 s", "2 min 5 s", "2 h 1 min"]
    assert [money(d) for d in (None, 0.0, 0.0123, 2.5)] == ["–", "$0.00", "$0.0123", "$2.50"]


def episodes(scene: Scene, number: int) -> list[Trajectory]:
    return [scene.episode(answered(f"answer {index}"), id=f"noise#{index}") for index in range(number)]


def test_one_episode_is_a_page_without_an_index(scene: Scene) -> None:
    written = write_pages(episodes(scene, 1), scene.store, scene.root / "index.html")
    page = written.page.read_text(encoding="utf-8")
    assert 'id="index"' not in page
    assert "All episodes" not in page


def test_many_episodes_are_one_file_with_an_index(scene: Scene) -> None:
    written = write_pages(episodes(scene, 3), scene.store, scene.root / "out" / "index.html")
    assert (written.episodes, written.folder) == (3, None)
    page = written.page.read_text(encoding="utf-8")
    for number in (1, 2, 3):
        assert f'href="#e{number}"' in page
        assert f'<section class="episode" id="e{number}"' in page
    assert page.count("data:image/webp") == 2, "one picture as it is shown, and its thumbnail on the index"


def test_beyond_the_budget_each_episode_has_its_own_page(scene: Scene) -> None:
    written = write_pages(episodes(scene, 3), scene.store, scene.root / "index.html", budget=30_000)
    assert written.folder is not None
    page = written.page.read_text(encoding="utf-8")
    assert "each has its own" in page.replace("each episode", "each")
    for number in (1, 2, 3):
        assert f'href="index_episodes/e{number}.html"' in page
        alone = (written.folder / f"e{number}.html").read_text(encoding="utf-8")
        assert 'href="../index.html"' in alone
        assert f"answer {number - 1}" in alone
    assert not list(scene.root.rglob("*.part"))


def test_a_picture_that_episodes_share_counts_once(scene: Scene) -> None:
    alone = write_pages(episodes(scene, 1), scene.store, scene.root / "one.html").page.stat().st_size
    written = write_pages(episodes(scene, 6), scene.store, scene.root / "six.html", budget=2 * alone)
    assert written.folder is None


def test_a_run_without_episodes_says_so(scene: Scene) -> None:
    written = Site(scene.root / "index.html", scene.store).finish()
    assert "no episode to show" in written.page.read_text(encoding="utf-8")


def test_broken_lines_are_told_and_the_rest_is_shown(scene: Scene) -> None:
    lines = [dumps(episode) for episode in episodes(scene, 3)]
    file = scene.root / "trajectories.jsonl"
    file.write_text(f"{lines[0]}\n{{}}\n\n{lines[1]}\n{lines[2][:50]}", encoding="utf-8")
    run = open_run(scene.root)
    assert [episode.id for episode in run.trajectories()] == ["noise#0", "noise#1"]
    assert ["Line 2" in run.problems[0], "cut short" in run.problems[1]] == [True, True]
    assert run.count() == 5


def test_a_whole_last_line_without_its_break_is_shown(scene: Scene) -> None:
    (scene.root / "trajectories.jsonl").write_text(dumps(episodes(scene, 1)[0]), encoding="utf-8")
    run = open_run(scene.root)
    assert len(list(run.trajectories())) == 1
    assert not run.problems


def pieces(text: str, action: Action) -> list[tuple[str, str]]:
    return [(piece.kind, piece.text.strip()) for piece in segments(Turn(text=text, action=action))]


def test_thought_and_code() -> None:
    text = "<think>Look there.</think>\n<code>\n```python\nx = 1\n```\n</code>"
    assert pieces(text, Code(code="x = 1")) == [("thought", "Look there."), ("code", "x = 1")]


def test_code_in_the_middle_of_a_thought() -> None:
    text = "<think>First.\n<code>\n```python\nx = 1\n```\n</code>\nThen more.</think>"
    assert pieces(text, Code(code="x = 1")) == [("thought", "First."), ("code", "x = 1"), ("thought", "Then more.")]


def test_code_that_the_text_does_not_hold() -> None:
    text = 'I run it.\n<tool_call>{"code": "x = 1\\ny = 2"}</tool_call>'
    assert pieces(text, Code(code="x = 1\ny = 2")) == [("thought", "I run it."), ("code", "x = 1\ny = 2")]


def test_a_call_shows_its_arguments() -> None:
    action = ToolCall(name="crop", arguments={"box": [1, 2, 3, 4]})
    [thought, call] = segments(Turn(text='Closer.\n<tool_call>{"x": 1}</tool_call>', action=action))
    assert (thought.kind, thought.text) == ("thought", "Closer.")
    assert (call.kind, call.title) == ("call", "crop")
    assert '"box"' in call.text


def test_an_answer_is_not_said_twice() -> None:
    assert pieces("So.\n<answer>\\boxed{7}</answer>", Answer(text="7")) == [("thought", "So."), ("answer", "7")]
    assert pieces("7", Answer(text="7")) == [("answer", "7")]
    assert pieces("", Answer(text="")) == [("answer", "")]


def test_code_that_is_only_quoted_is_told_apart() -> None:
    text = "I would write\n```python\nx = 1\n```\nbut I cannot."
    assert pieces(text, ParseError(reason="none")) == [
        ("thought", "I would write"),
        ("quoted", "x = 1"),
        ("thought", "but I cannot."),
    ]


def test_a_quote_is_found_where_it_stands() -> None:
    text = "x = 1 is what I mean:\n```\nx = 1\n```\nand\n```python\ny"
    assert pieces(text, ParseError(reason="none")) == [
        ("thought", "x = 1 is what I mean:"),
        ("quoted", "x = 1"),
        ("thought", "and"),
        ("quoted", "y"),
    ]


LONG = {"tags": "<answer>", "blanks": " ", "letters": "a", "fences": "```\n"}


@pytest.mark.parametrize("piece", LONG.values(), ids=LONG.keys())
def test_long_texts_take_linear_work(piece: str) -> None:
    """Quadratic work on a text of this length would outlast the time limit of a test."""
    for action in (Code(code="b" + "a" * 50_000), Answer(text="x"), ToolCall(name="x", arguments={})):
        segments(Turn(text="a" + piece * (300_000 // len(piece)) + "b", action=action))


@pytest.mark.parametrize("entry", [name for name in DIALECTS.ids() if "video" not in name])
def test_every_dialect_is_told_apart(entry: str) -> None:
    dialect = load_dialect(entry)
    said = 0
    for action in (
        Code(code="x = 1\nprint(x)"),
        ToolCall(name="crop", arguments={"box": [1, 2, 3, 4]}),
        Answer(text="B7"),
    ):
        try:
            text = dialect.write(action, "Let me see.")
        except ValueError:
            continue  # the dialect has no such action
        said += 1
        read = dialect.parse(text, FinishReason.STOP)
        [thought, deed] = segments(Turn(text=text, action=read))
        assert (thought.kind, thought.text) == ("thought", "Let me see.")
        assert deed.kind == {"code": "code", "tool_call": "call", "answer": "answer"}[read.kind]
    assert said


@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
@pytest.mark.slow
def test_an_episode_that_was_really_played(tmp_path: Path) -> None:
    run = open_run(make(tmp_path))
    [episode] = read_lines(run.file, Trajectory)
    found = [(region.turn, region.box, region.seen) for region in regions(episode, PictureBook(run.store))]
    assert found == [
        (0, (2020, 1040, 2520, 1360), True),
        (1, (2156, 1200, 2416, 1328), False),
        (3, (2224, 1240, 2344, 1288), True),
        (3, (620, 1810, 1140, 2104), True),
    ]
    assert main(["show", str(tmp_path), "--no-open"]) == 0
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "IndexError: image index out of range" in page
    assert page.count('class="turn hue') == 5
    assert len(page) < 400_000
