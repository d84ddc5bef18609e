"""The real page in Chromium, driven by playwright-core through Node.js.

Chromium is CHROMIUM, else a browser of that family on the PATH. playwright-core is where Node.js finds it: a
node_modules folder above the tests, or one that NODE_PATH names. Where one of them is missing, or ComfyUI is, these
tests are skipped. SCREENSHOTS may name a folder for pictures of what the page showed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.host.conftest import comfy, hub, installation  # noqa: F401  # the server is a fixture here, too

HERE = Path(__file__).absolute().parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 240


@pytest.fixture(scope="session")
def drive(comfy):  # noqa: F811
    """Runs a script of this folder against the server, and returns what it prints as JSON."""
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    node = shutil.which("node")
    if node is None or browser is None:
        pytest.skip("no Node.js" if node is None else "no Chromium: install it, or set CHROMIUM to its path")
    found = subprocess.run([node, "-e", "require('playwright-core')"], cwd=HERE, capture_output=True, check=False)
    if found.returncode:
        pytest.skip("no playwright-core: npm install playwright-core, and set NODE_PATH to its node_modules folder")

    def run(script: str, **task) -> dict:
        task = {"address": f"http://{comfy.address}/", "browser": browser, **task}
        ended = subprocess.run(
            [node, HERE / script], input=json.dumps(task), capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        return json.loads(ended.stdout)

    return run
