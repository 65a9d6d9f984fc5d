from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.cases import CLIP, PHOTO, PLAN, choice_task, ok, task, video_task

from saccade.dialects.base import DIALECTS, Dialect, load_dialect
from saccade.dialects.prompt_file import read_prompt_file
from saccade.dialects.prompt_texts import SECTIONS, Prompts
from saccade.dialects.question import TagGuard, question_text, split_at_media, split_at_pictures
from saccade.errors import PromptFileError
from saccade.record.content import Message
from saccade.record.task import AnswerType, Task


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def prompted(name: str) -> Dialect:
    dialect = load_dialect(name)
    return dialect


def test_published_json_format(tmp_path: Path) -> None:
    file = write(
        tmp_path / "prompts.json",
        {
            "vistool_with_img_info_v2": "W {width} H {height} \\boxed{{x}} {query}",
            "vistool_with_img_info_multi_image": "[{image_information}] {query} {query}",
            "not_used": "{broken",
        },
    )
    dialect = load_dialect("pyvision")
    dialect = dialect.with_prompts(read_prompt_file(file))
    assert dialect.open(task()).messages[0].text.endswith("W 640 H 480 \\boxed{x} What is it?")
    text = dialect.open(task("Is <image> it?", (PHOTO, PLAN))).messages[0].text
    assert text.startswith("<image_clue_1></image_clue_1>\n\n[width of image_clue_0: 640, height")
    assert text.endswith("] Is <image_clue_0></image_clue_0> it? Is <image> it?")


def test_plain_text_serves_every_case(tmp_path: Path) -> None:
    prompts = read_prompt_file(write(tmp_path / "mine.txt", "Look: {query}"))
    for name in ("pyvision", "pyvision-rl-image", "pyvision-rl-image-no-hint", "pyvision-rl-video"):
        dialect = load_dialect(name)
        given = video_task() if "video" in name else task()
        assert dialect.with_prompts(prompts).open(given).messages[0].text.endswith("Look: What is it?")
        assert dialect.with_prompts(prompts).id == name + "@1:" + ("repo" if name == "pyvision" else "paper")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{query} {", "literal brace is written twice"),
        ("{query} {0}", "only {query}"),
        ("{query.__class__}", "only {query}"),
        ("{query!r}", "only {query}"),
        ("{query:>10}", "only {query}"),
        ("{query} \x08oxed{{x}}", "control character"),
        ("{query} {other}", "{other}"),
    ],
)
def test_bad_templates(template: str, message: str) -> None:
    for name in ("pyvision", "pyvision-rl-image", "codedance", "codev"):
        with pytest.raises(PromptFileError) as caught:
            prompted(name).with_prompts(Prompts({"*": template}, "mine.txt"))
        assert message in str(caught.value)
        assert "mine.txt" in str(caught.value)
        assert ("cannot be read" in str(caught.value)) is (template == "{query} {")


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"a": 1}', '{"a": "{query}", "b": 1}', "{", "[" * 100_000])
def test_bad_files(tmp_path: Path, content: str) -> None:
    with pytest.raises(PromptFileError, match=r"bad\.json"):
        read_prompt_file(write(tmp_path / "bad.json", content))


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(PromptFileError, match=r"cannot be read: No such file or directory\. Give"):
        read_prompt_file(tmp_path / "missing.txt")
    (tmp_path / "latin.txt").write_bytes(b"\xff\xfe\xe9")
    with pytest.raises(PromptFileError, match="UTF-8"):
        read_prompt_file(tmp_path / "latin.txt")
    with pytest.raises(PromptFileError, match="no prompt"):
        read_prompt_file(write(tmp_path / "huge.txt", "x" * 1_000_001))
    assert read_prompt_file(write(tmp_path / "large.txt", "x" * 1_000_000)).templates == {"*": "x" * 1_000_000}


def test_missing_template_suggests() -> None:
    with pytest.raises(PromptFileError, match="Did you mean"):
        prompted("pyvision").with_prompts(Prompts({"vistool_with_img_info_v3": "{query}"}, "mine.json"))


