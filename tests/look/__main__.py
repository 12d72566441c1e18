"""`make look`: pictures of the views that people meet, to look at: pages, the terminal, notebooks.

    python -m tests.look [REPORT.html] [FOLDER] [NAME …]

Pages at desktop and phone width, light and dark; commands at 80 columns; results in a light and in a dark
notebook. With a report, of that alone; with names, of these views alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.browser import Page
from tests.explain.pages import PAGES
from tests.look import notebooks, terminals, views
from tests.studies.look import REPORTS, WIDTHS, install, reports, take


def main(report: str = "", folder: str = "look", *names: str) -> None:
    install()
    from tests.browser import chromium

    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    with chromium() as tab:
        if report:
            pages(tab, "report", Path(report), out)
        else:
            everything(tab, out, names)
    print(f"{len(list(out.glob('*.png')))} pictures are in {out}/")


def everything(tab: Page, out: Path, names: tuple[str, ...]) -> None:
    """Every view, or those whose names begin like one of these."""

    def wanted(name: str) -> bool:
        return not names or name.startswith(names)

    for name, make in PAGES.items():
        if wanted(f"page-{name}"):
            make().save(file := out / f"{name}.html")
            pages(tab, f"page-{name}", file, out)
    if any(wanted(f"report-{name}") for name in REPORTS):
        for name, file in reports(out).items():
            pages(tab, f"report-{name}", file, out)
    if shown := [name for name in map("view-{}".format, views.VIEWS) if wanted(name)]:
        views.pictures(tab, out, shown)
    for name in filter(wanted, terminals.COMMANDS):
        picture(tab, terminals.drawn(name, out), out / f"{name}.png")
    for name, file in notebooks.written(out):
        if wanted(name):
            picture(tab, file, out / f"{name}.png", width=960)


def pages(tab: Page, name: str, file: Path, out: Path) -> None:
    for width, size in WIDTHS.items():
        for dark in (False, True):
            look = "dark" if dark else "light"
            take(tab, file, out, name=f"{name}-{width}-{look}", size=size, dark=dark)


def picture(tab: Page, file: Path, target: Path, *, width: int = 1010) -> None:
    """The whole of a page that draws nothing by itself, in a window of its own size."""
    tab.size(width, 400, dark="dark" in target.stem)
    tab.open(file)
    high = min(4000, tab.run("Math.ceil(document.body.getBoundingClientRect().bottom)") + 16)
    tab.size(width, high, dark="dark" in target.stem)
    tab.screenshot(target, clip={"x": 0, "y": 0, "width": width, "height": high})


if __name__ == "__main__":
    main(*sys.argv[1:])
