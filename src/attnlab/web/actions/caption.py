"""What a model writes for a picture: the best of a beam, with their scores."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from attnlab.config.ranges import Range
from attnlab.session.translating import BEAM
from attnlab.web.actions import Answer
from attnlab.web.actions.pictures import asked_picture
from attnlab.web.worker_request import WorkerRequest


@dataclass(frozen=True)
class CaptionValues:
    picture: dict[str, Any] = field(default_factory=dict)
    beam: Annotated[int, Range(least=1, most=16)] = BEAM
    penalty: Annotated[float, Range(least=-10, most=10)] = 1.0


def caption(asked: WorkerRequest) -> Answer:
    values, trained = asked.read(CaptionValues), asked.trained
    given = asked_picture(asked, values.picture)
    (candidates,) = trained.candidates(
        [given.image], best=values.beam, beam=values.beam, penalty=values.penalty
    )
    return {"candidates": [asdict(candidate) for candidate in candidates]}
