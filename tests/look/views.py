"""The page's views of real runs, trained for the purpose and served as a person serves them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.browser import Page
from tests.studies.look import SLICE, WIDTHS
from tests.web.serving import server

SMALL = ("model.width=64", "model.layers=2", "model.heads=4", "training.evaluate_every=20")
LONGER = (*SMALL, "training.budget.steps=200")
RUNS = {
    "gpt-rotary": ("mini-gpt", *LONGER, "model.positions=rotary"),
    "gpt-sinusoidal": ("mini-gpt", *LONGER, "model.positions=sinusoidal"),
    "gpt-no-positions": ("mini-gpt", *LONGER, "model.positions=none"),
    "gpt-leak": ("mini-gpt", *SMALL, "training.budget.steps=60", "model.masking=zero"),
    "packages": ("classifier-mini", "training.budget.steps=100"),
}
ALLOWED = {"gpt-leak": ("--allow", "dependency", "--allow", "honesty")}
STUDY = """
question = "Do positions matter to a small language model?"
seeds = 3
base = "mini-gpt"
allow = { leak = ["dependency", "honesty"] }
[set]
"model.width" = 64
"model.layers" = 2
"model.heads" = 4
"training.budget.steps" = 200
"training.evaluate_every" = 20
[arms.sinusoidal]
[arms.rotary]
"model.positions" = "rotary"
[arms.none]
"model.positions" = "none"
[arms.leak]
"model.masking" = "zero"
"""
DRAWN = "[...document.querySelectorAll('[data-plot]')].every((f) => 'drawn' in f.dataset)"
OPEN = "!document.getElementById('heads').hidden"
HEADS = "!document.getElementById('heads-shown').hidden && document.querySelector('.small-row') !== null"
VIEWS = {
    "home": ("/", "document.querySelectorAll('#runs tbody tr').length > 4"),
    "run": ("/runs/gpt-rotary", DRAWN),
    "compare": ("/compare?run=gpt-sinusoidal&run=gpt-rotary&run=gpt-no-positions", DRAWN),
    "inside": ("/inside/gpt-rotary", OPEN),
    "new": ("/new", "document.getElementById('command').textContent.includes('attnlab train')"),
    "study": ("/studies/positions", "document.querySelector('.contents a') !== null"),
}


def pictures(tab: Page, out: Path, names: list[str]) -> None:
    """The upper part of each view, at both widths, light and dark."""
    with server(trained(out)) as page:
        for name in names:
            path, ready = VIEWS[name.removeprefix("view-")]
            for width, (wide, high) in WIDTHS.items():
                for dark in (False, True):
                    tab.size(wide, high, dark=dark)
                    tab.open(page.address + path)
                    tab.until(f"document.readyState === 'complete' && {ready}", 120)
                    if path.startswith("/inside/"):
                        tab.run("document.querySelector('#heads form button').click()")
                        tab.until(HEADS, 60)
                    whole = tab.run("document.documentElement.scrollHeight")
                    tab.size(wide, max(high, whole), dark=dark)
                    tab.until(DRAWN, 60)
                    file = out / f"{name}-{width}-{'dark' if dark else 'light'}.png"
                    clip = {"x": 0, "y": 0, "width": wide, "height": min(SLICE, max(high, whole))}
                    tab.screenshot(file, clip=clip)


def trained(out: Path) -> Path:
    """The folder with the runs and the study; what is there is not trained again."""
    folder = out / "served"
    folder.mkdir(exist_ok=True)
    for name, (config, *changes) in RUNS.items():
        if not (folder / name / "run.json").exists():
            sets = [word for change in changes for word in ("--set", change)]
            attnlab("train", config, *sets, *ALLOWED.get(name, ()), "--out", str(folder / name))
    if not (folder / "positions" / "results.json").exists():
        (folder / "positions.toml").write_text(STUDY)
        attnlab("run", str(folder / "positions.toml"), "--out", str(folder / "positions"))
    return folder


def attnlab(*words: str) -> None:
    command = [sys.executable, "-m", "attnlab", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr  # 1: something is invalid, which is to be seen
