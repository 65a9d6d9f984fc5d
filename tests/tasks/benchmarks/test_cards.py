from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest
from tests.tasks.benchmarks.cases import card_of, read, write_jsonl

from saccade.core.settings import load_settings, settings_toml
from saccade.dialects.base import load_dialect
from saccade.errors import DataError, RegistryError, SettingsError
from saccade.grading.registry import load_grader
from saccade.record.task import AnswerType, Task
from saccade.tasks.benchmarks.benchmark import VARIABLE, card_of_split, open_benchmark
from saccade.tasks.benchmarks.card import Card, Size
from saccade.tasks.benchmarks.loaders.rows import load_loader
from saccade.tasks.benchmarks.registry import card_ids, load_card

each_card = pytest.mark.parametrize("name", card_ids())

WANTED = """
    vstar hrbench-4k hrbench-8k tir-bench countbench pixmo-count mathvista mathverse mathvision wemath dynamath mmmu
    mme-realworld-lite chartqa charxiv-reasoning charxiv-descriptive blindtest vsi-bench tabmwp geometry3k
    visualpuzzles mmvet mmstar o3-bench vtc-bench zoombench babyvision visualprobe treebench
"""
VISTA_IN = """
    figureqa chartqa geometry3k geoqa unigeo mathvision mathv360 mapqa infographicvqa thinkvl vizwiz scienceqa docvqa
    clevr aokvqa
"""
VISTA_OUT = "tabmwp ai2d plotqa clevr-math iconqa mathvista"
TRAINING_SETS = """
    pyvision-image-rl pyvision-video-rl pyvision-image-sft pyvision-video-sft deepeyes-47k vstar-train deepeyes-charts
    deepeyes-thinklite thyme-sft thyme-rl thinklite-vl mmk12 spacer longvila mmpr geoqa-plus
    codedance-sft mini-o3-coldstart v-interaction v-perception
    codedance-rl visualprobe-train deepeyes-4k wemath2-standard wemath2-pro gmai-reasoning llava-cot
"""
TRAINING = TRAINING_SETS.split()
VISTA = f"{VISTA_IN} {VISTA_OUT}".split()


def test_the_benchmarks_of_the_five_papers_have_cards() -> None:
    names = {entry.partition("@")[0] for entry in card_ids()}
    assert {*WANTED.split(), *TRAINING, *(f"vista-{name}" for name in VISTA)} <= names


def test_sizes_of_vista_are_those_of_its_table() -> None:
    sizes = {name: load_card(f"vista-{name}").size.tasks or 0 for name in VISTA}
    tested = [name for name in sizes if load_card(f"vista-{name}").split == "test"]
    assert sum(sizes[name] for name in tested) == 12_310
    assert sum(sizes[name] for name in VISTA_OUT.split()) == 970 + 810 + 2000 + 930 + 1500 + 1000


def test_training_splits_of_vista_have_the_sizes_of_its_table() -> None:
    names = [f"vista-{name}" for name in VISTA_IN.split()]
    cards = [load_card(name if load_card(name).split == "train" else f"{name}:train") for name in names]
    assert sum(card.size.tasks or 0 for card in cards) == 22_170
    assert {card.split for card in cards} == {"train"}


def test_every_set_of_vista_is_read_in_the_form_of_its_own_source() -> None:
    for name in VISTA:
        assert load_card(f"vista-{name}").forms, name


@each_card
def test_forms_name_loaders_that_exist_and_state_their_numbers(name: str) -> None:
    for form in load_card(name).forms:
        load_loader(form.loader.id)
        assert form.size.source or form.size == Size(), form.title


def score_of(card: str, model: str, source: str, part: str = "") -> float:
    """The one score of a model that a card quotes from a table."""
    (found,) = [
        score.score
        for score in load_card(card).scores
        if score.model == model and score.part == part and score.source.startswith(source)
    ]
    return found


VISTA_TABLE_2 = (("chartqa", "geometry3k", "geoqa", "unigeo", "mapqa"), VISTA_OUT.split())


