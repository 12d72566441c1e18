"""Words of a text, or of another one, each predicted at its place."""

from __future__ import annotations

from attnlab.data.labels import NoLabels
from attnlab.targets.target import Target


class WordTarget(NoLabels, Target):
    """Tokens: there is no label."""

    by_token = True
