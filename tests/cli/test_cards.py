"""Test `saccade cards`: the list, one card, and checks of a folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tasks.benchmarks.cases import base64_png, png, write_json, write_jsonl, write_parquet, write_png

from saccade.cli.main import main
from saccade.tasks.benchmarks.registry import card_ids

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_list_names_every_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "list"]) == 0
    printed = capsys.readouterr().out
    assert all(re.search(rf"^{re.escape(name)} ", printed, re.MULTILINE) for name in card_ids())


def test_show_prints_a_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "show", "hrbench-4k"]) == 0
    printed = capsys.readouterr().out
    assert 'id = "hrbench-4k@1"' in printed
    assert "DreamMr/HR-Bench" in printed
    *_, get, then = printed.splitlines()
    assert get.startswith("# Get it from https://")
    assert "--local-dir data/hrbench-4k" in get
    assert then == "# Then: saccade cards check data/hrbench-4k"


def test_check_counts_and_finds_a_constant_gold_position(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"id": str(n), "image_path": "1.png", "question": "Which?", "answer": "x", "choices": ["x", "y"], "task": "t"}
        for n in range(3)
    ]
    folder = tmp_path / "vista-ai2d"
    write_jsonl(folder / "ai2d_test_vlmgym.json", rows[:0])
    (folder / "ai2d_test_vlmgym.json").write_text(str(rows).replace("'", '"'), encoding="utf-8")
    write_png(folder / "images/1.png")
    assert main(["cards", "check", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "tasks         3  (expected 810, VISTA-Gym, table 5)" in printed
    assert "gold is at    A: 3  (always the same: shuffle the choices)" in printed
    assert main(["cards", "check", str(folder), "--whole"]) == 1


def test_check_says_which_choices_are_shuffled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        write_png(tmp_path / f"vstar/direct_attributes/{name}.jpg")
        text = '{"question": "Which?", "options": ["x", "y"]}'
        (tmp_path / f"vstar/direct_attributes/{name}.json").write_text(text, encoding="utf-8")
    assert main(["cards", "check", str(tmp_path / "vstar")]) == 0
    assert "gold is at    A: 2  (as the source has it; shuffled when played, seed 0)" in capsys.readouterr().out


def test_check_names_broken_rows_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": str(n), "image_path": "absent.png", "question": "Which?", "answer": "x"} for n in range(25)]
    (tmp_path / "chartqa_test_vlmgym.json").write_text(str(rows).replace("'", '"'), encoding="utf-8")
    assert main(["cards", "check", str(tmp_path), "--card", "vista-chartqa"]) == 1
    printed = capsys.readouterr()
    assert "broken rows   25" in printed.out
    assert "row 1, images: there is no file absent.png" in printed.err
    assert "and 5 more" in printed.err


def test_a_missing_folder_of_the_cards_name_is_not_doubled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "check", str(tmp_path / "hrbench-4k")]) == 2
    printed = capsys.readouterr().err
    assert f"there is nothing in {tmp_path / 'hrbench-4k'} " in printed
    assert "hrbench-4k/hrbench-4k" not in printed


def test_check_refuses_a_grader_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "show", "vista-chartqa"]) == 0
    card = tmp_path / "own.toml"
    card.write_text(capsys.readouterr().out.replace('"relaxed@1"', '"relaxd@1"'))
    assert main(["cards", "check", str(tmp_path), "--card", str(card)]) == 2
    assert "relaxd" in capsys.readouterr().err


def test_check_says_what_to_download(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "check", str(tmp_path), "--card", "vstar"]) == 2
    printed = capsys.readouterr().err
    assert "hf download craigwu/vstar_bench" in printed
    assert str(tmp_path / "vstar") in printed


def block(language: str) -> str:
    """The document's only code block of a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    return str(found)


