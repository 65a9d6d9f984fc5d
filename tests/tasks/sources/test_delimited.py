"""TSV and CSV as programs of this world save them: every separator, encoding and line end gives the same rows."""

from __future__ import annotations

import base64
import csv
import io
import logging
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tasks.sources.files import picture, png

from saccade.errors import DataError, SettingsError
from saccade.media.store import MediaStore
from saccade.tasks.benchmarks.row_files import RowProblem, SourceRow
from saccade.tasks.sources.settings import SourceSettings
from saccade.tasks.sources.tables import DelimitedTable, encoding_of
from saccade.tasks.sources.task_set import open_tasks

TEXTS = {
    "Western European": "Quelle est l'année écrite à côté ? Größe, façade, señor, Århus — 5 €",
    "Cyrillic": "Какого цвета машина слева от дерева? Сколько человек на картинке?",
    "Japanese": "この写真には何人いますか？看板に書いてある文字は何ですか。赤い車",
    "simplified Chinese": "图片中有多少个人？左边的汽车是什么颜色的？请选择正确的答案。",
    "traditional Chinese": "圖片中有多少個人？左邊的汽車是什麼顏色的？請選擇正確的答案。",
    "Korean": "사진에 몇 명이 있습니까? 왼쪽 자동차는 무슨 색입니까? 간판의 글자",
}
PAGES = {
    "Western European": "cp1252",
    "Cyrillic": "cp1251",
    "Japanese": "cp932",
    "simplified Chinese": "gb18030",
    "traditional Chinese": "big5",
    "Korean": "cp949",
}
UNICODE = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")


def rows_of(file: Path, encoding: str = "") -> list[dict[str, str]]:
    """The rows as a scan gives them; each is read again by its place and must be the same."""
    table = DelimitedTable(file, encoding)
    found = []
    for place, row in table.scan():
        assert isinstance(row, SourceRow), row
        assert table.read(place).fields == row.fields
        found.append({name: value for name, value in row.fields.items() if not name.startswith("_")})
    return found


