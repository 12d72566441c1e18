"""Long work says what it does: never silent for long, never on stdout, and nothing where it is not wanted."""

import io
import time

from attnlab.documents.terminal import PlainConsole
from attnlab.runs.display import Display


def said(console):
    return console.file.getvalue()


def elsewhere():
    """A console that is no terminal, such as a file or a scheduler's log."""
    return PlainConsole(file=io.StringIO(), force_terminal=False, width=200)


def waited(console, lines, most=5.0):
    """Until so many lines were written; a fault is a silence that lasts."""
    until = time.monotonic() + most
    while said(console).count("\n") < lines and time.monotonic() < until:
        time.sleep(0.01)
    return said(console).splitlines()


def test_without_a_terminal_silence_ends_by_itself_with_what_is_being_done():
    console = elsewhere()
    with Display(console, every=0.05) as display:
        display.work("Checking [the run]")
        first = waited(console, 1)
        display.update("step 7, loss 3.2")
        waited(console, len(first) + 2)
    assert first[0].startswith("Checking [the run] … ")
    assert said(console).splitlines()[-1].startswith("step 7, loss 3.2 … ")
    ended = said(console)
    time.sleep(0.15)
    assert said(console) == ended, "nothing is said once the work is over"


def test_a_line_that_was_just_said_is_not_followed_by_another():
    console = elsewhere()
    with Display(console, every=60.0) as display:
        display.work("Training")
        display.say("step 10: dev loss 4.2")
        time.sleep(0.05)
    assert said(console).splitlines() == ["step 10: dev loss 4.2"]


def test_a_terminal_shows_the_work_at_once():
    console = PlainConsole(file=io.StringIO(), force_terminal=True, width=100)
    with Display(console) as display:
        display.work("Starting")
        display._bar.refresh()
        assert "Starting …" in said(console)
        display.update("step 3, loss 5.1", 0.5)
        display._bar.refresh()
    assert "step 3, loss 5.1" in said(console)


def test_what_is_not_wanted_is_not_shown():
    for terminal in (True, False):
        console = PlainConsole(file=io.StringIO(), force_terminal=terminal)
        with Display(console, shown=False, every=0.01) as display:
            display.work("Training")
            display.say("step 1")
            time.sleep(0.05)
        assert said(console) == ""