def test_a_benchmark_added_as_the_document_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "street-signs.toml").write_text(block("toml"), encoding="utf-8")
    data = tmp_path / "data" / "street-signs"
    data.mkdir(parents=True)
    (data / "questions.jsonl").write_text(block("json"), encoding="utf-8")
    for number in (1, 2, 3):
        write_png(data / f"photos/{number}.jpg")
    assert main(["cards", "check", str(tmp_path / "data"), "--card", str(tmp_path / "street-signs.toml")]) == 0
    printed = capsys.readouterr().out
    assert printed == block("text")
    command = next(line.split() for line in DOCUMENT.splitlines() if line.startswith("    saccade eval street-signs"))
    monkeypatch.chdir(tmp_path)
    assert main(command[1:]) == 0
    assert "| street-signs@1 " in capsys.readouterr().out


CELL = {"bytes": png(), "path": None}


def pyvision(folder: Path) -> None:
    row = {"question": "Which?\nA. x\nB. y", "answer": "A", "data_source": "vstar", "ability": "visual_search"}
    rows = [{**row, "id": str(n), "image_path": f"/data/images/{n}.png"} for n in range(3)]
    write_json(folder / "pyvision_image_rl_data.json", rows)
    for number in range(2):
        write_png(folder / f"images/{number}.png")


def deepeyes(folder: Path) -> None:
    row = {
        "data_source": "vstar",
        "prompt": [{"role": "user", "content": "<image>q"}],
        "images": [CELL],
        "env_name": "visual_toolbox_v2",
        "ability": "vl_agent",
        "reward_model": {"ground_truth": "red", "style": "model"},
        "extra_info": {"answer": "red", "index": "1", "question": "q", "split": "train"},
    }
    write_parquet(folder / "data_0.1.2_visual_toolbox_v2.parquet", [row])


def thyme(folder: Path) -> None:
    row = {"image": [base64_png()], "question": "<image>\nq", "response": "<answer>red</answer>"}
    write_parquet(folder / "data/2round-00000-of-00001.parquet", [row])


def mmk12(folder: Path) -> None:
    write_parquet(
        folder / "data/train-0.parquet", [{"id": "1", "question": "q", "answer": "2", "subject": "math", "image": CELL}]
    )


def thinklite(folder: Path) -> None:
    row = {"image": CELL, "problem": "q", "answer": "A", "id": "1", "choices": ["x", "y"], "ground_truth": "x"}
    write_parquet(folder / "ThinkLite-VL-70k.parquet", [row])


def aokvqa(folder: Path) -> None:
    row = {"image_id": 7, "question_id": "a", "question": "q", "choices": ["x", "y"], "correct_choice_idx": 0}
    write_json(folder / "aokvqa_v1p0_train.json", [row])
    write_png(folder / "train2017/000000000007.jpg")


def scienceqa(folder: Path) -> None:
    row = {"question": "q", "choices": ["x", "y"], "answer": 0, "hint": "h", "split": "train", "subject": "s"}
    write_json(folder / "problems.json", {"4": {**row, "image": "image.png"}})
    write_png(folder / "images/train/4/image.png")


def iconqa(folder: Path) -> None:
    row = {
        "question": "q",
        "choices": ["x", "y"],
        "answer": 0,
        "ques_type": "choose_txt",
        "split": "test",
        "grade": "g",
    }
    write_json(folder / "problems.json", {"4": row})
    write_png(folder / "iconqa/test/choose_txt/4/image.png")


def mapqa(folder: Path) -> None:
    row = {"question": "q", "answer": "Ohio", "map_id": "m.png", "question_type": "retrieval"}
    write_json(folder / "MapQA_V/questions/train-QA.json", [row])
    write_png(folder / "MapQA_V/images/m.png")


