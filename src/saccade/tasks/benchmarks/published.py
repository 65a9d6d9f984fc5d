"""What published models made of the very rows of a benchmark, where its files say so: right or wrong, by task."""

from __future__ import annotations

from collections.abc import Mapping

from saccade.tasks.benchmarks.benchmark import Benchmark
from saccade.tasks.benchmarks.loaders.registry import load_loader
from saccade.tasks.benchmarks.make_task import task_id
from saccade.tasks.benchmarks.problem import RowProblem
from saccade.tasks.benchmarks.values import as_text, first_value


def published_answers(benchmark: Benchmark) -> dict[str, dict[str, bool]]:
    """Task id -> model -> whether it was right, from the card's field `published`; empty where the card names none.

    Files spell one model in several ways (`sonnet3.5`, `Sonnet-3.5`); here it has the spelling that comes first.

    Raises:
        DataError: a file of the data cannot be read.
        UnavailableError: what reads it is not installed.
    """
    card = benchmark.card
    if not card.fields.published:
        return {}
    answers: dict[str, dict[str, bool]] = {}
    spelled: dict[str, str] = {}
    for row in load_loader(card.loader.id).rows(benchmark.files):
        if isinstance(row, RowProblem):
            continue
        own, published = first_value(row.fields, card.fields.id), first_value(row.fields, card.fields.published)
        if own is not None and isinstance(published, Mapping):
            by_model = {str(model): right for model, right in published.items() if isinstance(right, bool)}
            answers[task_id(card, as_text(own, "id"))] = {
                spelled.setdefault(_plain(model), model): right for model, right in by_model.items()
            }
    return answers


def _plain(model: str) -> str:
    return "".join(letter for letter in model.casefold() if letter.isalnum())
