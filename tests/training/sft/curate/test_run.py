"""The pipeline itself: order, output, report, mistakes."""

from __future__ import annotations

import os
import tempfile
import tomllib
from pathlib import Path

import pytest
from tests.tasks.sources.files import jsonl, picture
from tests.training.sft.curate.cases import Runs, blobs, ran, said

from saccade.core.recipes import recipe_names
from saccade.errors import MissingMediaError, RecordError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import loads
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.sft.curate.pipeline import load_pipeline, parse_pipeline
from saccade.training.sft.curate.registry import FILTERS, load_filter
from saccade.training.sft.curate.report import EXAMPLES, CurateReport
from saccade.training.sft.curate.run import curate
from saccade.training.sft.curate.sources import SourceRuns

FILES = ["dropped.jsonl", "media", "pipeline.toml", "report.json", "trajectories.jsonl"]


def test_order_is_kept_and_media_are_linked(runs: Runs) -> None:
    pictures = [runs.put(blobs(seed)) for seed in range(2)]
    count = 67
    runs.write(*(runs.trajectory(f"{n:03}", picture=pictures[n % 2], correct=float(n % 3 > 0)) for n in range(count)))
    result = runs.curate({"name": "score"})
    assert result.ids == [f"{n:03}" for n in range(count) if n % 3]
    source, store = MediaStore(runs.root / "run" / "media"), MediaStore(runs.out / "media")
    for part in pictures:
        assert store.get_bytes(part.sha256) == source.get_bytes(part.sha256)
        assert store.path(part.sha256).samefile(source.path(part.sha256))
    assert sorted(path.name for path in runs.out.iterdir()) == FILES


def test_report_counts_reasons_examples_and_categories(runs: Runs) -> None:
    wrong = [runs.trajectory(f"w{n}", correct=0.0, task={"source": "charts"}) for n in range(EXAMPLES + 2)]
    runs.write(*wrong, runs.trajectory("r", ran(), said("5"), correct=1.0, task={"source": "maps"}))
    report = runs.curate({"name": "score"}, {"name": "tool-turns"}).report
    assert loads((runs.out / "report.json").read_bytes(), CurateReport) == report
    _, score, turns = report.filters
    assert (report.read, report.kept, score.seen, score.dropped, turns.seen) == (EXAMPLES + 3, 0, EXAMPLES + 3, 7, 1)
    assert score.reasons[0].count == EXAMPLES + 2
    assert score.reasons[0].examples == tuple(f"w{n}" for n in range(EXAMPLES))
    assert [(item.category, item.seen, item.kept) for item in score.categories] == [("charts", 7, 0), ("maps", 1, 1)]


def test_ids_that_come_again_get_their_runs_name(runs: Runs) -> None:
    runs.write(runs.trajectory("a", correct=1.0), run="one")
    runs.write(runs.trajectory("a", correct=1.0), run="two")
    result = runs.curate({"name": "score"}, runs=("one", "two"))
    assert result.ids == ["a", "two/a"]
    assert result.report.renamed == 1


def test_same_output_twice(runs: Runs) -> None:
    runs.write(*(runs.trajectory(str(n), task={"source": "ab"[n % 2]}) for n in range(40)))
    filters = [{"name": "mixture", "weights": {"a": 1, "b": 3}}, {"name": "split"}]
    first = runs.curate(*filters)
    runs.out = runs.root / "again"
    assert runs.curate(*filters).kept == first.kept
    for name in ("trajectories.jsonl", "dropped.jsonl", "pipeline.toml"):
        assert (runs.out / name).read_bytes() == (runs.root / "out" / name).read_bytes()
    # A filter of whole sets passes over a file, which goes.
    assert sorted(path.name for path in runs.out.iterdir()) == [name for name in FILES if name != "media"]


def test_resolved_pipeline_gives_the_same_again(runs: Runs) -> None:
    runs.write(*(runs.trajectory(str(n), correct=n % 2) for n in range(6)))
    first = runs.curate({"name": "score", "label": "right"}, {"name": "split", "seed": 4})
    again = load_pipeline(runs.out / "pipeline.toml")
    assert curate([runs.root / "run"], again, runs.root / "again", cache=runs.root).filters == first.report.filters


def test_nothing_appears_if_it_fails(runs: Runs) -> None:
    part = runs.put(blobs(1), run="elsewhere")
    runs.write(runs.trajectory("a", picture=part, correct=1.0))
    with pytest.raises(MissingMediaError):
        runs.curate({"name": "score"})
    assert sorted(path.name for path in runs.root.iterdir()) == ["elsewhere", "run"]


def test_an_output_that_exists_is_refused(runs: Runs) -> None:
    runs.write(runs.trajectory("a"))
    runs.out.mkdir()
    (runs.out / "mine").touch()
    with pytest.raises(RecordError, match="exists already"):
        runs.curate({"name": "score"})
    assert (runs.out / "mine").exists()


def test_an_empty_output_folder_is_filled(runs: Runs) -> None:
    runs.write(runs.trajectory("a", correct=1.0))
    runs.out.mkdir()
    assert runs.curate({"name": "score"}).ids == ["a"]