def test_a_field_the_task_lacks_is_named() -> None:
    dialect = load_dialect("pyvision")
    with pytest.raises(PromptFileError, match="width"):
        dialect.with_prompts(Prompts({"*": "{width} {query}"}, "x")).open(task(pictures=()))


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("A = 'a'\nB = C = 'b'\nclass K:\n    D = 'd'\n", "A, B, C, D"),
        ("A = 1\nB = str(2)\nC = None\nD = b'd'\nE = 'e'\n", "E"),
        ("def f():\n    A = 'a'\nx.y = 'b'\nA, B = 'ab'\nC: str = 'c'\n", "none"),
        ("if True:\n    A = 'a'\n", "none"),
        ("", "none"),
    ],
)
def test_texts_of_a_python_file_are_those_assigned_to_names(tmp_path: Path, source: str, texts: str) -> None:
    with pytest.raises(PromptFileError, match=rf"has these texts: {texts}\. Say which to use, as prompt_names\.system"):
        read_prompt_file(write(tmp_path / "own.py", source))


def test_a_text_without_a_place_is_refused_with_the_places_that_there_are() -> None:
    with pytest.raises(PromptFileError, match=r"has a text 'tool', and .* no place for it: it has user, correction\.$"):
        Prompts({"user": "{query}", "correction": "no"}, "theirs").replaced_by(Prompts({"tool": "a"}, "mine"))
    with pytest.raises(PromptFileError, match=r"no place for it: it has system, user\.$"):
        Prompts({"system": "", "asked": "{query}"}, "theirs").replaced_by(Prompts({"last": "a"}, "mine"))


def test_the_released_file_of_pyvision_rl_is_taken_as_it_is(tmp_path: Path) -> None:
    file = write(
        tmp_path / "rl.json",
        {
            "vistool_with_img_info_v2": "W {width} {query}",
            "vistool_with_img_info_multi_image": "{image_information} {query}",
            "vis_tool_with_img_info_wo_init_image": "{query} \x08oxed{{x}} {image_info}",
            "vis_tool_with_img_info_wo_init_image_v2": "Hint:\n{image_info}\n\n{query} \\boxed{{x}}",
            "vis_tool_with_img_info_video_v4": "Video:\n{video_info}\n\n{query}",
        },
    )
    prompts = read_prompt_file(file)
    asked = load_dialect("pyvision-rl-image-no-hint").with_prompts(prompts).open(task()).messages[0].text
    assert asked.endswith(
        "Hint:\nImage Width: 640; Image Height: 480\n"
        "The original image hint has been read into the global variable `image_hint_0`.\n\nWhat is it? \\boxed{x}"
    )
    video = video_task()
    part = video.media[0].part
    asked = load_dialect("pyvision-rl-video").with_prompts(prompts).open(video).messages[0].text
    assert asked.endswith(
        f"Video:\nFrame Width: {part.width}; Frame Height: {part.height};\n"
        f"Video Length: {part.frames}; Sample FPS: {part.fps:.2f}\n"  # type: ignore[union-attr]
        "The original video has been read into the global variable `video_clue_0`.\n\nWhat is it?"
    )
    assert (
        load_dialect("pyvision-rl-image")
        .with_prompts(prompts)
        .open(task())
        .messages[0]
        .text.endswith("W 640 What is it?")
    )
    with pytest.raises(PromptFileError, match="image_info"):
        load_dialect("pyvision").with_prompts(
            read_prompt_file(write(tmp_path / "other.txt", "{image_info} {query}"))
        ).open(task())


def test_codedance_ends_a_result_with_the_sentence_of_the_file(tmp_path: Path) -> None:
    dialect = load_dialect("codedance")
    given = read_prompt_file(write(tmp_path / "mine.json", {"reminder": "\nLook {closely}."}))
    for speaks, end in ((dialect, "go on or answer."), (dialect.with_prompts(given), "\nLook {closely}.")):
        assert speaks.observe(ok("1"), 1).message.text.endswith(f"{end}\n</tool_response>")


