"""A task of one's own: a class and a line. Workers import it with a study's extras."""

from attnlab.metrics import METRICS
from attnlab.metrics.metric import mean_of
from attnlab.studies.extras import Extras
from attnlab.tasks import TASKS
from attnlab.tasks.regression import Regression


class Vowels(Regression):
    """Vowels: how many vowels a text has. No label is needed: they are counted.

    Formula: as `regression`.
    """

    def label_of(self, example):
        return float(sum(letter in "aeiou" for letter in example.text))


TASKS.register("vowels", Vowels)


def near(examples):
    """Near: the share of texts whose number is right to half a vowel."""
    return (abs(examples["predicted_number"] - examples["number"]) < 0.5).astype(float)


METRICS.register("near", mean_of(near, better="higher", needs=("number", "predicted_number")))


class Registered(Extras):
    """Nothing but the import of this module."""
