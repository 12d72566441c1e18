"""What is said of a person's files and rows, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from attnlab.config.wording import count_of, first_few, in_words
from attnlab.data.corpora.separators import SEPARATORS
from attnlab.data.images.survey import PictureSurvey, SharedPictures
from attnlab.data.label_quality import Absent, LabelledPlace, LabelQuality, Spelling

USUAL = {".csv": ",", ".tsv": "tab"}


def separator_sentences(separators: Mapping[Path, str]) -> Iterator[str]:
    """How columns are separated, where that is not what a file's name says."""
    for file, separator in separators.items():
        suffix = Path(file.name.lower().removesuffix(".gz")).suffix
        if separator != USUAL.get(suffix):
            signs = SEPARATORS[separator]
            yield f"The columns of {file} are separated by {signs} (--separator sets another)."


def quality_sentences(quality: LabelQuality) -> Iterator[str]:
    """What is doubtful about labelled rows, and what to do."""
    for same in quality.spellings:
        differ = "differ only by case, spaces or Unicode form"
        yield f"{spelled(same)} {differ}, and are {len(same)} classes: write them alike."
    yield from map(absent_sentence, quality.absent)
    if quality.contradicting:
        yield (
            f"{count_of(quality.contradicting, 'row')} have a text that another row has with another label: "
            f"{'; '.join(map(contradiction, quality.contradictions))}. Decide which label is right: no model "
            "can be right on all of them."
        )
    if quality.repeated:
        verb = "repeats" if quality.repeated == 1 else "repeat"
        pairs = "; ".join(f"{first} and {second}" for first, second in quality.repeats)
        yield (
            f"{count_of(quality.repeated, 'row')} {verb} the text and label of an earlier row: {pairs}. "
            "Remove such rows, unless they are meant to count twice."
        )


def decimal_sentence(quality: LabelQuality) -> str:
    """How numbers with a decimal comma are read; nothing where there are none."""
    if not quality.decimal_commas:
        return ""
    example, labels = quality.comma_example, count_of(quality.decimal_commas, "label")
    number = example.replace(".", "").replace(",", ".")
    return f"{labels} with a decimal comma: as a number (--task regression) {example} is read as {number}."


def picture_form_sentences(surveys: Iterable[PictureSurvey]) -> Iterator[str]:
    """How pictures are read that are not square, coloured and still."""
    known = list(surveys)
    yield (
        "A picture is resized to a square of the model's size (model.inputs) by a bicubic filter, with white "
        "at its sides where it is not square (data.encoding.fit sets crop or stretch)."
    )
    counts = {name: sum(getattr(one, name) for one in known) for name in PICTURE_FORMS}
    for name, sentence in PICTURE_FORMS.items():
        if counts[name]:
            yield f"{count_of(counts[name], 'picture')} {sentence}"


PICTURE_FORMS = {
    "converted": "not in red, green and blue (grey, a palette, CMYK): converted.",
    "transparent": "with transparency: laid on white.",
    "animated": "with several frames: the first is read.",
}


def shared_picture_sentences(shared: Mapping[tuple[str, str], SharedPictures]) -> Iterator[str]:
    """Pictures that are in two splits."""
    for (first, second), pictures in shared.items():
        if pictures.same or pictures.near:
            yield (
                f"{pictures.same:,} of {pictures.pictures:,} pictures of {second} are in {first} too, and "
                f"{pictures.near:,} look the same as one of it: scores on them measure memorisation."
            )


def absent_sentence(absent: Absent) -> str:
    named = first_few([f"“{name}” ({count_of(rows, 'row')} in train)" for name, rows in absent.classes], 5)
    return (
        f"No row of {absent.split} has the class {named}: nothing is measured of it there. Give it rows in "
        f"{absent.split}: more rows in all, a larger data.{absent.split}_share or another data.split_seed."
    )


def spelled(same: tuple[Spelling, ...]) -> str:
    named = [f"“{each.name}” ({count_of(each.rows, 'row')}, first {each.place})" for each in same]
    return in_words(named)


def contradiction(places: tuple[LabelledPlace, ...]) -> str:
    return first_few([f"{each.place} (“{each.label}”)" for each in places], 4)
