"""A few rows of every data set that the papers' pages name, in the form in which it is published, made by hand.

Every question ends in "Say WORD.", and WORD is its gold answer, so that a scripted model can be right.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from PIL import Image, ImageDraw
from tests.media.clips import h264
from tests.tasks.benchmarks.cases import write_json, write_jsonl, write_parquet, write_tsv

SIZE: Final = (320, 240)
BOX: Final = (200, 120, 240, 150)


def picture(colour: str = "red") -> bytes:
    image = Image.radial_gradient("L").convert("RGB").resize(SIZE)
    ImageDraw.Draw(image).rectangle(BOX, fill=colour)
    file = BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def held(colour: str = "red") -> dict[str, object]:
    """As parquet of the hub holds a picture."""
    return {"bytes": picture(colour), "path": None}


def asked(word: str) -> str:
    return f"What is in the box? Say {word}."


def lettered(word: str) -> str:
    return f"{asked(word)}\nA. {word}\nB. nothing"


COLOURS: Final = ("red", "blue")


def beside(name: str, content: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    return write


def parquet(name: str, *rows: Mapping[str, Any]) -> Callable[[Path], None]:
    return lambda folder: write_parquet(folder / name, [dict(row) for row in rows])


def tsv(name: str, *rows: Mapping[str, str]) -> Callable[[Path], None]:
    return lambda folder: write_tsv(folder / name, list(rows))


def jsonl(name: str, *rows: Mapping[str, Any]) -> Callable[[Path], None]:
    return lambda folder: write_jsonl(folder / name, rows)


def listed(name: str, rows: object) -> Callable[[Path], None]:
    return lambda folder: write_json(folder / name, rows)


PICTURES: Final = [beside(f"images/{colour}.png", picture(colour)) for colour in COLOURS]
VIDEO: Final = beside("videos/room.mp4", h264())
CODED: Final = base64.b64encode(picture()).decode()


def deepeyes(source: str, word: str, number: int) -> dict[str, Any]:
    """A row of verl's parquet, as DeepEyes and CodeDance publish them."""
    return {
        "data_source": source,
        "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": f"<image>\n{asked(word)}"}],
        "images": [held(word)],
        "ability": "vl_agent",
        "env_name": "visual_toolbox_v2",
        "reward_model": {"ground_truth": word, "style": "model"},
        "extra_info": {"answer": word, "index": f"{source}-{number}", "question": asked(word), "split": "train"},
    }


def deepeyes_rows(source: str) -> list[dict[str, Any]]:
    return [deepeyes(source, word, number) for number, word in enumerate(COLOURS)]


def pyvision(kind: str, source: str, word: str, number: int, path: str) -> dict[str, Any]:
    """A row as PyVision-RL's loader takes it."""
    return {
        "prompt": [{"role": "user", "content": f"<image>\n{asked(word)}"}],
        "data_source": source,
        "ability": "visual_search",
        "env_name": "pyvision_gym_w_image_hint",
        "reward_model": {"ground_truth": word, "style": "model"},
        "extra_info": {"answer": word, "index": number, "question": asked(word), "split": "train"},
        "mm_hint": {"hint_path": path, "hint_type": kind},
    }


def demonstrated(word: str) -> dict[str, Any]:
    """A row of PyVision-Image-SFT-Data: two calls, then the answer."""
    look = "I look.\n<code>\n```python\nplt.imshow(image_clue_0)\nplt.show()\n```\n</code>"
    back = "<interpreter>\nText Result:\nNone\nImage Result:\n<image_clue_{0}><image></image_clue_{0}></interpreter>\n"
    texts = [
        f"<image_clue_0><image></image_clue_0>\n\nYou are an agent.\n\n*user question:*\n{asked(word)}",
        look,
        back.format(1),
        look,
        back.format(2),
        f"It is {word}.\n<answer>\n\\boxed{{{word}}}\n</answer>",
    ]
    roles = ["user", "assistant"] * 3
    turns = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    return {"conversations": turns, "images": [f"images/{word}.png"] * 3, "source_dataset": "mmpr"}


