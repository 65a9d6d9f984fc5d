"""Files in the forms in which the published systems have their prompts, with texts of our own, in every dialect."""

from pathlib import Path

import pytest
from tests.dialects.test_prompt_texts import prompted, write

from saccade.dialects.base import DIALECTS, Dialect, load_dialect
from saccade.dialects.prompt_file import read_prompt_file
from saccade.dialects.prompt_texts import SECTIONS
from saccade.errors import PromptFileError
from saccade.record.content import Message
from saccade.record.task import Task

from .cases import task, video_task

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
