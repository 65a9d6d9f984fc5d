"""Which files of a benchmark are read: another split than the card's own (`chartqa:train`), and another form of it.

A card may list its other splits. Where it does not, files named after the card's own split (`data/test-*.parquet`,
`test.jsonl`) have the name of the other one in its place, as data sets on the hub do. The same holds for each form in
which the data are published.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from saccade.errors import SettingsError
from saccade.record.suggest import did_you_mean
from saccade.tasks.benchmarks.card import Card, Form, Reading, Size, SplitFiles


def card_of_split(card: Card, split: str) -> Card:
    """The card for `split`; its tasks have the split in their ids unless it is the card's own.

    Raises:
        SettingsError: neither the card nor the names of its files know of splits.
    """
    if split in ("", card.split):
        return card
    listed = card.splits.get(split)
    loader = _files_of_split(card.loader, listed, card.split, split)
    forms = tuple(form for form in (_form_of_split(form, card.split, split) for form in card.forms) if form is not None)
    if loader is None and not forms:
        names = list(dict.fromkeys([card.split, *card.splits, *(name for form in card.forms for name in form.splits)]))
        hint = did_you_mean(split, names) or f"It has: {', '.join(names)}."
        raise SettingsError(f"{card.id} has no split {split!r}. {hint}")
    if loader is None:
        loader = card.loader.model_copy(update={"files": ()})
    size = _size(listed) if listed else Size(source=f"the card says nothing of the split {split}")
    only = {**card.only, **(listed.only if listed else {})}
    changes = {"loader": loader, "forms": forms, "split": split, "part": split, "size": size, "only": only}
    return card.model_copy(update=changes)


def forms_of(card: Card) -> Iterator[Card]:
    """The card itself, then the card for each other form of its data."""
    yield card
    for form in card.forms:
        taken = card.size.taken or card.size.tasks
        source = (
            f"{form.size.source}; of these the paper takes {taken}: {card.size.source}" if taken else form.size.source
        )
        same = form.size.tasks is None or form.size.tasks == card.size.tasks
        changes = {
            "loader": form.loader,
            "fields": form.fields,
            "only": form.only,
            "cases": form.cases,
            "media": form.media or card.media,
            "answer_type": form.answer_type or card.answer_type,
            "size": card.size if same else Size(tasks=form.size.tasks, source=source, taken=taken),
            "form": form.title,
            "forms": (),
        }
        yield card.model_copy(update=changes)


def _form_of_split(form: Form, own: str, split: str) -> Form | None:
    listed = form.splits.get(split)
    loader = _files_of_split(form.loader, listed, own, split)
    if loader is None:
        return None
    only = {**form.only, **(listed.only if listed else {})}
    return form.model_copy(update={"loader": loader, "only": only, "size": _size(listed) if listed else Size()})


def _size(listed: SplitFiles) -> Size:
    return Size(tasks=listed.tasks, source=listed.source)


def _files_of_split(loader: Reading, listed: SplitFiles | None, own: str, split: str) -> Reading | None:
    """What reads the split; None if its files cannot be named."""
    if listed is not None:
        return loader.model_copy(update={"files": listed.files, "media": listed.media or loader.media})
    files = tuple(_renamed(pattern, own, split) for pattern in loader.files)
    known = tuple(name for name, pattern in zip(files, loader.files, strict=True) if name != pattern)
    media = tuple(_renamed(place, own, split) for place in loader.media)
    return loader.model_copy(update={"files": known, "media": media}) if known else None


def _renamed(pattern: str, own: str, other: str) -> str:
    return re.sub(rf"(?<![A-Za-z]){re.escape(own)}(?![A-Za-z])", other, pattern)