HEADED = """\
System Prompt:

Look, then speak. {tool_descriptions}
Write <tool_call>{"tool": "<tool_name>", "task": "<task_name>"}</tool_call>.

User Prompt:

A {task_type} question: {Question}
In the form {output_format}.
"""
CLASS = '''\
class PROMPT():
    SYSTEM_PROMPT_V1 = ""
    SYSTEM_PROMPT_V2 = """Zoom with care.
<tools>
{"type": "function", "function": {"name": "image_zoom_in_tool"}}
</tools>"""
    USER_PROMPT_V2 = "\\nThink and write <answer>. "
    USER_PROMPT_V2 += never_read
raise SystemExit(1)
'''


def given_task(name: str) -> Task:
    return video_task() if "video" in name else task()


def texts(dialect: Dialect, name: str = "") -> list[tuple[str, str]]:
    messages: tuple[Message, ...] = dialect.open(given_task(name)).messages  # type: ignore[attr-defined]
    return [(message.role, message.text) for message in messages]


@pytest.mark.parametrize("name", [name for name in DIALECTS.names() if name != "tiny"])
def test_every_dialect_takes_every_place(name: str, tmp_path: Path) -> None:
    """Each text that the dialect has is replaced where it stands, braces and all."""
    own = prompted(name)
    places = {place for place in SECTIONS if place in own.prompts.templates} | {"user"}
    file = {place: f"my {place} {{x}}" for place in places}
    file["user"] = "my user {query} {{x}}"
    dialect = own.with_prompts(read_prompt_file(write(tmp_path / "mine.json", file)))
    opened = texts(dialect, name)
    assert opened[0] == ("system", "my system {x}")
    assert "my user What is it? {x}" in opened[1][1]
    corrected = dialect.correct("Because.", 1)  # type: ignore[attr-defined]
    assert (corrected is not None and "my correction {x}" in corrected.message.text) is ("correction" in places)
    last = dialect.ask_for_answer()  # type: ignore[attr-defined]
    assert (last is not None and "my last {x}" in last.text) is ("last" in places)


def test_what_a_file_leaves_out_stays_as_it_is(tmp_path: Path) -> None:
    own = prompted("codedance")
    dialect = own.with_prompts(read_prompt_file(write(tmp_path / "mine.json", {"correction": "No: {reason}"})))
    assert texts(dialect) == texts(own)
    corrected = dialect.correct("why", 1)  # type: ignore[attr-defined]
    assert corrected.message.text == "<tool_response>\nNo: why\n</tool_response>"


def test_a_place_that_a_dialect_lacks_is_refused(tmp_path: Path) -> None:
    file = read_prompt_file(write(tmp_path / "mine.json", {"last": "End."}))
    with pytest.raises(PromptFileError, match="'last', and this dialect has no place for it: it has system, user"):
        prompted("deepeyes").with_prompts(file)


def test_headings_part_a_text(tmp_path: Path) -> None:
    """The form of VISTA's figure 9."""
    dialect = prompted("vista").with_prompts(read_prompt_file(write(tmp_path / "figure9.txt", HEADED)))
    system, user = texts(dialect)
    assert system[1].startswith('Look, then speak. (none)\nWrite <tool_call>{"tool": "<tool_name>"')
    assert user[1].endswith("A visual question: What is it?\nIn the form a word, a number or a short phrase.")
    assert "System Prompt" not in system[1] + user[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Before.\nSystem Prompt:\nA", "before its first heading"),
        ("User Prompt:\n{query}\nUser prompt:\n{query}", "two parts under one heading"),
        ("User Prompt:\nnothing", "no {query}"),
    ],
)
def test_headings_that_say_nothing_sure_are_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(PromptFileError) as caught:
        prompted("vista").with_prompts(read_prompt_file(write(tmp_path / "bad.txt", text)))
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["thyme", "deepeyes", "codev", "codedance", "native"])
def test_a_text_without_a_question_is_the_system_message(name: str, tmp_path: Path) -> None:
    """The form of Thyme's and DeepEyes' system prompts: braces stand for themselves."""
    text = 'Rules: {"a": 1}.\n<code>\n{not_a_field}\n</code>'
    own = prompted(name)
    dialect = own.with_prompts(read_prompt_file(write(tmp_path / "prompt.txt", text)))
    assert texts(dialect)[0] == ("system", text)
    assert texts(dialect)[1:] == texts(own)[1:]


