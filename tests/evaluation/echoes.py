"""A metric over generated text, one function and one line. Workers import it with a study's extras."""

import numpy as np

from attnlab.metrics import METRICS
from attnlab.metrics.metric import mean_of
from attnlab.studies.extras import Extras


def echoes(examples):
    """Echoes: the share of the words of a text that were written at their place."""
    pairs = zip(examples["generated"], examples["reference"], strict=True)
    return np.array([share(said.split(), wanted.split()) for said, wanted in pairs])


def share(said, wanted):
    return sum(a == b for a, b in zip(said, wanted, strict=False)) / max(1, len(wanted))


METRICS.register("echoes", mean_of(echoes, better="higher", needs=("generated", "reference")))


class Registered(Extras):
    """Nothing but the import of this module."""