def thyme(word: str) -> dict[str, Any]:
    """A row of Thyme-SFT: one message with its code and what came back."""
    question = (
        f'<image>\n{asked(word)}\n\n### User Image Path:** "1.png"\n### User Image Size:** "{SIZE[0]}x{SIZE[1]}"\n\n'
        "### **Output Format (strict adherence required):**\n\n<think>...</think>\n<answer>...</answer>\n"
    )
    code = "from PIL import Image\nImage.open('1.png').crop((200, 120, 240, 150)).save('cut.png')\nprint('cut.png')"
    response = (
        f"<think>I cut.\n<code>\n{code}\n</code><sandbox_output><image></sandbox_output>So.</think>\n"
        f"<answer>{word}</answer>"
    )
    return {"image": [CODED, CODED], "question": question, "response": response}


def vlmgym(name: str, split: str) -> Callable[[Path], None]:
    """VISTA-Gym's own list of one set."""
    rows = [
        {
            "id": f"{name}-{split}-{word}",
            "dataset": name,
            "question": asked(word),
            "choices": [word, "nothing"],
            "answer": word,
            "image_path": f"/data/{name}/images/{word}.png",
            "task": "general",
            "metadata": {},
        }
        for word in COLOURS
    ]
    return listed(f"{name}_{split}_vlmgym.json", rows)


VISTA_TRAIN: Final = [
    "figureqa",
    "chartqa",
    "geometry3k",
    "geoqa",
    "unigeo",
    "mathvision",
    "mathv360",
    "mapqa",
    "infographicvqa",
    "thinkvl",
    "vizwiz",
    "scienceqa",
    "docvqa",
    "clevr",
    "aokvqa",
]
VISTA_TEST: Final = [
    "chartqa",
    "geometry3k",
    "geoqa",
    "unigeo",
    "mapqa",
    "tabmwp",
    "ai2d",
    "plotqa",
    "clevr-math",
    "iconqa",
    "mathvista",
]


def columns(word: str, **more: str) -> dict[str, str]:
    """A row of VLMEvalKit's TSV."""
    both = {"question": asked(word), "A": word, "B": "nothing", "C": "grey", "D": "green", "answer": "A"}
    return {"index": "1", **both, "category": "single", "image": CODED, **more}


