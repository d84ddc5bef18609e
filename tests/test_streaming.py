"""A clip's memory is its result's: nothing on the way holds the clip a second time."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "stream.py"


def memory_over_result(*options: str, python: str | Path = sys.executable) -> float:
    """The most memory that a clip takes, over its result's."""
    command = [python, SCRIPT, "--frames", "100", "--input", "270x480", *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # the frames are small
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(re.search(r"host: .* ratio ([\d.]+)", ran.stdout).group(1))


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from Linux's /proc")
def test_a_clip_takes_its_result_s_memory_and_at_most_a_tenth_more():
    assert 0.9 < memory_over_result() <= 1.1
