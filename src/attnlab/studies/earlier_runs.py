"""A study that grows: runs that are there already stay, and what is new or goes on longer is trained."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from attnlab.config.files import config_of, to_json
from attnlab.config.values import ConfigError
from attnlab.config.wording import count_of
from attnlab.runs.faults import RunError
from attnlab.runs.folder import RunFolder
from attnlab.runs.record import RECORD, Change, differences, read_record
from attnlab.studies.engines.engine import Job
from attnlab.studies.outcome import Note, NoteKind
from attnlab.training.continuing import resumable_step


def ready(work: list[Job], tell: Callable[[str], None] = lambda message: None) -> list[Job]:
    """Jobs of which those that are done need no worker; refused where other runs are in the way."""
    make_way(work)
    for job in work:
        job.done = is_done(job)
    if kept := sum(job.done for job in work):
        tell(f"{kept} of {len(work)} runs are done already; {len(work) - kept} are left to train.")
    if longer := sum(not job.done and bool(changes_of(job)) for job in work):
        tell(f"{count_of(longer, 'run')} of {len(work)} continue to the new budget from a checkpoint.")
    return work


def is_done(job: Job) -> bool:
    """Whether a run has come to its end with the config that is wanted now."""
    return outcome_of(job) == "finished" and not changes_of(job)


def outcome_of(job: Job) -> str:
    """How a run ended; one whose files are damaged has not, and is measured again."""
    try:
        return job.outcome
    except RunError:
        return ""


def changes_of(job: Job) -> list[Change]:
    """How the run in a job's folder differs from the one that is wanted; nothing where there is none."""
    if not (job.folder / RECORD).is_file():
        return []
    before = to_json(RunFolder(job.folder).config())
    return list(differences(before, job.request.config))


def make_way(work: Sequence[Job]) -> None:
    """Refuse to train where runs of another config are in the way, with the reason for each.

    One that failed is moved aside: there is nothing to compare, and the config was changed to mend it.
    """
    reasons = []
    for job in work:
        if not RunFolder(job.folder).exists or not RunFolder(job.folder).begun or not changes_of(job):
            continue
        if read_record(job.folder).get("status") == "failed":
            job.folder.rename(free_name(job.folder))
            continue
        try:
            resumable_step(RunFolder(job.folder).config(), config_of(job.request.config), job.folder)
        except ConfigError as error:
            reasons.append(f"{job.name}: {error}")
    if reasons:
        more = f" The same holds for {count_of(len(reasons) - 1, 'more run')}." if len(reasons) > 1 else ""
        raise ConfigError(f"{reasons[0]}{more} An arm with other settings needs another name.")


def free_name(folder: Path) -> Path:
    """Where a failed run is kept: seed-0-failed-1."""
    names = (folder.with_name(f"{folder.name}-failed-{number}") for number in range(1, 10**6))
    return next(name for name in names if not name.exists())


def left_over(folder: Path, arms: Collection[str]) -> list[Note]:
    """That a folder holds runs of arms which the study does not have any more."""
    there = (folder / "runs").iterdir() if (folder / "runs").is_dir() else ()
    gone = sorted(place.name for place in there if place.name not in arms)
    return [Note(NoteKind.LEFT_OVER, {"arms": gone})] if gone else []