@pytest.mark.parametrize(
    ("model", "table", "inside", "outside"),
    [
        ("GPT-5", 2, 76.39, 75.38),
        ("Claude-4.5-Sonnet", 2, 81.98, 76.07),
        ("VISTA-R1 (InternVL3-2B)", 2, 57.80, 67.82),
        ("VISTA-R1 (Qwen2.5-VL-7B), no tools", 2, 57.02, 58.05),
        ("VTool-R1-7B", 2, 52.18, 54.06),
        ("VISTA-R1 (InternVL3-8B)", 2, 69.54, 72.48),
        ("VISTA-R1 (InternVL3-14B)", 2, 75.95, 77.10),
        ("InternVL3-78B", 2, 73.09, 76.31),
        ("GPT-5 with tools", 3, 51.52, 50.62),
        ("InternVL3-8B with reasoning", 3, 48.07, 66.19),
    ],
)
def test_scores_of_vista_make_the_averages_that_its_tables_print(
    model: str, table: int, inside: float, outside: float
) -> None:
    means = [
        fmean(score_of(f"vista-{name}", model, f"VISTA-Gym, table {table}") for name in names)
        for names in VISTA_TABLE_2
    ]
    assert means == [pytest.approx(inside, abs=0.01), pytest.approx(outside, abs=0.01)]


@pytest.mark.parametrize(
    ("model", "reasoning", "perception"),
    [("Qwen2.5-VL-7B", 49.7, 62.8), ("CodeV-7B-RL", 54.2, 69.7)],
)
def test_scores_of_codev_make_the_averages_of_its_table_1(model: str, reasoning: float, perception: float) -> None:
    thought = ("mathvista", "charxiv-reasoning", "charxiv-descriptive", "mmmu", "mathverse", "mathvision-mini")
    seen = ("blindtest", "vstar", "hrbench-4k", "hrbench-8k")
    assert fmean(score_of(name, model, "CodeV, table 4") for name in thought) == pytest.approx(reasoning, abs=0.06)
    assert fmean(score_of(name, model, "CodeV, table") for name in seen) == pytest.approx(perception, abs=0.06)


@each_card
def test_card_names_a_loader_and_graders_that_exist(name: str) -> None:
    card = load_card(name)
    load_loader(card.loader.id)
    for grader in card.graders.values():
        load_grader(grader.spec)
    assert card.id == name
    assert "{folder}" in card.source.get


@each_card
def test_card_states_a_source_for_every_number(name: str) -> None:
    card = load_card(name)
    assert all(score.source and 0 <= score.score <= 100 for score in card.scores)
    assert card.size.source
    assert all(settings.source for settings in card.settings)
    for settings in card.settings:
        load_dialect(settings.dialect or "direct")
    keys = [(score.model, score.part, score.source) for score in card.scores]
    assert len(set(keys)) == len(keys), "one score twice"


@each_card
def test_card_is_read_back_as_it_is_shown(name: str, tmp_path: Path) -> None:
    card = load_card(name)
    file = tmp_path / "card.toml"
    file.write_text(settings_toml(card), encoding="utf-8")
    assert load_card(str(file)) == card


@each_card
def test_missing_data_say_what_to_get_from_where_into_which_folder(name: str, tmp_path: Path) -> None:
    card = load_card(name)
    with pytest.raises(DataError) as caught:
        open_benchmark(card, tmp_path)
    text = str(caught.value)
    assert card.source.url in text
    assert str(tmp_path / card.name) in text
    assert card.source.get.partition("{")[0] in text


def test_no_folder_at_all_names_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=VARIABLE):
        open_benchmark(load_card("vstar"))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    write_jsonl(tmp_path / "made-up" / "data.jsonl", [])
    assert open_benchmark(card_of()).folder == tmp_path / "made-up"


def test_folder_may_be_the_data_sets_own(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "data.jsonl", [])
    assert open_benchmark(card_of(), tmp_path).folder == tmp_path
    assert read(card_of(), tmp_path, tmp_path / "store") == []


def test_unknown_card_suggests_the_nearest() -> None:
    with pytest.raises(RegistryError, match="hrbench-4k"):
        load_card("hrbench-4")