SETS: Final[Mapping[str, list[Callable[[Path], None]]]] = {
    # What is measured.
    "mathvista": [
        parquet(
            "data/testmini-0.parquet",
            {
                "pid": "1",
                "question": asked("red"),
                "decoded_image": held(),
                "choices": ["red", "blue"],
                "answer": "red",
                "question_type": "multi_choice",
                "answer_type": "text",
                "unit": None,
                "precision": None,
                "metadata": {"task": "figure question answering"},
            },
        )
    ],
    **{
        f"mathvision{mini}": [
            parquet(
                f"data/{split}-0.parquet",
                {
                    "id": "1",
                    "question": asked("red"),
                    "decoded_image": held(),
                    "options": ["red", "blue"],
                    "answer": "A",
                    "subject": "counting",
                    "level": 1,
                },
            )
        ]
        for mini, split in (("", "test"), ("-mini", "testmini"))
    },
    "mmmu": [
        parquet(
            "data/validation-0.parquet",
            {
                "id": "validation_Art_1",
                "question": f"<image 1> {asked('red')}",
                "image_1": held(),
                "image_2": None,
                "options": "['red', 'blue']",
                "answer": "A",
                "subfield": "Art",
                "question_type": "multiple-choice",
            },
        )
    ],
    "visualpuzzles": [
        parquet(
            "data.parquet",
            {
                "id": 1,
                "question": asked("red"),
                "image": held(),
                "options": ["red", "blue", "grey", "green"],
                "answer": "A",
                "category": "Spatial",
            },
        )
    ],
    "blindtest": [
        parquet(
            "data/valid-0.parquet",
            {"task": "Circled Letter", "prompt": asked("red"), "image": held(), "groundtruth": "red"},
        )
    ],
    "vstar": [
        listed(
            "direct_attributes/sa_1.json",
            {
                "question": asked("red"),
                "options": ["red", "blue"],
                "target_object": ["box"],
                "bbox": [[BOX[0], BOX[1], BOX[2] - BOX[0], BOX[3] - BOX[1]]],
            },
        ),
        beside("direct_attributes/sa_1.jpg", picture()),
    ],
    "hrbench-4k": [tsv("hr_bench_4k.tsv", columns("red", cycle_category="0"))],
    "hrbench-8k": [tsv("hr_bench_8k.tsv", columns("red", cycle_category="0"))],
    "dynamath": [
        parquet(
            "data/sample_variant1.parquet",
            {
                "id": "5",
                "question": asked("red"),
                "decoded_image": held(),
                "ground_truth": "red",
                "answer_type": "text",
                "subject": "algebra",
                "knowledge_level": "high school",
            },
        )
    ],
    "mathverse": [
        parquet(
            "testmini.parquet",
            {
                "sample_index": "1",
                "problem_index": "1",
                "problem_version": "Text Lite",
                "question": asked("red"),
                "query_wo": asked("red"),
                "image": held(),
                "answer": "red",
                "question_type": "free-form",
                "metadata": {"subject": "Plane Geometry"},
            },
        )
    ],
    "wemath": [
        parquet(
            "data/testmini-0.parquet",
            {
                "ID": "1",
                "key": "1steps_1",
                "question": asked("red"),
                "option": "A. red; B. blue; C. grey",
                "answer": "A",
                "knowledge concept": "Lines",
                "image_path": held(),
            },
        )
    ],
    "tir-bench": [
        listed(
            "TIR-Bench.json",
            [
                {
                    "id": 1,
                    "task": "color",
                    "prompt": asked("red"),
                    "image_1": "data/1.png",
                    "image_2": None,
                    "answer": "red",
                }
            ],
        ),
        beside("data/1.png", picture()),
    ],
    "vsi-bench": [
        jsonl(
            "test.jsonl",
            {
                "id": 1,
                "dataset": "scannet",
                "scene_name": "room",
                "question": asked("red"),
                "question_type": "object_rel_direction_easy",
                "options": ["A. red", "B. blue"],
                "ground_truth": "A",
            },
        ),
        beside("scannet/room.mp4", h264()),
    ],
    "countbench": [
        parquet("data/test-0.parquet", {"question": "How many boxes? Say 4.", "image": held(), "number": 4})
    ],
    "pixmo-count": [
        parquet(
            f"data/{split}-0.parquet",
            {"image_url": "https://example.org/1.jpg", "image_sha256": "ab12", "count": 4, "label": "boxes"},
        )
        for split in ("test", "train")
    ]
    + [beside("images/ab12.jpg", picture())],
    "chartqa": [
        parquet("data/test-0.parquet", {"query": asked("red"), "image": held(), "label": "red", "type": "human"})
    ],
    "charxiv-reasoning": [
        parquet(
            "val.parquet",
            {
                "image": held(),
                "category": "cs",
                "reasoning_q": asked("red"),
                "reasoning_a": "red",
                "reasoning_a_type": 1,
            },
        )
    ],
    "charxiv-descriptive": [
        tsv(
            "CharXiv_descriptive_val.tsv",
            {"index": "1", "image": CODED, "question": asked("red"), "answer": "red", "category": "cs"},
        )
    ],
    "mme-realworld-lite": [
        tsv(
            "mme_realworld_lite.tsv",
            {
                "index": "1",
                "image": CODED,
                "question": asked("red"),
                "category": "x",
                "l2-category": "y",
                "multi-choice options": '["(A) red", "(B) blue", "(C) grey", "(D) green", "(E) none"]',
                "answer": "A",
            },
        )
    ],
    # What is trained on.
    "pyvision-image-sft": [listed("pyvision_image_sft_data.json", [demonstrated(word) for word in COLOURS]), *PICTURES],
    "pyvision-image-rl": [
        listed(
            "pyvision_image_rl_data.json",
            [pyvision("image", "vstar", w, n, f"/mnt/images/{w}.png") for n, w in enumerate(COLOURS)],
        ),
        *PICTURES,
    ],
    "pyvision-video-rl": [
        listed(
            "pyvision_video_rl_data.json",
            [pyvision("video", "vsi", w, n, "/mnt/videos/room.mp4") for n, w in enumerate(COLOURS)],
        ),
        VIDEO,
    ],
    "spacer": [
        jsonl(
            "SpaceR-151k.jsonl",
            *(
                {
                    "problem_id": number,
                    "problem": asked(word),
                    "problem_type": "multiple choice",
                    "options": [f"A. {word}", "B. nothing"],
                    "solution": "<answer>A</answer>",
                    "path": "./videos/room.mp4",
                    "data_source": "SR-91k",
                    "data_type": "video",
                }
                for number, word in enumerate(COLOURS)
            ),
        ),
        VIDEO,
    ],
    "longvila": [
        jsonl(
            "train.jsonl",
            {
                "problem_id": 1,
                "problem": lettered("red"),
                "problem_type": "goal",
                "solution": "<answer>A</answer>",
                "videos": "room.mp4",
            },
        ),
        VIDEO,
    ],
    "mmk12": [
        parquet(
            "data/train-0.parquet",
            *(
                {"id": str(n), "question": asked(w), "answer": w, "subject": "math", "image": held(w)}
                for n, w in enumerate(COLOURS)
            ),
        )
    ],
    "gmai-reasoning": [
        jsonl(
            "gmai_mcq_rl.jsonl",
            *(
                {
                    "id": n,
                    "image": f"images/{w}.png",
                    "conversations": [
                        {"from": "human", "value": f"<image>\n{lettered(w)}"},
                        {"from": "gpt", "value": "A"},
                    ],
                }
                for n, w in enumerate(COLOURS)
            ),
        ),
        *PICTURES,
    ],
    "mmpr": [
        jsonl(
            "annotations/a_extracted.jsonl",
            *(
                {
                    "image": f"images/{w}.png",
                    "question": asked(w),
                    "chosen": f"It is so.\n\nFinal answer: {w}",
                    "rejected": "no",
                    "answer": w,
                }
                for w in COLOURS
            ),
        ),
        *PICTURES,
    ],
    "llava-cot": [
        jsonl(
            "train.jsonl",
            *(
                {
                    "id": n,
                    "image": f"images/{w}.png",
                    "conversations": [
                        {"from": "human", "value": f"<image>\n{asked(w)}"},
                        {"from": "gpt", "value": f"<SUMMARY>s</SUMMARY><CONCLUSION>{w}</CONCLUSION>"},
                    ],
                }
                for n, w in enumerate(COLOURS)
            ),
        ),
        *PICTURES,
    ],
    "vstar-train": [parquet("data_0.1.2_visual_toolbox_v2.parquet", *deepeyes_rows("vstar"))],
    "deepeyes-charts": [parquet("data_v0.8_visual_toolbox_v2.parquet", *deepeyes_rows("chart"))],
    "deepeyes-thinklite": [parquet("data_thinklite_reasoning_acc.parquet", *deepeyes_rows("thinklite_eureka"))],
    "codedance-rl": [parquet("data/train-0.parquet", *deepeyes_rows("vstar"), *deepeyes_rows("xince"))],
    "geoqa-plus": [
        jsonl(
            "geoqa+.jsonl",
            *(
                {
                    "id": n,
                    "image": f"images/{w}.png",
                    "conversations": [
                        {"from": "human", "value": f"<image>\n{lettered(w)}"},
                        {"from": "gpt", "value": "Since it is so. Therefore, the answer is A."},
                    ],
                }
                for n, w in enumerate(COLOURS)
            ),
        ),
        *PICTURES,
    ],
    "thyme-sft": [parquet("data/wo_thinking_thyme_single_round-0.parquet", *map(thyme, COLOURS))],
    "thinklite-vl": [
        parquet(
            "ThinkLite-VL-70k.parquet",
            *(
                {"id": f"t{n}", "problem": f"<image>{asked(w)}", "answer": w, "image": picture(w)}
                for n, w in enumerate(COLOURS)
            ),
        )
    ],
    **{
        f"vista-{name}": [
            *([vlmgym(name, "train")] if name in VISTA_TRAIN else []),
            *([vlmgym(name, "test")] if name in VISTA_TEST else []),
            *PICTURES,
        ]
        for name in dict.fromkeys([*VISTA_TRAIN, *VISTA_TEST])
    },
}


def write_all(data: Path) -> None:
    """Write all sets below `data`, each in a folder of its card's name; and pictures of SA-1B, which has no card."""
    for name, writers in SETS.items():
        for write in writers:
            write(data / name)
    beside("sa1b/sa_1.jpg", picture())(data)
    beside("sa1b/sa_1.json", json.dumps({"annotations": []}).encode())(data)