def test_texts_of_a_python_file_are_read_and_never_run(tmp_path: Path) -> None:
    """The form of DeepEyes' prompt file."""
    path = write(tmp_path / "prompt.py", CLASS)
    with pytest.raises(PromptFileError, match=r"SYSTEM_PROMPT_V1, SYSTEM_PROMPT_V2, USER_PROMPT_V2\. Say which"):
        read_prompt_file(path)
    names = {"system": "SYSTEM_PROMPT_V2", "reminder": "USER_PROMPT_V2"}
    system, user = texts(prompted("deepeyes").with_prompts(read_prompt_file(path, names)))
    assert system[1].startswith('Zoom with care.\n<tools>\n{"type": "function"')
    assert user[1].endswith("What is it?\nThink and write <answer>. ")
    none = prompted("deepeyes").with_prompts(read_prompt_file(path, {**names, "system": "SYSTEM_PROMPT_V1"}))
    assert [role for role, _ in texts(none)] == ["user"]
    with pytest.raises(PromptFileError, match="no Python"):
        read_prompt_file(write(tmp_path / "broken.py", "A = '"), names)


def test_a_template_is_taken_by_its_name(tmp_path: Path) -> None:
    """PyVision's JSON holds templates that no dialect uses by itself."""
    path = write(tmp_path / "prompts.json", {"no_tool": "Say. {query}", "vistool": "Look. {query} {width}"})
    for name in ("direct", "pyvision", "codedance"):
        dialect = prompted(name).with_prompts(read_prompt_file(path, {"user": "vistool"}))
        assert texts(dialect, name)[-1][1].endswith("Look. What is it? 640")
    for names, said in (
        ({}, r"It has no_tool, vistool; prompt_names\.user=NAME"),
        ({"user": "no_tol"}, r"prompt_names\.user: .* has no text 'no_tol'\. It has no_tool, vistool"),
        ({"users": "no_tool"}, r"prompt_names\.users: there is no such place\. Did you mean"),
    ):
        with pytest.raises(PromptFileError, match=said):
            prompted("direct").with_prompts(read_prompt_file(path, names))


def test_only_texts_of_a_file_are_used_once_it_asks_questions(tmp_path: Path) -> None:
    """A file for one and for more pictures says nothing for none; Saccade's own words do not fill in."""
    names = ("vistool_with_img_info_v2", "vistool_with_img_info_multi_image")
    path = write(tmp_path / "two.json", dict.fromkeys(names, "{query}"))
    dialect = prompted("pyvision").with_prompts(read_prompt_file(path))
    with pytest.raises(PromptFileError, match="has no template 'retool'"):
        dialect.open(task(pictures=()))  # type: ignore[attr-defined]
    with_retool = {**dict.fromkeys(names, "{query}"), "retool": "Compute: {query}"}
    dialect = prompted("pyvision").with_prompts(read_prompt_file(write(tmp_path / "three.json", with_retool)))
    assert dialect.open(task(pictures=())).messages[0].text == "Compute: What is it?"  # type: ignore[attr-defined]


def test_all_dialects_are_prompted() -> None:
    assert all(load_dialect(name).prompts.templates for name in DIALECTS.names())