def written(rows: list[list[str]], separator: str = ",", end: str = "\r\n") -> str:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=separator, lineterminator=end).writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", UNICODE)
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_every_way_to_write_unicode(suffix: str, encoding: str, separator: str, end: str, tmp_path: Path) -> None:
    rows = [["a.png", 'Big; or, "not"?\nSay\tso.', "3,5"], ["b.png", TEXTS["Japanese"], "blau; rot"]]
    (tmp_path / f"t{suffix}").write_bytes(
        written([["image", "question", "answer"], *rows], separator, end).encode(encoding)
    )
    assert [list(row.values()) for row in rows_of(tmp_path / f"t{suffix}")] == rows


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("separator", [",", ";"])
def test_code_pages_are_found_and_said(
    language: str, separator: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(written([["question", "answer"], [TEXTS[language], "1"]], separator).encode(PAGES[language]))
    with caplog.at_level(logging.WARNING, "saccade"):
        assert rows_of(file) == [{"question": TEXTS[language], "answer": "1"}]
    assert f"read as {PAGES[language]} ({language})" in caplog.text
    assert caplog.text.count("read as") == 1


@pytest.mark.parametrize("text", ["année", "Straße", "50 € – „gut“", "ÀÉÈ?"])
def test_few_letters_are_western(text: str, tmp_path: Path) -> None:
    assert encoding_of(f"question;answer\n{text};x\n".encode("cp1252"), tmp_path) == "cp1252"


def test_what_the_source_says_wins(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "rows.csv").write_bytes("question,answer\nПчела?,да\n".encode("koi8-r"))
    (tmp_path / "mix.toml").write_text(f'[[source]]\nname = "{tmp_path}/rows.csv"\nencoding = "koi8-r"\n')
    pool = open_tasks([str(tmp_path / "mix.toml")])
    assert pool.make(pool.ids[0], MediaStore(tmp_path / "media")).question == "Пчела?"
    assert "read as" not in caplog.text
    for wrong, says in (("klingon", "no encoding 'klingon'"), ("ascii", "cannot be read")):
        with pytest.raises(DataError, match=says):
            open_tasks([SourceSettings(name=str(tmp_path / "rows.csv"), encoding=wrong)])
    with pytest.raises(SettingsError, match="encoding would change nothing"):
        open_tasks([SourceSettings(name="maze", encoding="cp1252")])


def test_bytes_of_no_encoding_are_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"question,answer\n\x81\x8d\xff\x81,x\n")
    with pytest.raises(DataError, match=r'Save it as UTF-8, or say encoding = "\.\.\."'):
        rows_of(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(b"PK\x03\x04" + bytes(99))
    with pytest.raises(DataError, match=r"is a workbook, .* Save the sheet as CSV"):
        rows_of(tmp_path / "t.csv")


def test_excels_own_habits(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        text = "sep=;\r\n\r\n;\r\nquestion; answer \r\n1,5 kg?;yes\r\n;\r\n\r\nb;no\r\n\x1a\0"
        file.write_bytes(text.encode(encoding))
        assert rows_of(file) == [{"question": "1,5 kg?", "answer": "yes"}, {"question": "b", "answer": "no"}]
    file.write_text("\n\n Question , Answer\na;b,1\n")
    assert rows_of(file) == [{"Question": "a;b", "Answer": "1"}]
    pool = open_tasks([str(file)])
    assert pool.make(pool.ids[0], MediaStore(tmp_path / "media")).question == "a;b"
    file.write_text("a question, with a comma;answer\nx;1\n")
    assert rows_of(file) == [{"a question, with a comma": "x", "answer": "1"}]
    file.write_text('"a head, over\ntwo lines";answer;image\nx;1;a\n')
    assert list(rows_of(file)[0].values()) == ["x", "1", "a"]
    file.write_text("")
    assert rows_of(file) == []
    file.write_text("question,answer\na,b,c\n")
    ((_, problem),) = DelimitedTable(file).scan()
    assert isinstance(problem, RowProblem)
    assert "3 cells where the head has 2" in str(problem)


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3)), st.sampled_from(UNICODE), st.sampled_from(",;\t"))
def test_any_cells_come_back(cells: list[list[str]], encoding: str, separator: str) -> None:
    kept = [row for row in cells if any(row)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.csv"
        file.write_bytes(written([["one", "two", "three"], *kept], separator, "\n").encode(encoding))
        told = encoding if encoding in ("utf-16-le", "utf-16-be") else ""  # these have no mark, only many zeros
        assert [list(row.values()) for row in rows_of(file, told)] == kept


def test_rows_share_a_picture_by_its_index_as_vlmevalkit_has_it(tmp_path: Path) -> None:
    red, blue = (base64.b64encode(png(colour)).decode() for colour in ("red", "blue"))
    picture(tmp_path / "7.png", "green")
    rows = [
        ["index", "image", "question", "A", "B", "answer"],
        ["0", "3", "before its picture", "x", "y", "A"],
        ["3", red, "its own", "x", "y", "A"],
        ["4_a", f"['{red}', '{blue}']", "two", "x", "y", "A"],
        ["5", "4_a", "the two of another", "x", "y", "A"],
        ["6", "7.png", "a path", "x", "y", "A"],
        ["8", "99", "nothing", "x", "y", "A"],
    ]
    for separator, encoding in (("\t", "utf-8"), (";", "utf-16")):
        (tmp_path / "bench.tsv").write_bytes(written(rows, separator).encode(encoding))
        pool = open_tasks([str(tmp_path / "bench.tsv")])
        store = MediaStore(tmp_path / "media")
        tasks = {task.question: task for task in pool.tasks(store)}
        parts = {question: [item.part for item in task.media] for question, task in tasks.items()}
        assert parts["before its picture"] == parts["its own"]
        assert len(parts["two"]) == 2
        assert parts["the two of another"] == parts["two"]
        assert len(parts["a path"]) == 1
        (problem,) = pool.problems
        assert "99" in str(problem)
