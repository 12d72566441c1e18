"""What a worker can be asked: an action's name, and the function that answers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from attnlab.web.worker_request import WorkerRequest

Answer: TypeAlias = dict[str, Any]
Parts: TypeAlias = Generator[Answer, None, Answer]
"""The parts of an answer as they come; what is returned ends it."""
Action: TypeAlias = "Callable[[WorkerRequest], Answer | Parts]"

ACTIONS = {
    "facts": "attnlab.web.actions.facts:facts",
    "write": "attnlab.web.actions.write:write",
    "fill": "attnlab.web.actions.predict:fill",
    "classify": "attnlab.web.actions.predict:classify",
    "tag": "attnlab.web.actions.predict:tag",
    "answer": "attnlab.web.actions.predict:answer",
    "search": "attnlab.web.actions.search:search",
    "picture": "attnlab.web.actions.pictures:picture",
    "caption": "attnlab.web.actions.caption:caption",
    "search_pictures": "attnlab.web.actions.search_pictures:search_pictures",
    "translate": "attnlab.web.actions.translate:translate",
    "losses": "attnlab.web.actions.losses:losses",
    "attention": "attnlab.web.actions.heads:attention",
    "without_heads": "attnlab.web.actions.removed_heads:without_heads",
    "patch_texts": "attnlab.web.actions.heads:patch_texts",
    "query": "attnlab.web.actions.query:query",
    "mask": "attnlab.web.actions.shapes:mask",
    "positions": "attnlab.web.actions.shapes:positions",
    "feature_map": "attnlab.web.actions.shapes:feature_map",
    "config": "attnlab.web.actions.settings:check_settings",
    "pace": "attnlab.web.actions.pace:pace",
    "card": "attnlab.web.actions.card:variant_card",
    "cards": "attnlab.web.actions.parts:cards",
    "settings": "attnlab.web.actions.parts:settings",
    "combinations": "attnlab.web.actions.parts:combinations",
    "paired": "attnlab.web.actions.paired:paired",
    "run_to_begin": "attnlab.web.actions.pace:run_to_begin",
    "run_to_resume": "attnlab.web.actions.files_read:run_to_resume",
    "study_to_run": "attnlab.web.actions.files_read:study_to_run",
    "studies": "attnlab.web.actions.studies:studies",
}