@pytest.mark.parametrize(
    ("text", "pictures", "expected"),
    [
        ("Is it?", 2, ("Is it?",)),
        ("<image> or <image>?", 2, (0, " or ", 1, "?")),
        ("<image 2> or <image 1>?", 2, (1, " or ", 0, "?")),
        ("<IMAGE_PLACE_HOLDER_1>then<IMAGE_PLACE_HOLDER_0>", 2, (1, "then", 0)),
        ("<image 1> and again <image 1>", 2, (0, " and again <image 1>")),
        ("<image 3> <image 0>", 2, ("<image 3> <image 0>",)),
        ("<image><image>", 1, (0, "<image>")),
        ("", 1, ()),
        ("<video> and <image>", 1, ("<video> and ", 0)),
    ],
)
def test_placeholders(text: str, pictures: int, expected: tuple[str | int, ...]) -> None:
    assert split_at_pictures(text, pictures) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<video>, then <image> or <image>?", (1, ", then ", 0, " or ", 2, "?")),
        ("<image 2> in <video>, not <video>", (2, " in ", 1, ", not <video>")),
        ("Which?", ("Which?",)),
    ],
)
def test_placeholders_of_pictures_and_videos(text: str, expected: tuple[str | int, ...]) -> None:
    assert split_at_media(text, (PHOTO, CLIP, PLAN)) == expected


@given(
    st.lists(st.sampled_from(["<image>", "<image 1>", "<image 9>", "<IMAGE_PLACE_HOLDER_2>", "a", "<"])).map("".join),
    st.integers(0, 3),
)
def test_each_picture_at_most_once_and_no_text_lost(text: str, pictures: int) -> None:
    pieces = split_at_pictures(text, pictures)
    numbers = [piece for piece in pieces if isinstance(piece, int)]
    assert len(numbers) == len(set(numbers))
    assert all(0 <= number < pictures for number in numbers)
    rest = text
    for piece in pieces:
        if isinstance(piece, str):
            assert piece in rest
            rest = rest[rest.index(piece) + len(piece) :]


def test_choices() -> None:
    assert question_text(choice_task()) == "Which?\nA. red\nB. blue"
    many = tuple(f"c{number}" for number in range(30))
    text = question_text(Task(id="m", question="Which?", choices=many, answer_type=AnswerType.CHOICE))
    assert text.splitlines()[1] == "1. c0"
    assert text.splitlines()[-1] == "30. c29"
    for number, last in ((26, "Z. c25"), (27, "27. c26")):
        text = question_text(Task(id="m", question="Which?", choices=many[:number], answer_type=AnswerType.CHOICE))
        assert text.splitlines()[-1] == last


GUARD = TagGuard(["code", "interpreter", r"image_clue_\d+"])
PIECES = st.lists(
    st.sampled_from(
        ["<", ">", "\\", "/", " ", "code", "INTERPRETER", "image_clue_3", "<|im_end|>", "|", "<code>", "x", "\n"]
    )
).map("".join)


def test_tags_get_a_backslash() -> None:
    assert GUARD.escape("a</interpreter> <|im_start|>") == "a<\\/interpreter> <\\|im_start|>"
    assert GUARD.escape("< / CODE >") == "<\\ / CODE >"
    assert GUARD.tags("<image_clue_12><b></code>") == ("<image_clue_12>", "</code>")


def test_ordinary_text_is_not_changed() -> None:
    for text in ("if a < b and c > d:", "<html><b>x</b>", "<\\n>", "List<code_t>", "<codec>", "a <|> b", "<\\textbf>"):
        assert GUARD.escape(text) == text


@given(PIECES | st.text())
def test_no_tag_is_left(text: str) -> None:
    escaped = GUARD.escape(text)
    assert GUARD.tags(escaped) == ()


def test_long_hostile_text_does_not_hang() -> None:
    for piece in ("<", " ", "\\", "<image_clue_", "<|a", "1"):
        for text in (f"<{piece * 100_000}", f"<image_clue_1{piece * 100_000}", f"<|{piece * 100_000}"):
            assert GUARD.tags(GUARD.escape(text)) == ()
