"""Doubtful labels and rows are named with their lines, before anything is trained on them."""

import random

from attnlab.data.example import Example
from attnlab.data.label_quality import alike, label_quality
from attnlab.data.reading_wording import quality_sentences

SPLITS = ("train", "dev", "test")


def rows(*given):
    """Examples by split, text and label, numbered as lines of a file."""
    for number, (split, text, label) in enumerate(given, start=2):
        yield split, Example(text, label=label, place=f"x.csv line {number}")


def test_each_doubt_is_named_with_its_lines():
    quality = label_quality(
        rows(
            ("train", "good film", "pos"),
            ("train", "bad film", "neg"),
            ("train", "Good  FILM", "neg"),
            ("train", "fine", "Pos"),
            ("train", "bad film", "neg"),
            ("train", "so so", "neutral"),
            ("dev", "great", "pos"),
            ("dev", "poor", "neg"),
            ("dev", "nice", "Pos"),
        ),
        ("train", "dev"),
    )
    assert [tuple(each.name for each in same) for same in quality.spellings] == [("pos", "Pos")]
    assert [(each.rows, each.place) for each in quality.spellings[0]] == [
        (2, "x.csv line 2"),
        (2, "x.csv line 5"),
    ]
    assert [(each.split, each.classes) for each in quality.absent] == [("dev", (("neutral", 1),))]
    assert quality.contradicting == 2, "case and white space aside"
    assert [(p.place, p.label) for p in quality.contradictions[0]] == [
        ("x.csv line 2", "pos"),
        ("x.csv line 4", "neg"),
    ]
    assert quality.repeated == 1 and quality.repeats == (("x.csv line 3", "x.csv line 6"),)
    told = " ".join(quality_sentences(quality))
    for line in (2, 3, 4, 5, 6):
        assert f"x.csv line {line}" in told
    for advice in ("write them alike", "data.dev_share", "Decide which label is right", "Remove such rows"):
        assert advice in told


def test_counts_are_those_of_a_slow_search():
    """Every row against every other, on texts that repeat often."""
    pick = random.Random(3)
    for size in (1, 5, 40, 120):
        given = [(pick.choice(SPLITS), f"w{pick.randrange(30)}", pick.choice("abc")) for _ in range(size)]
        quality = label_quality(rows(*given), SPLITS)
        others = [[(t, lab) for k, (_, t, lab) in enumerate(given) if k != n] for n in range(size)]
        contradicting = sum(
            any(t == text and lab != label for t, lab in others[n])
            for n, (_, text, label) in enumerate(given)
        )
        repeated = sum((t, lab) in [(a, b) for _, a, b in given[:n]] for n, (_, t, lab) in enumerate(given))
        assert (quality.contradicting, quality.repeated) == (contradicting, repeated)
        train = {label for split, _, label in given if split == "train"}
        absent = {
            (split, name)
            for split in SPLITS[1:]
            for name in train
            if not any(s == split and lab == name for s, _, lab in given)
        }
        assert {(each.split, name) for each in quality.absent for name, _ in each.classes} == absent


def test_sound_rows_and_numbers_raise_no_doubt():
    sound = rows(*((SPLITS[n % 3], f"text {n}", "ab"[n // 3 % 2]) for n in range(60)))
    assert list(quality_sentences(label_quality(sound, SPLITS))) == []
    numbers = rows(*((SPLITS[n % 3], f"text {n}", f"{n}.5") for n in range(90)))
    assert list(quality_sentences(label_quality(numbers, SPLITS))) == [], "numbers are no classes"
    unlabelled = ((SPLITS[n % 2], Example("same text")) for n in range(9))
    assert list(quality_sentences(label_quality(unlabelled, SPLITS))) == []


def test_spellings_of_unicode():
    assert alike(["a b", "AB", "ﬁne", "fine", "x"]) == [("a b", "AB"), ("ﬁne", "fine")]
