"""Networks of which a host has left modules elsewhere give what fully loaded ones do."""

import pytest
import torch

from benchmarks.partial import CastingOperations, difference
from sapiens2_core.tasks import TASKS


# Not to the last bit: a layer whose weights lie ready may go through another library than one whose are cast.
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("task", TASKS)
def test_modules_left_in_another_type_change_nothing(task, dtype):
    assert difference(task, CastingOperations, torch.device("cpu"), dtype=dtype) < 1e-4