def test_a_pipeline_that_is_no_toml_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('category = "source"\n[[filter]\n', encoding="utf-8")
    with pytest.raises(SettingsError, match=r"mine\.toml is not valid TOML: .*line 2"):
        load_pipeline(file)


def test_no_run_is_refused(runs: Runs) -> None:
    with pytest.raises(SettingsError, match="no file or folder of tasks"):
        runs.curate({"name": "score"})


def test_every_mistake_is_named() -> None:
    data = {
        "catgory": "x",
        "filter": [{"name": "scor"}, {"name": "score", "at_leest": 1}, {"name": "tool-turns", "at_least": -1}, {}],
    }
    with pytest.raises(SettingsError) as caught:
        parse_pipeline(data, ["score.at_most", "nothing.at_least=1"])
    text = str(caught.value)
    for words in ("'category'", "'score'", "'at_least'", "tool-turns.at_least", "no name", "score.at_most", "nothing"):
        assert words in text
    assert text.startswith("7 mistake(s)")


def test_a_filter_twice_needs_labels() -> None:
    table = {"name": "score"}
    with pytest.raises(SettingsError, match="comes twice"):
        parse_pipeline({"filter": [table, table]})
    steps = parse_pipeline({"filter": [table, {**table, "label": "b"}]}, ["b.at_least=0.5", "b.score=format"]).steps
    assert [(step.label, step.settings.model_dump()["at_least"]) for step in steps] == [("score", 1.0), ("b", 0.5)]


def test_every_filter_loads_and_says_what_it_does() -> None:
    for entry in FILTERS.ids():
        assert (load_filter(entry).__doc__ or "").strip()


@pytest.mark.parametrize("name", recipe_names("curate"))
def test_bundled_pipelines_are_valid(name: str) -> None:
    pipeline = load_pipeline(name)
    assert parse_pipeline(tomllib.loads(pipeline.to_toml())) == pipeline


def test_a_mistake_says_what_kind_it_is() -> None:
    tables = [{"name": "score", "at_leest": 1}, {"name": "ended", "turns": 0}, {"name": "tool-turns", "at_least": "x"}]
    with pytest.raises(SettingsError) as caught:
        parse_pipeline({"filter": tables}, where="mine.toml")
    first, *lines = str(caught.value).splitlines()
    assert first == "3 mistake(s) in mine.toml:"
    assert lines[0].startswith("  score.at_leest: no such setting. Did you mean 'at_least'")
    assert lines[1].startswith("  ended.turns: ")
    assert lines[1].endswith(", got 0")
    assert lines[2].endswith(", got 'x'")
    assert "no such setting" not in lines[1] + lines[2]


@pytest.mark.parametrize("tables", [[], "score", ["score"], [{"name": "score"}, "ended"]])
def test_a_pipeline_without_tables_of_filters_is_refused(tables: object) -> None:
    with pytest.raises(SettingsError, match=r"filter: should be one \[\[filter\]\] table or more"):
        parse_pipeline({"filter": tables})


@pytest.mark.parametrize("rule", ["source", "dialect", "model", "answer_type", "split", "tag"])
def test_every_category_rule_is_accepted_and_no_other(rule: str) -> None:
    table = {"name": "score"}
    assert parse_pipeline({"category": rule, "filter": [table]}).category == rule
    with pytest.raises(SettingsError, match=f"category: should be one of source, .*got '{rule}s'"):
        parse_pipeline({"category": f"{rule}s", "filter": [table]})


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", 2.0), ("0.5", 0.5), (" 1e-1 ", 0.1)],
)
def test_overrides_are_read_as_toml(text: str, value: float) -> None:
    (step,) = parse_pipeline({"filter": [{"name": "score"}]}, [f"score.at_least={text}"]).steps
    assert step.settings.model_dump()["at_least"] == value


def test_an_override_that_is_no_toml_is_a_text(tmp_path: Path) -> None:
    table = {"name": "score"}
    for text in ("format", "a = b", '"format"', "x\ny = 2"):
        (step,) = parse_pipeline({"filter": [table]}, [f"score.score={text}"]).steps
        assert step.settings.model_dump()["score"] == text.strip('"')


def test_a_pipeline_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("", encoding="utf-8")

    def denied(self: Path, *rest: object, **more: object) -> str:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_text", denied)  # the tests may run as root, whom no mode of a file stops
    with pytest.raises(SettingsError, match=r"mine\.toml cannot be read: Permission denied"):
        load_pipeline(file)


