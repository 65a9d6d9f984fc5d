"""The wire format of the PyVision dialects, against golden files."""

from __future__ import annotations

import pytest
from tests.dialects.cases import (
    CROP,
    ERROR,
    PHOTO,
    PLAN,
    PLOT,
    SECRET,
    TIMEOUT,
    choice_task,
    golden,
    ok,
    plain,
    task,
    video_task,
)

from saccade.dialects.base import load_dialect
from saccade.dialects.prompt_texts import Prompts
from saccade.dialects.pyvision import PyVisionDialect
from saccade.dialects.pyvision_rl import PyVisionRLDialect
from saccade.errors import SettingsError
from saccade.record.content import Answer, Code, ParseError, TextPart
from saccade.record.execution import Execution, Status
from saccade.record.task import NamedMedia
from saccade.record.trajectory import FinishReason

PYVISION = load_dialect("pyvision")
RL = load_dialect("pyvision-rl-image")
STOP, STRING, LENGTH = FinishReason.STOP, FinishReason.STOP_STRING, FinishReason.LENGTH
BLOCK = "<code>\n```python\nx = 1\n```\n</code>"


@pytest.mark.parametrize("dialect", [PYVISION, RL], ids=["pyvision", "rl"])
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"I look.\n{BLOCK}", "x = 1"),
        (f"I use the <code> tag: {BLOCK}", "x = 1"),
        ("<code>\n```python\na\n```\nor\n```python\nb\n```\n</code>", "b"),
        ("<code>\nx = 1\n</code>", "x = 1"),
        ("<code>```python\nx = 1\n```</code>", "x = 1"),
        ("<code>\n```python\nx = 1\n</code>", "x = 1\n"),
        ("in <code> tags\n<code>x = 2</code>", "x = 2"),
    ],
)
def test_code(dialect: object, text: str, code: str) -> None:
    assert dialect in (PYVISION, RL)
    found = (PYVISION if dialect is PYVISION else RL).parse(text, STRING)
    assert found == Code(code=code)


def test_answers() -> None:
    for dialect in (PYVISION, RL):
        assert dialect.parse("So <answer>\n\\boxed{\\frac{1}{2}}\n</answer>", STOP) == Answer(text="\\frac{1}{2}")
        assert dialect.parse("<answer>A</answer> no: <answer>B</answer>", STOP) == Answer(text="B")
    assert PYVISION.parse("So it is \\boxed{STOP}.", STOP) == Answer(text="STOP")
    assert PYVISION.parse("I used <code> before. <answer>A</answer>", STOP) == Answer(text="A")


def test_code_or_answer_first() -> None:
    text = f"<answer>A</answer> {BLOCK}"
    assert PYVISION.parse(text, STRING) == Code(code="x = 1")
    assert RL.parse(text, STRING) == Answer(text="A")
    assert RL.parse(f"<answer></answer>{BLOCK}", STRING) == Code(code="x = 1")


def test_bare_fence_counts_in_rl_alone() -> None:
    text = "```python\na\n```\n```python\nb\n```"
    assert RL.parse(text, STOP) == Code(code="b")
    assert isinstance(PYVISION.parse(text, STOP), ParseError)


@pytest.mark.parametrize(
    "text", ["", "I think it is red.", "<answer></answer>", "<code></code>", "the <code> tag", "</code>"]
)
def test_no_action(text: str) -> None:
    for dialect in (PYVISION, RL):
        assert isinstance(dialect.parse(text, STOP), ParseError)


def test_cut_off_code_is_no_code() -> None:
    for cut in range(len("<code>"), len(BLOCK) - len("</code>") + 1):
        for dialect in (PYVISION, RL):
            assert isinstance(dialect.parse(BLOCK[:cut], LENGTH), ParseError), BLOCK[:cut]
    assert isinstance(RL.parse("<answer>A</answer> and", LENGTH), ParseError)


@pytest.mark.parametrize("name", ["pyvision", "pyvision-rl-image", "codedance", "codev"])
def test_lone_surrogates_do_no_harm(name: str) -> None:
    assert load_dialect(name).parse("<code>\n```python\n'\ud800'\n```\n</code>", STRING) == Code(code="'\ufffd'")
    assert load_dialect(name).parse("<answer>\udfff</answer>", STOP) == Answer(text="\ufffd")


SHORT = Prompts({"*": "{width}x{height} [{image_information}] {query}"}, "a test")
RL_NAMES = ("pyvision-rl-image", "pyvision-rl-image-no-hint", "pyvision-rl-video")
LONG = "a" * 200 + "b" * 9 + "c" * 200


def short(wanted: str) -> PyVisionDialect | PyVisionRLDialect:
    dialect = load_dialect(wanted)
    assert isinstance(dialect, PyVisionDialect | PyVisionRLDialect)
    return dialect.with_prompts(SHORT)


@pytest.mark.parametrize("name", ["pyvision", *RL_NAMES])
def test_observations(name: str) -> None:
    expected, dialect = golden(name), load_dialect(name)
    shown = dialect.open(video_task() if "video" in name else task()).pictures
    executions = {
        "text": ok("42\n"),
        "silent": ok(),
        "pictures": ok("42\n", PLOT, CROP),
        "long": ok(LONG),
        "error": ERROR,
        "timeout": TIMEOUT,
    }
    for case, execution in executions.items():
        seen = dialect.observe(execution, shown)
        assert plain(seen.message) == expected[case], case
        assert seen.pictures == shown + (2 if case == "pictures" else 0)
        assert seen.bindings == {}
    corrected = dialect.correct("why", shown)
    assert corrected is not None
    assert plain(corrected.message) == expected["no_action"]