def mathv360k(folder: Path) -> None:
    said = [{"from": "human", "value": "<image>q"}, {"from": "gpt", "value": "The answer is 4"}]
    write_json(folder / "train_samples_all_tuning.json", [{"id": "1", "image": "a/1.png", "conversations": said}])
    write_png(folder / "data_images/a/1.png")


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (pyvision, "pyvision-image-rl@1"),
        (deepeyes, "vstar-train@1"),
        (thyme, "thyme-sft@1:2round"),
        (mmk12, "mmk12@1"),
        (thinklite, "thinklite-vl@1"),
        (aokvqa, "vista-aokvqa@1"),
        (scienceqa, "vista-scienceqa@1"),
        (iconqa, "vista-iconqa@1"),
        (mapqa, "vista-mapqa@1:train"),
        (mathv360k, "vista-mathv360@1"),
    ],
)
def test_a_folder_of_any_name_is_known(
    make: Callable[[Path], None], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "downloads"
    make(folder)
    main(["cards", "check", str(folder)])
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"{folder} is {name}: ")


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pyvision(tmp_path)
    assert main(["cards", "check", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "media         1 rows name none that can be used (looked for in the folder, images)" in out
    assert "pyvision_image_rl_data.json, row 3, images: there is no file" in err
    assert "form is from" in out


def test_other_splits_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mmk12(tmp_path)
    assert main(["cards", "check", str(tmp_path)]) == 0
    assert "split         test: not here (mmk12@1:test)" in capsys.readouterr().out
    write_parquet(tmp_path / "data/test-0.parquet", [{"id": "1", "question": "q", "answer": "2", "image": CELL}])
    main(["cards", "check", str(tmp_path), "--card", "mmk12"])
    assert "split         test: also here (mmk12@1:test)" in capsys.readouterr().out


def test_a_readme_tells_sets_of_one_form_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"image": CELL, "problem": "q", "answer": "4"}
    write_parquet(tmp_path / "data/train-0.parquet", [row])
    (tmp_path / "README.md").write_text("# russwang/ThinkLite-VL-70k\n")
    main(["cards", "check", str(tmp_path)])
    out = capsys.readouterr().out
    assert f"{tmp_path} is thinklite-vl@1" in out
    assert "read also by  " in out
    assert "geoqa-plus@1" in out


def test_paper_and_source_sizes_are_both_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    aokvqa(tmp_path)
    assert main(["cards", "check", str(tmp_path)]) == 0
    assert "of these the paper takes 1500: VISTA-Gym, table 5" in capsys.readouterr().out


def test_a_folder_that_no_card_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(tmp_path / "mine.jsonl", [{"ask": "q"}])
    assert main(["cards", "check", str(tmp_path)]) == 2
    assert "no card reads" in (err := capsys.readouterr().err)
    assert "mine.jsonl" in err


def test_questions_of_ones_own_are_no_data_set_for_sure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "photos"
    write_png(folder / "a.png")
    write_jsonl(folder / "questions.jsonl", [{"image": "a.png", "question": "Is it red?", "answer": "yes"}])
    main(["cards", "check", str(folder)])
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{folder} may be thyme-rl@1: questions.jsonl")
    assert second.endswith(f"for questions of your own: saccade tasks check {folder}")
    (folder / "README.md").write_text("# Kwai-Keye/Thyme-RL\n")
    main(["cards", "check", str(folder)])
    assert capsys.readouterr().out.startswith(f"{folder} is thyme-rl@1: ")


def ai2d_of_the_hub(folder: Path) -> None:
    write_parquet(
        folder / "data/test-0.parquet",
        [{"question": f"What {n}?", "options": ["x", "y"], "answer": "1", "image": CELL} for n in range(3)],
    )


def chartqa_of_github(folder: Path) -> None:
    write_png(folder / "test/png/a.png")
    write_json(folder / "test/test_human.json", [{"imgname": "a.png", "query": "How many?", "label": "3"}])


def test_ai2d_is_no_chartqa(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ai2d_of_the_hub(tmp_path / "downloads")
    assert main(["cards", "check", str(tmp_path / "downloads")]) == 0
    assert f"{tmp_path / 'downloads'} is vista-ai2d@1" in capsys.readouterr().out.splitlines()[0]


def test_a_set_one_level_down_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chartqa_of_github(tmp_path / "ChartQA Dataset")
    main(["cards", "check", str(tmp_path)])
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'ChartQA Dataset'} is ")


def test_a_folder_of_many_sets_is_called_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chartqa_of_github(tmp_path / "all/ChartQA")
    ai2d_of_the_hub(tmp_path / "all/ai2d")
    mmk12(tmp_path / "all/MMK12")
    assert main(["cards", "check", str(tmp_path / "all")]) == 2
    err = capsys.readouterr().err
    assert "holds several data sets" in err
    for name, card in (("ai2d", "vista-ai2d@1"), ("MMK12", "mmk12@1"), ("ChartQA", "chartqa@1")):
        assert any(name in line and card in line for line in err.splitlines()), (name, err)
