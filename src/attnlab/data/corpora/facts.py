"""Questions about short passages, made on the spot: half of them have no answer there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from attnlab.config.ranges import BelowOne, Count, Seed
from attnlab.config.streams import stream_seed
from attnlab.data.corpora.corpus import Corpus
from attnlab.data.corpora.synthetic import positive
from attnlab.data.errors import DataError
from attnlab.data.example import Answer, Example

PEOPLE = (
    *("Ada", "Bela", "Cleo", "Dara", "Emil", "Fay", "Gus", "Hana", "Ivo", "Jill", "Kofi", "Lena"),
    *("Milo", "Nora", "Omar", "Pia", "Quinn", "Rosa", "Sven", "Tara", "Udo", "Vera", "Wim", "Yara"),
)


@dataclass(frozen=True)
class Relation:
    """What is said of a person, how it is asked for, and what the answer may be."""

    said: str
    asked: str
    values: tuple[str, ...]


RELATIONS = (
    Relation("lives in", "Where does {} live?", ("Oslo", "Lima", "Cairo", "New Delhi", "Cape Town")),
    Relation("works as", "What does {} work as?", ("a baker", "a judge", "a pilot", "a piano teacher")),
    Relation("owns", "What does {} own?", ("a red boat", "two old bicycles", "a farm", "a small blue house")),
    Relation("studies", "What does {} study?", ("physics", "law", "music", "ancient history")),
)


class Facts(Corpus):
    """Facts: `Jill lives in Oslo. Udo owns a farm. …`, asked `Where does Jill live?` → `Oslo`, or nothing.

    A question without an answer (`unanswerable` of them) is about a person of whom the passage says something
    else, so that neither the name nor what is asked for decides it alone. Each passage has `facts` facts and
    is asked one question.
    """

    def __init__(
        self, *, facts: Count = 4, unanswerable: BelowOne = 0.5, examples: Count = 8000, seed: Seed = 0
    ):
        self.facts, self.examples, self.seed = positive("facts", facts), positive("examples", examples), seed
        self.unanswerable = unanswerable
        if not 2 <= facts <= len(PEOPLE):
            raise DataError(f"facts is {facts}; it must be from 2 to {len(PEOPLE)}, a person each.")
        if not 0 <= unanswerable < 1:
            raise DataError(f"unanswerable is {unanswerable}; it must be at least 0 and below 1.")

    def read(self, split: str = "train") -> Iterator[Example]:
        self.check_given(split)
        for number in range(self.examples):
            yield self.item(Random(stream_seed(self.seed, "Facts", number)))

    def item(self, random: Random) -> Example:
        """One passage with its question."""
        people = random.sample(PEOPLE, self.facts)
        relations = {person: random.choice(RELATIONS) for person in people}
        value = {person: random.choice(relation.values) for person, relation in relations.items()}
        passage, starts = "", {}
        for person, relation in relations.items():
            before = f"{' ' * bool(passage)}{person} {relation.said} "
            starts[person] = len(passage) + len(before)
            passage += f"{before}{value[person]}."
        asked = random.choice(people)
        if random.random() < self.unanswerable:
            other = random.choice([relation for relation in RELATIONS if relation is not relations[asked]])
            return Example(other.asked.format(asked), pair=passage)
        answer = Answer(value[asked], starts[asked])
        return Example(relations[asked].asked.format(asked), pair=passage, answers=(answer,))

    def fingerprint(self) -> str:
        settings = (self.facts, self.unanswerable, self.examples, self.seed, RELATIONS)
        return hashlib.sha256(repr(settings).encode()).hexdigest()[:16]