@pytest.mark.parametrize("name", RL_NAMES)
@pytest.mark.parametrize("preset", ["paper", "repo"])
def test_rl_openings(name: str, preset: str) -> None:
    expected, dialect = golden(name), short(f"{name}:{preset}")
    opening = dialect.open(video_task() if "video" in name else task())
    assert [plain(message) for message in opening.messages] == expected["opening"]
    assert opening.bindings == expected["bindings"]
    assert opening.pictures == (1 if name == "pyvision-rl-image" else 0)
    assert (dialect.correct("why", 0) is None) == (preset == "repo")
    assert dialect.limits.turns == 5
    assert dialect.limits.context_tokens == (32_768 if preset == "paper" else 52_480)


def test_pyvision_openings() -> None:
    expected, dialect = golden("pyvision"), short("pyvision")
    cases = {
        "opening": task(),
        "opening_two": task(pictures=(PHOTO, PLAN)),
        "opening_inline": task("Is <IMAGE_PLACE_HOLDER_1> new?", (PHOTO, PLAN)),
    }
    for case, given in cases.items():
        opening = dialect.open(given)
        assert [plain(message) for message in opening.messages] == expected[case], case
        assert opening.pictures == len(given.media)
        assert opening.bindings == {f"image_clue_{i}": item.name for i, item in enumerate(given.media)}


@pytest.mark.parametrize("name", ["pyvision", *RL_NAMES])
def test_own_prompts_show_the_question_and_no_secret(name: str) -> None:
    dialect = load_dialect(name)
    if "video" not in name:
        text = dialect.open(choice_task()).messages[0].text
        assert "Which?\nA. red\nB. blue" in text
    text = dialect.open(video_task() if "video" in name else task()).messages[0].text
    assert "What is it?" in text
    assert "\\boxed{answer}" in text
    assert SECRET not in text
    assert "secret program" not in text


def test_limits() -> None:
    assert load_dialect("pyvision").sandbox.wall_seconds == 20
    assert load_dialect("pyvision-rl-image").sandbox.wall_seconds == 30
    assert load_dialect("pyvision-rl-video").limits.images == 32
    assert load_dialect("pyvision").stop == load_dialect("pyvision-rl-video").stop == ("</code>",)


def test_bound_preset_binds_shown_pictures() -> None:
    assert load_dialect("pyvision:bound").observe(ok("", PLOT, CROP), 3).bindings == {
        "image_clue_3": PLOT,
        "image_clue_4": CROP,
    }


def test_other_media_are_refused_with_a_hint() -> None:
    for name in ("pyvision", "pyvision-rl-image", "pyvision-rl-image-no-hint"):
        with pytest.raises(SettingsError, match="pyvision-rl-video"):
            load_dialect(name).open(video_task())
    with pytest.raises(SettingsError, match="pyvision-rl-image"):
        load_dialect("pyvision-rl-video").open(task())
    for given, said in ((task(), "has none of them in 1 media"), (task(pictures=()), "has none of them in 0 media")):
        with pytest.raises(SettingsError, match=said):
            load_dialect("pyvision-rl-video").open(given)


@pytest.mark.parametrize("first", ["video", "picture"])
def test_a_picture_beside_a_video_is_shown_and_bound(first: str) -> None:
    clip, picture = video_task().media[0], NamedMedia(name="plan.png", part=PLAN)
    media = (clip, picture) if first == "video" else (picture, clip)
    opening = load_dialect("pyvision-rl-video").open(video_task().model_copy(update={"media": media}))
    assert dict(opening.bindings) == {"video_clue_0": clip.name, "image_clue_0": "plan.png"}
    assert opening.pictures == 1
    parts = opening.messages[-1].parts
    assert parts[:2] == (TextPart(text="<image_clue_0>"), PLAN)
    assert isinstance(parts[2], TextPart)
    assert parts[2].text.startswith("</image_clue_0>\n")
    assert f"Image Width: {PLAN.width}; Image Height: {PLAN.height}" in parts[2].text
    assert "`video_clue_0`" in parts[2].text
    after = load_dialect("pyvision-rl-video").observe(ok("", PLOT), opening.pictures)
    assert "<image_clue_1>" in after.message.text


def test_saved_files_and_values_are_not_shown() -> None:
    for source in ("file", "value"):
        assert load_dialect("pyvision").observe(ok("", PLOT, source=source), 1).pictures == 1


def test_what_was_cut_is_said() -> None:
    seen = load_dialect("pyvision").observe(ok("1\n", notes=("2 pictures were dropped.",)), 1)
    assert "Text Result:\n1\n2 pictures were dropped.\n\nImage" in seen.message.text


@pytest.mark.parametrize("name", ["pyvision", *RL_NAMES])
def test_ends_from_outside_say_why(name: str) -> None:
    killed = Execution(status=Status.KILLED, traceback="The process died by signal 11.")
    assert "rror: The process died by signal 11.</interpreter>" in load_dialect(name).observe(killed, 0).message.text


@pytest.mark.parametrize("name", ["pyvision", *RL_NAMES])
def test_an_outage_is_never_shown(name: str) -> None:
    with pytest.raises(ValueError, match="outage"):
        load_dialect(name).observe(Execution(status=Status.LOST), 0)


@pytest.mark.parametrize(("length", "full"), [(400, True), (401, False)])
def test_texts_longer_than_the_published_400_characters_are_cut(length: int, full: bool) -> None:
    dialect = load_dialect("pyvision")
    for word, execution in (
        ("x" * length, ok("x" * length)),
        ("Error: " + "x" * (length - 7), Execution(status=Status.ERROR, traceback="E: " + "x" * (length - 7))),
    ):
        assert (word in dialect.observe(execution, 1).message.text) is full
