"""What becomes of the pictures of a run, and which of them are in two splits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from attnlab.checks.check import Case, Check
from attnlab.data.dataset import Dataset
from attnlab.data.images.survey import shared_pictures, survey
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

MANY = 0.01
"""The share of a split's pictures from which on those that are in train are a fault."""


class Pictures(Check):
    """Pictures: how are they changed before the model reads them, and is any in two splits?

    Formula: the headers of up to 10,000 training pictures are counted: how many are resized, converted to
    red, green and blue, laid on white, or read by their first frame alone. Up to 2,000 pictures of dev and
    test are looked for among 20,000 of train: by a difference hash of 8 × 8 places in each colour, of which
    at most 6 of 192 bits differ, and then by pixels whose root mean square difference is at most 12 of 255.
    From 1% on they are a warning.

    When it helps: the same picture under another name, size or format is in train and in dev, and its score
    is memory; a transparent background that is black elsewhere.

    Cannot see: pictures that are mirrored, turned or cut; several pictures of one thing.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 4.0
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        if case.config.model.picture is None:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_images")
        size = case.config.model.picture.size
        facts = picture_facts(case.dataset, size)
        values: dict[str, Value] = facts["forms"] | {"size": size, "shared": facts["shared"]}
        worst = max((one["share"] for one in facts["shared"].values()), default=0.0)
        if worst >= MANY:
            return self.finding(case.when, Outcome.WARN, "shared", worst, **values)
        return self.finding(case.when, Outcome.PASS, "apart", worst, **values)


def picture_facts(dataset: Dataset, size: int) -> dict[str, Any]:
    """Of the training pictures' headers, and of the pictures that other splits share with them."""

    def made() -> dict[str, Any]:
        known = survey(dataset.examples("train"))
        assert known is not None
        forms = {
            "pictures": known.pictures,
            "resized": known.resized(size),
            "converted": known.converted,
            "transparent": known.transparent,
            "animated": known.animated,
        }
        train = dataset.rows("train")
        splits = [name for name in dataset.splits.names if name != "train"]
        shared = {name: shared_pictures(dataset.rows(name), train) for name in splits}
        return {
            "forms": forms,
            "shared": {name: asdict(one) | {"share": one.share} for name, one in shared.items()},
        }

    facts: dict[str, Any] = dataset.kept(f"pictures-{dataset.fingerprint('train')}", made)
    return facts
