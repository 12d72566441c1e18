"""What commands print in a terminal of 80 columns, as pictures: really run, with colours, light and dark."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

SMALL = ("model.width=32", "model.layers=2", "model.heads=4", "training.budget.steps=40")
RUNS = {
    "gpt": ["mini-gpt"],
    "classifier": ["classifier-mini"],
    "leak": ["mini-gpt", "--set", "model.masking=zero", "--allow", "dependency", "--allow", "honesty"],
}
"""Small runs that commands are shown on, trained once for a folder."""
COMMANDS = {
    "terminal-help": ["--help"],
    "terminal-list": ["list"],
    "terminal-list-attention": ["list", "attention"],
    "terminal-show": ["show", "dot"],
    "terminal-runs": ["runs", "runs"],
    "terminal-compare": ["compare", "runs/gpt", "runs/leak"],
    "terminal-check": ["check", "runs/gpt"],
    "terminal-check-all": ["check", "runs/gpt", "--all"],
    "terminal-check-leak": ["check", "runs/leak"],
    "terminal-evaluate": ["evaluate", "runs/gpt"],
    "terminal-evaluate-classes": ["evaluate", "runs/classifier"],
    "terminal-batch": ["train", "mini-gpt", "--show-batch"],
    "terminal-generate": ["generate", "runs/gpt", "--prompt", "the", "--count", "2"],
    "terminal-counts": ["explain", "counts", "mini-gpt"],
    "terminal-mask": ["explain", "mask", "--set", "model.mask=prefix"],
    "terminal-scores": ["explain", "scores"],
    "terminal-reach": ["explain", "reach"],
    "terminal-attention": ["explain", "attention", "runs/gpt", "--text", "the list of all names"],
    "terminal-heads": ["explain", "heads", "runs/gpt", "--texts", "40"],
    "terminal-query": ["explain", "query", "--target", "0.5,0.5,0,0"],
    "terminal-superposition": ["explain", "superposition"],
    "terminal-gradients": ["explain", "gradients"],
}
GROUNDS = {  # ground, ink, and the sixteen colours as they usually are
    "dark": ((20, 21, 25), (233, 233, 236)),
    "light": ((252, 251, 249), (29, 30, 34)),
}
SIXTEEN = [
    *((0, 0, 0), (205, 49, 49), (13, 148, 98), (180, 130, 20), (36, 114, 200), (188, 63, 188)),
    *((17, 148, 185), (200, 200, 200), (118, 118, 118), (241, 76, 76), (35, 170, 110), (210, 170, 40)),
    *((59, 142, 234), (214, 112, 214), (41, 174, 211), (229, 229, 229)),
]


def drawn(name: str, out: Path) -> Path:
    """A command's text on a light and on a dark ground, as one page."""
    text = output_of(tuple(COMMANDS[name]), str(trained(str(out.resolve()))))
    file = out / f"{name}.html"
    sides = "".join(svg_of(text, ground) for ground in GROUNDS)
    file.write_text(f"<body style='margin:0;width:1000px'>{sides}</body>", encoding="utf-8")
    return file


def svg_of(text: str, ground: str) -> str:
    console = Console(
        record=True, width=80, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.from_ansi(text), end="")
    theme = TerminalTheme(*GROUNDS[ground], SIXTEEN[:8], SIXTEEN[8:])
    return console.export_svg(title=ground, theme=theme, unique_id=ground)


def output_of(arguments: tuple[str, ...], folder: str) -> str:
    """What a person sees: stdout and stderr of a terminal with colours."""
    environment = os.environ | {"COLUMNS": "80", "LINES": "40", "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    environment |= {"COLORTERM": "truecolor", "PYTHONUTF8": "1"}
    command = [sys.executable, "-m", "attnlab", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return f"$ attnlab {' '.join(arguments)}\n{done.stdout}{settled(done.stderr)}"


def settled(moving: str) -> str:
    """Lines that were drawn over are not seen any more."""
    return "" if "\x1b[" in moving and "Error" not in moving else moving


@cache
def trained(out: str) -> Path:
    """The folder with the small runs."""
    folder = Path(out) / "work"
    folder.mkdir(exist_ok=True)
    for name, arguments in RUNS.items():
        if not (folder / "runs" / name).exists():
            sets = [part for key in SMALL for part in ("--set", key)]
            output_of(("train", *arguments, *sets, "--out", f"runs/{name}"), str(folder))
    return folder
