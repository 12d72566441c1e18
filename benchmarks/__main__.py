"""`make bench`: every benchmark, a table for a person, and benchmarks/results.json."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.measure import peak_gflops

MODULES = (
    *("starting", "attention", "data", "training", "adapting", "time_to_loss", "memory", "generation"),
    *("translation", "loading", "callback", "explaining", "large_text", "checking", "processes", "engines"),
    *("images", "page"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=MODULES, help=f"which of {', '.join(MODULES)}")
    chosen = parser.parse_args().modules
    console = Console()
    peak = peak_gflops()
    found = {}
    for name in chosen:
        console.print(f"Measuring [bold]{name}[/] …")
        found[name] = importlib.import_module(f"benchmarks.{name}").rows()
        save({name: found[name]}, peak)  # what was measured stays, whatever becomes of the rest
    table = Table("work", "ratio", "target", "met", "measured")
    for rows in found.values():
        for r in rows:
            table.add_row(
                r["work"], f"{r['ratio']:.2f}", r["target"], "yes" if r["met"] else "[red]no[/]", r["detail"]
            )
    console.print(table)
    console.print(
        f"Matrix products: {peak:.0f} GFLOP/s, {torch.get_num_threads()} threads, torch {torch.__version__}."
    )


def save(found: dict[str, list[dict[str, object]]], peak: float) -> None:
    """Merge into results.json: a part measured anew replaces its old figures."""
    path = Path(__file__).parent / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    machine = {
        "processor": platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    for name, rows in found.items():
        results[name] = {"machine": machine | {"peak_gflops": round(peak)}, "rows": rows}
    path.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
