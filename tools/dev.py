"""Sets up a virtual environment in .venv and does one of two things in it, on a machine that has only Python.

    python3 tools/dev.py try     every task on the photo that ships with the repository; results in output/
    python3 tools/dev.py test    the linter and all tests

``try`` takes a checkpoint or a folder of them, if there is one: python3 tools/dev.py try models
Without one it writes tiny networks with random weights, and says so. ``test`` hands further words to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
PHOTO = ROOT / "assets" / "astronaut.jpg"
TASKS = ("pose", "seg", "normal", "pointmap", "matting", "albedo")


def run(*words: str | Path) -> None:
    """Runs Python in the environment; ends this program where that fails."""
    ended = subprocess.run([PYTHON, *words], cwd=ROOT, check=False)
    if ended.returncode:
        sys.exit(ended.returncode)


def set_up(extras: str) -> None:
    """Makes the environment, if there is none, and installs the package with its extras."""
    if not PYTHON.exists():
        print(f"Making a virtual environment in {ENVIRONMENT}.", flush=True)
        venv.create(ENVIRONMENT, with_pip=True)
    print("Installing; the first time, PyTorch takes a few minutes.", flush=True)
    run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", f".[{extras}]")


def checkpoints(words: list[str]) -> list[Path]:
    """Those that were named, or tiny random ones for every task."""
    if words:
        path = Path(words[0]).resolve()
        return sorted(path.rglob("*.safetensors")) if path.is_dir() else [path]
    files = [ROOT / "output" / "random" / f"tiny_{task}.safetensors" for task in TASKS]
    for task, file in zip(TASKS, files, strict=True):
        run("-m", "sapiens2_core", "make-random", "--task", task, "--size", "tiny", "--output", file)
    return files


def main() -> None:
    """Does what the first word says."""
    command, *words = sys.argv[1:] or [""]
    if command == "try":
        set_up("standalone")
        for file in checkpoints(words):
            run("-m", "sapiens2_core", "predict", "--checkpoint", file, "--input", PHOTO, "--output", ROOT / "output")
        print(f"Look into {ROOT / 'output'}.")
        if not words:
            print("These networks have RANDOM weights: everything ran, but the pictures mean nothing.")
    elif command == "test":
        set_up("test,dev")
        run("-m", "ruff", "check", ".")
        run("-m", "ruff", "format", "--check", ".")
        run("-m", "pytest", *words)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
