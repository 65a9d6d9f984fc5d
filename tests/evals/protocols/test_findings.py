"""All protocols over one run of the real loop; every number is worked out by hand from the scripts of `searches`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TypeVar

import pytest
from tests.evals.protocols.searches import SCRIPTS, scripted, write_search_tasks
from tests.evals.protocols.test_numbers import sample, token_rows

from saccade.cli.main import main
from saccade.errors import ModelRefusedError, OwnCodeError, RecordError, RegistryError, SettingsError
from saccade.evals.protocols.base import (
    Findings,
    StudiedRun,
    findings_file,
    load_protocol,
    plain_data,
    plain_grids,
    plain_lines,
    protocol_names,
    read_findings,
    write_findings,
)
from saccade.evals.protocols.confidence import Confidence, TokenEconomy
from saccade.evals.protocols.confidence import findings as confidence
from saccade.evals.protocols.confidence import token_findings as tokens
from saccade.evals.protocols.errors import ErrorClass, Errors
from saccade.evals.protocols.faithfulness import Faithfulness, OutcomeShares, PictureJudge, ToolUseOutcome
from saccade.evals.protocols.study import Emergence, Study, UsedRow, emergence, study
from saccade.evals.protocols.tool_use import ToolUse
from saccade.evals.run import evaluate
from saccade.evals.settings import EvalSettings
from saccade.media.store import MediaStore
from saccade.models.exchanges import KeptModel
from saccade.models.scripted import ScriptedModel
from saccade.record.codec import loads, write_lines
from saccade.record.content import Answer, Code, ImagePart, Message
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import Provenance, Score, StopReason, Trajectory, Turn
from saccade.report.sections.protocols import findings_text
from saccade.rewards.reward import NoVerdict
from saccade.tools.context import Operation

CROP, DRAW, ZOOM, ROTATE = Operation.CROP, Operation.DRAW, Operation.ZOOM, Operation.ROTATE


def used(name: str, kind: str, *operations: Operation, right: bool = True, functions: tuple[str, ...] = ()) -> UsedRow:
    return UsedRow(
        id=name, task=name, rollout=0, source="s", correct=float(right), kind=kind, operations=operations,
        functions=functions,
    )  # fmt: skip


def new(before: list[UsedRow], rows: list[UsedRow]) -> Emergence:
    return emergence(before, ["sft"]).findings(rows, StudiedRun(run="rl"))


def test_abilities_compositions_and_transfers_are_told_apart() -> None:
    before = [
        used("1", "chart", CROP, DRAW, functions=(".crop",)),
        used("2", "count", ZOOM),
        used("3", "chart", CROP, ZOOM),
    ]
    found = new(
        before,
        [
            used("a", "count", DRAW, functions=(".crop",)),  # boxes of charts, now in counting
            used("b", "chart", DRAW, ZOOM, right=False),  # each known, never together; zoom and draw known on charts
            used("c", "chart", ROTATE, functions=("cv2.rectangle",)),
            used("d", "chart", CROP, DRAW, functions=(".crop",)),
        ],
    )
    assert [(one.what, one.samples.count, one.right.value, one.first) for one in found.transfers] == [
        ("draw on count", 1, 1.0, "a")
    ]
    assert [(one.what, one.right.value) for one in found.compositions] == [("draw + zoom", 0.0)]
    assert [one.what for one in found.operations] == ["rotate"]
    assert [one.what for one in found.functions] == ["cv2.rectangle"]
    assert (found.new_ability.count, found.new_composition.count, found.transfer.count) == (1, 1, 1)
    assert (found.samples_before, found.before) == (3, ("sft",))


def test_a_set_of_three_is_new_only_where_all_its_pairs_are_known() -> None:
    pairs = [used("1", "k", CROP, DRAW), used("2", "k", DRAW, ZOOM), used("3", "k", CROP, ZOOM)]
    assert [one.what for one in new(pairs, [used("a", "k", CROP, DRAW, ZOOM)]).compositions] == ["crop + draw + zoom"]
    two = new(pairs[:2], [used("a", "k", CROP, DRAW, ZOOM)])
    assert [one.what for one in two.compositions] == ["crop + zoom"]


def test_the_same_run_is_not_new_and_nothing_is_no_share() -> None:
    rows = [used("1", "k", CROP, ZOOM, functions=("cv2.resize",))]
    same = new(rows, rows)
    assert [same.functions, same.operations, same.compositions, same.transfers] == [()] * 4
    assert new(rows, []).transfer.value is None
    assert new([], rows).compositions == ()  # what is known alone comes first


def played(folder: Path, *codes: tuple[str, Status]) -> Path:
    turns = [
        Turn(text="t", action=Code(code=code), execution=Execution(status=status, stdout="1")) for code, status in codes
    ]
    task = Task(id="q", question="How many?", source="pixmo-count@1", answer="2")
    write_lines(
        folder / "trajectories.jsonl",
        [
            Trajectory(
                id="q#0", task=task, turns=(*turns, Turn(text="2", action=Answer(text="2"))),
                stop=StopReason.ANSWERED, provenance=Provenance(dialect="codedance@1", model="m"),
                scores=(Score(name="correct", value=1.0),),
            )
        ],
    )  # fmt: skip
    return folder


def test_the_command_reads_code_that_ran_and_writes_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("sft", "rl"):
        (tmp_path / name).mkdir()
    sft = played(tmp_path / "sft", ("image_1.crop((0, 0, 9, 9)).show()", Status.OK))
    rl = played(
        tmp_path / "rl",
        ("import cv2 as c\nc.rectangle(c.imread('a.png'), (0, 0), (9, 9), 255)\nprint(len([1]))", Status.OK),
        ("import cv2\ncv2.inpaint(1, 2, 3, 4)", Status.ERROR),
    )
    assert main(["protocols", str(rl), "--before", str(sft)]) == 0
    printed = capsys.readouterr().out
    found = loads((rl / "protocols" / "emergence.json").read_text(), Emergence)
    assert [one.what for one in found.functions] == ["cv2.rectangle"]
    assert {one.what for one in found.operations} == {"draw", "numerical analysis"}
    assert "cv2.rectangle" in printed
    assert "inpaint" not in printed
    assert not (rl / "protocols" / "tool_use.json").exists()


F = TypeVar("F", bound=Findings)


def judge(messages: tuple[Message, ...]) -> str:
    """A model that finds the sign in small squares and in enlarged ones, and is confused by what is turned."""
    part = messages[0].parts[0]
    assert isinstance(part, ImagePart)
    if (part.width, part.height) == (300, 400):
        return "Maybe."
    return json.dumps({"score": 1 if part.width in (60, 320) else 0})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("protocols")
    tasks = write_search_tasks(folder / "tasks")
    settings = EvalSettings(model="scripted", dialect="codev", sources=(str(tasks),))
    out = folder / "run"
    done = asyncio.run(evaluate(settings, out, workers=2, player=scripted))
    assert done.progress.played == len(SCRIPTS)
    return out


@pytest.fixture(scope="module")
def found(run: Path) -> dict[str, Findings]:
    asked = Study(
        tuple(map(load_protocol, protocol_names())),
        PictureJudge(ScriptedModel(judge, name="judge"), MediaStore(run / "media")),
    )
    return asyncio.run(study(run, asked))


def of(found: dict[str, Findings], kind: type[F]) -> F:
    one = next(item for item in found.values() if isinstance(item, kind))
    assert one.about.samples == len(SCRIPTS)
    assert one.about.dialects == ("codev@1",)
    return one


def counts(shares: OutcomeShares) -> tuple[int, ...]:
    rates = (shares.faithful, shares.unfaithful, shares.no_tool, shares.undecided)
    assert len({rate.of for rate in rates}) == 1
    assert sum(rate.count for rate in rates) == rates[0].of
    return tuple(rate.count for rate in rates)


def test_faithfulness_by_gold_boxes(found: dict[str, Findings]) -> None:
    boxes = next(one for one in of(found, Faithfulness).judges if one.judge == "boxes")
    assert counts(boxes.any_crop.of_all) == (3, 3, 1, 1)
    assert counts(boxes.any_crop.of_correct) == (2, 1, 1, 1)
    assert counts(boxes.every_crop.of_all) == (2, 4, 1, 1)
    right = boxes.any_crop.faithful_and_correct
    assert (right.count, right.of) == (2, 8)
    assert right.low is not None
    assert right.high is not None
    assert 0 <= right.low < 0.25 < right.high <= 1
    assert boxes.without_picture == 2
    assert boxes.invalid == {"unseen": 1}
    assert {one.kind: one.ids for one in boxes.examples}["faithful"] == ("t0#0", "t3#0", "t5#0")
    assert counts(boxes.sources["odd"].of_all) == (2, 1, 0, 1)


def test_faithfulness_by_a_model_is_strict(found: dict[str, Findings]) -> None:
    findings = of(found, Faithfulness)
    model = next(one for one in findings.judges if one.judge == "model")
    assert counts(model.any_crop.of_all) == (2, 4, 1, 1)
    assert model.invalid == {"malformed": 1}
    outcomes = {row.id: row.judged[0].any_crop for row in findings.rows}
    assert outcomes["t7#0"] is ToolUseOutcome.UNDECIDED
    assert outcomes["t2#0"] is ToolUseOutcome.NO_TOOL


def test_judges_are_compared(found: dict[str, Findings]) -> None:
    findings = of(found, Faithfulness)
    pictures = findings.agreement_pictures
    assert pictures is not None
    table = (pictures.both, pictures.only_model, pictures.only_boxes, pictures.neither)
    assert table == (2, 0, 1, 2)
    assert (pictures.same.count, pictures.same.of) == (4, 5)
    # 4/5 agree; 2/5 · 3/5 + 3/5 · 2/5 = 12/25 by chance
    assert pictures.kappa == pytest.approx((20 / 25 - 12 / 25) / (1 - 12 / 25))
    samples = findings.agreement_samples
    assert samples is not None
    assert (samples.both, samples.only_boxes, samples.neither) == (2, 1, 3)


def test_a_judge_is_asked_once_about_a_picture(run: Path, tmp_path: Path) -> None:
    asked = []

    def counting(messages: tuple[Message, ...]) -> str:
        asked.append(messages)
        return judge(messages)

    store, faithfulness = MediaStore(run / "media"), (load_protocol("faithfulness"),)
    model = KeptModel(ScriptedModel(counting, name="judge"), tmp_path)
    first = asyncio.run(study(run, Study(faithfulness, PictureJudge(model, store))))
    # Six pictures; about the one that confused it the model is asked three times.
    assert len(asked) == 8
    silent = KeptModel(ScriptedModel([], name="judge"), tmp_path)
    assert asyncio.run(study(run, Study(faithfulness, PictureJudge(silent, store)))) == first
    text = messages_text(asked)
    assert "What colour is the sign?" in text
    assert "image.crop" not in text
    assert "red" not in text


def messages_text(asked: list[tuple[Message, ...]]) -> str:
    return "\n".join(message.text for messages in asked for message in messages)


def test_errors(found: dict[str, Findings]) -> None:
    findings = of(found, Errors)
    errors = {(row.id, step.error, step.rule) for row in findings.rows for step in row.errors}
    assert errors == {
        ("t1#0", ErrorClass.E4, "gold_box"),
        ("t4#0", ErrorClass.E2, "code_name"),
        ("t3#0", ErrorClass.E6, "gold_box_seen"),
        ("t6#0", ErrorClass.E6, "gold_printed"),
    }
    rates = {rate.error: rate for rate in findings.rates}
    names = rates[ErrorClass.E2]
    assert (names.samples.count, names.samples.of, names.wrong.count, names.wrong.of) == (1, 8, 1, 3)
    assert "Did you mean 'image'" in names.examples[0].step.detail
    reasoning = rates[ErrorClass.E6]
    assert reasoning.estimated
    assert (reasoning.wrong.count, reasoning.wrong.of, reasoning.undecided) == (2, 3, 0)
    content = rates[ErrorClass.E4]
    assert (content.samples.count, content.undecided) == (1, 2)
    assert not rates[ErrorClass.E5].estimated
    assert (findings.any_error.count, findings.format_failures.count) == (1, 0)


def test_tool_use(found: dict[str, Findings]) -> None:
    findings = of(found, ToolUse)
    done = {row.id: [set(call.operations) for call in row.calls] for row in findings.rows}
    assert done["t0#0"] == [{Operation.CROP}]
    assert done["t2#0"] == []
    assert done["t3#0"] == [{Operation.CROP, Operation.ZOOM}]
    assert done["t6#0"] == [{Operation.NO_OPERATION}]
    assert done["t7#0"] == [{Operation.ROTATE}]
    total = findings.total
    assert (total.samples, total.calls, total.failed) == (8, 7, 1)
    shares = {share.operation: share.calls for share in total.operations}
    assert (shares[Operation.CROP].count, shares[Operation.CROP].of) == (4, 6)
    assert total.histogram == {0: 1, 1: 7}
    none, one, two, _ = total.buckets
    assert (none.samples.count, one.samples.count, two.samples.count) == (1, 7, 0)
    assert (one.correct.count, one.correct.of) == (4, 8)
    assert one.accuracy is not None
    assert one.accuracy.value == pytest.approx(4 / 7)
    assert two.accuracy is None
    assert findings.sources["even"].samples == 4


def test_tokens(found: dict[str, Findings]) -> None:
    findings = of(found, TokenEconomy)
    rows = {row.id: row for row in findings.rows}
    photo = (300 // 28 + 1) * (400 // 28)  # 300 is nearest to 308, 400 to 392
    assert rows["t2#0"].visual == photo
    assert rows["t3#0"].visual == photo + 11 * 11  # and 320 to 308
    assert (rows["t5#0"].pictures, rows["t2#0"].pictures) == (3, 1)
    assert findings.estimated == 8
    assert findings.total.accuracy is not None
    assert findings.total.accuracy.value == 5 / 8
    assert sum(span.samples for span in findings.spans) == 8


def test_confidence_of_single_samples(found: dict[str, Findings]) -> None:
    findings = of(found, Confidence)
    assert findings.tasks == ()
    assert findings.agreement is None
    turns = {point.at: point for point in findings.by_turns.points}
    assert (turns[1].samples, turns[2].samples) == (1, 7)
    within = {point.at: point.accuracy for point in findings.within[0].points}
    assert within[1] is not None
    assert within[1].value == 1 / 8
    assert within[2] is not None
    assert within[2].value == 5 / 8


def test_findings_are_stored_and_read_again(found: dict[str, Findings], run: Path, tmp_path: Path) -> None:
    for name, findings in found.items():
        write_findings(findings_file(tmp_path, name), findings)
        assert read_findings(tmp_path, name) == findings
        assert findings_text(findings)
    assert read_findings(run, "tokens") is None
    findings_file(tmp_path, "tokens").write_text("{}", encoding="utf-8")
    with pytest.raises(RecordError, match=r"tokens\.json"):
        read_findings(tmp_path, "tokens")


def test_tables_to_the_letter(found: dict[str, Findings]) -> None:
    rows = [
        *(sample("a", n, "7", 1.0, turns=n + 1, written=10 * n, turn_limit=4) for n in range(4)),
        *(sample("b", n, said, float(said == "7"), turn_limit=8) for n, said in enumerate(("7", "8", "8", ""))),
        *(sample("c", n, said, float(said == "7")) for n, said in enumerate(("7", "7", "7", "9"))),
    ]
    # Token counts of the run follow every word of a prompt; these are made by hand.
    about = StudiedRun(run="r", lost=2)
    made = {"tokens": tokens(token_rows(), about), "several": confidence(rows, about)}
    shown = {**found, **made}
    texts = [f"=== {name}\n{findings_text(one)}\n" for name, one in shown.items()]
    for name, one in shown.items():  # as findings of a protocol of somebody's own are shown
        data = plain_data(one)
        texts += [f"=== {name}, plain"] + [f"{what}: {value}" for what, value in plain_lines(data).items()]
        for grid in plain_grids(data):
            texts += [f"{grid.title} {grid.heads}", *map(str, grid.rows)]
    assert "\n".join(texts) == (Path(__file__).parent / "golden" / "findings.md").read_text(encoding="utf-8")


def test_numbers_and_texts_of_a_protocol_of_ones_own_in_one_line() -> None:
    ends = {"low": 0.25, "high": 0.75}
    data = {
        "crop depth": {"value": 0.5, "samples": 1200, **ends},
        "hits": {"count": 1, "of": 2, **ends},
        "text": 160 * "x",
        "longer": 161 * "x",
    }
    assert plain_lines(data) == {
        "crop depth": "0.5 (0.25–0.75), 1,200 samples",
        "hits": "50.0 % (25–75), 1 of 2",
        "text": 160 * "x",
        "longer": 159 * "x" + "…",
    }


def test_estimates_are_marked_in_the_table(found: dict[str, Findings]) -> None:
    text = findings_text(of(found, Errors))
    assert "E4 argument content (estimate)" in text
    assert "E6 reasoning after the tool (estimate)" in text
    assert "E5 tool output (estimate)" not in text


OWN = (
    "from saccade.evals.protocols.base import Protocol\n"
    "from saccade.evals.protocols.base import Findings, SampleRow\n"
    "def fail(*given): raise KeyError('gone')\ndef plain(studied): return SampleRow(**studied.head)\n"
    "ROW = Protocol('brevity', 'x', Findings, fail, fail)\nFINDINGS = Protocol('brevity', 'x', Findings, plain, fail)\n"
    "TAKEN = Protocol('tokens', 'x', Findings, fail, fail)\nODD = Protocol('a/b', 'x', Findings, fail, fail)\n"
)


def test_protocols_of_ones_own(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "brief.py"
    file.write_text(OWN)
    for name, said in (("TAKEN", "has the name 'tokens', which is taken"), ("ODD", "use letters, digits")):
        with pytest.raises(RegistryError, match=said):
            load_protocol(f"{file}:{name}")
    for name, where in (("ROW", r"the row of the sample t\d#0"), ("FINDINGS", "the findings of 8 rows")):
        said = rf"the protocol brevity failed at {where}: KeyError: 'gone'\nraised through \S*brief\.py, line 3"
        with pytest.raises(OwnCodeError, match=said):
            asyncio.run(study(run, Study((load_protocol(f"{file}:{name}"),))))


def test_wrong_names() -> None:
    with pytest.raises(RegistryError, match="faithfulness"):
        load_protocol("faithfullness")
    with pytest.raises(SettingsError, match="nowhere is no run folder: it is not there"):
        asyncio.run(study(Path("nowhere"), Study(())))


def test_a_picture_that_the_judges_server_refuses_has_no_verdict(run: Path) -> None:
    def fussy(messages: tuple[Message, ...]) -> str:
        raise ModelRefusedError("content filter")

    asked = Study((load_protocol("faithfulness"),), PictureJudge(ScriptedModel(fussy), MediaStore(run / "media")))
    findings = asyncio.run(study(run, asked))["faithfulness"]
    assert isinstance(findings, Faithfulness)
    judged = [sample for row in findings.rows for sample in row.judged if sample.judge == "model"]
    verdicts = [picture for sample in judged for picture in sample.pictures]
    assert verdicts
    assert {(verdict.shows, verdict.invalid) for verdict in verdicts} == {(None, NoVerdict.REFUSED)}


def test_a_run_without_settings_has_no_frame_rate(run: Path, tmp_path: Path) -> None:
    for name in ("trajectories.jsonl", "media"):
        (tmp_path / name).symlink_to(run / name)
    [found] = asyncio.run(study(tmp_path, Study((load_protocol("tokens"),)))).values()
    assert (found.about.samples, found.about.frames) == (8, "")
    assert (found.about.run, found.about.lost, found.about.models) == (tmp_path.name, 0, ("scripted",))


def test_of_two_trajectories_of_one_id_the_later_counts_and_rows_are_in_order(tmp_path: Path) -> None:
    def said(task: str, rollout: int, model: str) -> Trajectory:
        made = Provenance(model=model)
        one = Task(id=task, question="?", answer="7")
        return Trajectory(
            id=f"{task}#{rollout}", task=one, rollout=rollout, provenance=made, stop=StopReason.TURN_LIMIT
        )

    lines = [said("t10", 0, "a"), said("t9", 1, "replaced"), said("t9", 0, "a"), said("t9", 1, "b")]
    write_lines(tmp_path / "trajectories.jsonl", lines)
    heard: list[tuple[int, int]] = []
    asked = Study((load_protocol("tokens"),))
    found = asyncio.run(study(tmp_path, asked, lambda done, of: heard.append((done, of))))["tokens"]
    assert isinstance(found, TokenEconomy)
    assert [row.id for row in found.rows] == ["t9#0", "t9#1", "t10#0"]
    assert (found.about.samples, found.about.models) == (3, ("a", "b"))
    assert heard[-1] == (3, 3)
