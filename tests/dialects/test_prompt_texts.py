import json
from pathlib import Path

import pytest
from tests.dialects.cases import PHOTO, PLAN, ok, task, video_task

from saccade.dialects.base import Dialect, load_dialect
from saccade.dialects.prompt_file import read_prompt_file
from saccade.dialects.prompt_texts import Prompts
from saccade.errors import PromptFileError


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