def test_every_mistake_of_a_card_is_named(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    text = settings_toml(card_of()).replace('media = "image"', 'media = "sound"').replace("title", "titel")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(Card, file)
    for word in ("media", "titel", "title"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"answer_type": "number"}, "graders"),
        ({"graders": {"choice": "choice@1"}, "answer_type": "list"}, "graders"),
        ({"fields": {"images": []}}, "fields.images"),
        ({"media": "video"}, "fields.videos"),
        ({"fields": {"answer": []}}, "fields.answer"),
        ({"id": "Made Up"}, "id"),
    ],
)
def test_card_that_cannot_work_is_refused(changes: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        card_of(**changes)


def test_default_choices_need_a_grader_of_choices() -> None:
    card = card_of(fields={"default_choices": ["A", "B"]}).model_dump()
    with pytest.raises(ValueError, match="of type choice, for which `graders` names none"):
        Card.model_validate({**card, "graders": {"text": "text@1"}})


def test_grader_follows_the_type_of_the_answer() -> None:
    card = load_card("vsi-bench")
    number = Task(id="a", question="q", answer="3", answer_type=AnswerType.NUMBER)
    choice = Task(id="b", question="q", answer="x", choices=("x", "y"), answer_type=AnswerType.CHOICE)
    assert card.grader_of(number).id == "mra@1"
    assert card.grader_of(choice).id == "choice@1"


def test_cards_whose_authors_use_a_judge_and_tolerances_that_sources_state() -> None:
    cards = {name.partition("@")[0]: load_card(name) for name in card_ids()}
    judged = {name for name, card in cards.items() if any(g.headline == "judge" for g in card.graders.values())}
    newer = {"mmvet", "vtc-bench", "zoombench", "babyvision", "visualprobe"}
    assert judged - set(TRAINING) == {"charxiv-descriptive", "charxiv-reasoning", "tir-bench", *newer}
    assert cards["chartqa"].graders[AnswerType.TEXT].spec == "relaxed@1:tolerance=0.05"
    assert cards["vista-docvqa"].graders[AnswerType.TEXT].spec == "anls@1:threshold=0.5"


PAGE = Path(__file__).parents[3] / "docs" / "data-sets.md"


def sizes(card: Card) -> str:
    """Every split with its size, or what is known of it."""
    names = dict.fromkeys([card.split, *card.splits])
    cards = [(name, card_of_split(card, name)) for name in names]
    return "; ".join(f"{name}: {each.size.tasks or each.size.source}" for name, each in cards)


def line(card: Card) -> str:
    loaders = dict.fromkeys(f"`{item.loader.id.partition('@')[0]}`" for item in (card, *card.forms))
    graders = dict.fromkeys(
        f"`{grader.id.partition('@')[0]}`{' + judge' if grader.headline == 'judge' else ''}"
        for grader in card.graders.values()
    )
    licence = card.source.licence.replace("see the source", "not known here")
    source = f"[{card.source.name}]({card.source.url})"
    return f"| `{card.name}` | {source} | {', '.join(loaders)} | {sizes(card)} | {', '.join(graders)} | {licence} |"


@pytest.mark.parametrize("name", [*TRAINING, "pixmo-count", *(f"vista-{name}" for name in VISTA)])
def test_the_page_says_what_the_card_says(name: str) -> None:
    assert line(load_card(name)) in PAGE.read_text(encoding="utf-8").splitlines()


def test_the_page_says_which_cards_have_met_a_real_file() -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    met = {
        f"| `{card.name}` | {form.loader.met} |"
        for card in map(load_card, card_ids())
        for form in (card, *card.forms)
        if form.loader.met
    }
    begin = page.index("| card | real files that were read |")
    listed = page[begin + 2 : page.index("| all others | none: rows made by hand after the form |")]
    assert sorted(listed) == sorted(met)


@pytest.mark.parametrize("name", card_ids())
def test_every_form_says_where_it_is_known_from(name: str) -> None:
    card = load_card(name)
    assert [form.loader.known_from for form in (card, *card.forms) if not form.loader.known_from] == []
