"""`make look`: pictures of a report at desktop and phone width, light and dark, to look at.

    python -m tests.studies.look [REPORT.html] [FOLDER]

Without a report, one is made from the fixture. Chromium comes from Debian's packages if it is missing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
SLICE = 2400  # a picture's height at most, so that it can be looked at without scrolling for ever


def main(report: str = "", folder: str = "look") -> None:
    install()
    from tests.browser import chromium

    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    page = Path(report) if report else made(out)
    with chromium() as tab:
        for name, (width, height) in WIDTHS.items():
            for dark in (False, True):
                take(
                    tab,
                    page,
                    out,
                    name=f"{name}-{'dark' if dark else 'light'}",
                    size=(width, height),
                    dark=dark,
                )
    print(f"Pictures of {page} are in {out}/")


def install() -> None:
    if any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        return
    if not shutil.which("apt-get"):
        sys.exit("make look needs Chromium; install it with your system's packages.")
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], check=True)


def made(out: Path) -> Path:
    from tests.studies.results import five_arms, write

    return write(five_arms(), out / "report")


def take(tab, page: Path, out: Path, *, name: str, size: tuple[int, int], dark: bool) -> None:
    """The whole page, in slices; the window is made as tall as the page, so that every plot is drawn."""
    tab.size(*size, dark=dark)
    tab.open(page)
    height = 0
    while height != (now := tab.run("document.documentElement.scrollHeight")):
        height = now
        tab.size(size[0], height, dark=dark)
        tab.until("[...document.querySelectorAll('[data-plot]')].every((f) => 'drawn' in f.dataset)")
    for old in out.glob(f"{name}-*.png"):
        old.unlink()
    for i, top in enumerate(range(0, height, SLICE)):
        clip = {"x": 0, "y": top, "width": size[0], "height": min(SLICE, height - top)}
        tab.screenshot(out / f"{name}-{i + 1}.png", clip=clip)
    for error in tab.errors:
        print(f"{name}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
