"""Networks of which ComfyUI's own layers bring weights on demand give what fully loaded ones do."""

import subprocess
from pathlib import Path

from sapiens2_core.tasks import TASKS

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "partial.py"


def test_modules_left_behind_change_nothing_for_any_task(installation):
    folder, python = installation
    ran = subprocess.run([python, SCRIPT, "--comfyui", folder], capture_output=True, text=True, check=True)
    title, *lines = ran.stdout.splitlines()
    assert title.startswith("manual_cast on")
    differences = {task: float(value) for task, value in (line.split() for line in lines)}
    assert differences.keys() == TASKS.keys()
    assert max(differences.values()) < 1e-4
