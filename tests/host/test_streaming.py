"""A clip's memory in the node is its result's."""

import sys

import pytest

from tests.test_streaming import memory_over_result


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from Linux's /proc")
def test_a_clip_takes_its_result_s_memory_and_at_most_a_tenth_more(installation):
    folder, python = installation
    assert 0.9 < memory_over_result("--comfyui", str(folder), python=python) <= 1.1
