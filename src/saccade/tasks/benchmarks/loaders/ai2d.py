"""AI2D as its authors publish it: `questions/<picture>.json` with all questions about a picture, beside `images/`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.loaders.base import first_match
from saccade.tasks.benchmarks.loaders.folders import read_object
from saccade.tasks.benchmarks.problem import FieldError, RowProblem
from saccade.tasks.benchmarks.row_files import SourceRow


class Ai2d:
    """Reads such files. Questions whose options are labels in the picture have `abcLabel`."""

    def find(self, folder: Path, card: Card) -> tuple[Path, ...]:
        return first_match(folder, card.loader.files)

    def rows(self, files: tuple[Path, ...]) -> Iterator[SourceRow | RowProblem]:
        number = 0
        for file in files:
            try:
                data = read_object(file)
                questions = data.get("questions")
                if not isinstance(questions, Mapping):
                    raise FieldError("question", "there is no table `questions`")
            except FieldError as error:
                yield RowProblem(file.name, number, error.field, error.reason)
                number += 1
                continue
            for question, about in questions.items():
                fields = {"imageName": data.get("imageName"), "question": question, "_row": number, "_file": file.stem}
                if isinstance(about, Mapping):
                    yield SourceRow(file.name, number, {**about, **fields})
                else:
                    yield RowProblem(file.name, number, "choices", f"nothing is said about the question {question!r}")
                number += 1

    def count(self, files: tuple[Path, ...]) -> int:
        return sum(1 for _ in self.rows(files))


AI2D = Ai2d()