def test_runs_that_cannot_be_told_apart_are_refused(runs: Runs) -> None:
    runs.write(runs.trajectory("a", correct=1.0))
    with pytest.raises(RecordError, match="named twice"):
        runs.curate({"name": "score"}, runs=("run", "run"))
    runs.write(runs.trajectory("a"), runs.trajectory("a"), run="double")
    with pytest.raises(RecordError, match="the trajectory a comes twice in"):
        runs.curate({"name": "score", "undecided": "keep"}, runs=("run", "double"))
    long = "x" * 196  # with `two/` before it 200 characters, as long as an id may be
    for run in ("one", "two", "three"):
        runs.write(runs.trajectory(long, correct=1.0, task={"id": "task"}), run=run)
    assert runs.curate({"name": "score"}, runs=("one", "two")).ids == [long, f"two/{long}"]
    runs.out = runs.root / "again"
    with pytest.raises(RecordError, match="comes twice"):
        runs.curate({"name": "score"}, runs=("one", "three"))


def test_every_trajectory_that_is_read_is_noticed(runs: Runs) -> None:
    runs.write(*(runs.trajectory(str(n), correct=n % 2) for n in range(5)))
    heard: list[int] = []
    pipeline = parse_pipeline({"filter": [{"name": "score"}]})
    curate([runs.root / "run"], pipeline, runs.out, cache=runs.root, on_read=lambda: heard.append(1))
    assert len(heard) == 5
    assert SourceRuns([runs.root / "run"]).count() == 5


def test_what_is_renamed_is_of_one_reading(runs: Runs) -> None:
    for run in ("one", "two"):
        runs.write(runs.trajectory("a"), run=run)
    source = SourceRuns([runs.root / "one", runs.root / "two"])
    assert source.renamed == 0
    for _ in range(2):
        assert [trajectory.id for trajectory in source.trajectories()] == ["a", "two/a"]
        assert source.renamed == 1


def test_media_of_tasks_that_nobody_played_go_with_their_source(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture(tmp_path / "photos" / "a.png")
    jsonl(tmp_path / "photos" / "questions.jsonl", [{"image": "a.png", "question": "?", "answer": "x"}])
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    source = SourceRuns([tmp_path / "photos"])
    [trajectory] = source.trajectories()
    [part] = trajectory.media()
    assert source.get_bytes(part.sha256)
    assert len(list(scratch.iterdir())) == 1
    del source
    assert not list(scratch.iterdir())


def test_media_are_copied_where_they_cannot_be_linked(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError("another file system")

    part = runs.put(blobs(1))
    runs.write(runs.trajectory("a", picture=part, correct=1.0))
    monkeypatch.setattr(os, "link", refuse)
    runs.curate({"name": "score"})
    before, after = (MediaStore(folder / "media").path(part.sha256) for folder in (runs.root / "run", runs.out))
    assert before.read_bytes() == after.read_bytes()
    assert not before.samefile(after)


def test_categories_count_before_and_behind_each_filter(runs: Runs) -> None:
    runs.write(
        runs.trajectory("a", correct=1.0, task={"tags": ("x", "y", "x")}),
        runs.trajectory("b", correct=0.0, task={"tags": ("y",)}),
        runs.trajectory("c", correct=1.0),
        runs.trajectory("d"),
    )
    report = runs.curate({"name": "score"}, category="tag").report
    score = report.filters[1]
    assert [(item.category, item.seen, item.kept) for item in score.categories] == [
        ("-", 2, 1),
        ("x", 1, 1),
        ("y", 2, 1),
    ]
    assert (score.dropped, score.undecided, score.kept) == (1, 1, 2)
    assert [(item.outcome, item.count) for item in score.reasons] == [("dropped", 1), ("undecided", 1)]


@pytest.mark.parametrize("name", ["duplicates", "contamination"])
def test_the_color_of_near_pictures_is_spelt_as_other_settings_are(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"{name}\.colour: no such setting\. Did you mean 'color'"):
        parse_pipeline({"filter": [{"name": name, "colour": 8.0}]})


def test_tasks_that_nobody_played_are_curated_and_are_a_source_again(tmp_path: Path) -> None:
    for name, colour in (("a.png", "red"), ("b.png", "blue")):
        picture(tmp_path / "photos" / name, colour)
    (tmp_path / "photos" / "broken.png").write_bytes(b"none")
    rows = [
        {"image": name, "question": question, "answer": "x"}
        for name in ("a.png", "b.png", "broken.png")
        for question in ("Which colour is the sign?", "Which colour is the sign?")
    ]
    jsonl(tmp_path / "photos" / "questions.jsonl", [*rows, {"image": "none.png", "question": "?"}])
    (tmp_path / "p.toml").write_text('[[filter]]\nname = "duplicates"\n', encoding="utf-8")
    chosen = load_pipeline(str(tmp_path / "p.toml"), ())
    report = curate([str(tmp_path / "photos")], chosen, tmp_path / "out", cache=tmp_path / "cache")
    assert (report.read, report.kept, len(report.broken)) == (4, 2, 3)
    assert "none.png" in report.broken[0]
    left = open_tasks([str(tmp_path / "out")])
    tasks = list(left.tasks(MediaStore(tmp_path / "store")))
    assert len({task.media[0].part.sha256 for task in tasks}) == 2
    with pytest.raises(SettingsError, match="Did you mean"):
        curate(["visual-serch"], chosen, tmp_path / "other", cache=tmp_path / "cache")
