"""What is read from Python alone: functions that stand for a command in the soak."""

from __future__ import annotations

from pathlib import Path


def resolve_study(file: str) -> None:
    """All of a study that is known before anything is trained."""
    from attnlab.studies.resolved import resolve
    from attnlab.studies.study_files import load_study

    resolve(load_study(file))


def read_peft(folder: str, run: str) -> None:
    from attnlab.interop.peft.adapter_files import read_adapter
    from attnlab.session.stored import stored_at

    model = stored_at(run).model()
    read_adapter(Path(folder), model, family="gpt2", architecture="GPT2LMHeadModel").attach(model)


def report_again(folder: str) -> None:
    """A finished study, read, judged and reported anew from its runs; what is damaged there is told."""
    from attnlab.config.values import ConfigError
    from attnlab.studies import report
    from attnlab.studies.earlier_runs import ready
    from attnlab.studies.resolved import from_record, resolve
    from attnlab.studies.results import gather
    from attnlab.studies.runner import read_study_record, work_of

    place = Path(folder)
    record = read_study_record(place)
    if not record:
        raise ConfigError(f"{place} holds no study: there is no study.json in it.")  # as the command says
    resolved = resolve(from_record(record))
    list(ready(work_of(resolved, place), lambda message: None))
    report.write(gather(resolved, place, record=record, tuning=[]), place)
