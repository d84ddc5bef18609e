"""Sets up a virtual environment in .venv and does one of two things in it, on a machine that has only Python.

    python3 tools/dev.py try     every task on a drawn mannequin, beside the truth; results in output/demo
    python3 tools/dev.py test    the linter and all tests

``try`` may be given a checkpoint, or a folder of them, for the photo that ships with the repository: python3
tools/dev.py try models. ``test`` hands further words to pytest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
PHOTO = ROOT / "assets" / "astronaut.jpg"
OUTPUT = ROOT / "output"


def run(*words: str | Path) -> None:
    """Runs Python in the environment; ends this program where that fails."""
    ended = subprocess.run([PYTHON, *words], cwd=ROOT, check=False)
    if ended.returncode:
        sys.exit(ended.returncode)


def set_up(extras: str) -> None:
    """Makes the environment, if there is none, and installs the package with its extras."""
    if not (ENVIRONMENT / "pyvenv.cfg").exists():
        print(f"Making a virtual environment in {ENVIRONMENT}.", flush=True)
        try:
            venv.create(ENVIRONMENT, with_pip=True)
        except subprocess.CalledProcessError:
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)  # or the next try would take it for a whole one
            sys.exit("This Python can't make virtual environments; on Debian and Ubuntu, install python3-venv.")
    print("Installing; the first time, PyTorch takes a few minutes.", flush=True)
    run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", f".[{extras}]")


def checkpoints_in(path: Path) -> list[Path]:
    """A file, or all in a folder; a folder with a config.json or an index of shards is one checkpoint."""
    if not path.is_dir():
        return [path]
    found = set()
    for file in path.rglob("*.safetensors"):
        whole = (file.parent / "config.json").exists() or any(file.parent.glob("*.safetensors.index.json"))
        found.add(file.parent if whole else file)
    if not found:
        sys.exit(f"There are no .safetensors files in {path}.")
    return sorted(found)


def main() -> None:
    """Does what the first word says."""
    command, *words = sys.argv[1:] or [""]
    if command == "try":
        set_up("standalone")
        if not words:
            run("-m", "sapiens2_core", "demo", "--output", OUTPUT / "demo")
            return
        given = Path(words[0]).resolve()
        for path in checkpoints_in(given):
            # By their place in the folder: many files are called model.safetensors.
            name = path.relative_to(given if path != given else given.parent)
            folder = OUTPUT / name.with_name(name.name.removesuffix(".safetensors"))
            run("-m", "sapiens2_core", "predict", "--checkpoint", path, "--input", PHOTO, "--output", folder)
        print(f"Look into {OUTPUT}.")
    elif command == "test":
        set_up("test,dev")
        run("-m", "ruff", "check", ".")
        run("-m", "ruff", "format", "--check", ".")
        run("-m", "pytest", *words)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
