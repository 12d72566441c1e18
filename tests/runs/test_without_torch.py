"""A run on disk can be read where there is no torch."""

import subprocess
import sys
from pathlib import Path

import attnlab.runs

MODULES = sorted(f"attnlab.runs.{file.stem}" for file in Path(attnlab.runs.__file__).parent.glob("*.py"))
BLOCKED = """
import importlib, sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numpy", "safetensors"):
            raise AssertionError(f"{name} was imported")

sys.meta_path.insert(0, Block())
for module in sys.argv[1:]:
    importlib.import_module(module.removesuffix(".__init__"))
"""


def test_no_module_of_runs_imports_torch_or_numpy():
    done = subprocess.run([sys.executable, "-c", BLOCKED, *MODULES], capture_output=True, text=True)
    assert len(MODULES) > 5 and done.returncode == 0, done.stderr


def test_the_block_is_one():
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, "attnlab.training.checkpoint"], capture_output=True, text=True
    )
    assert "was imported" in done.stderr
