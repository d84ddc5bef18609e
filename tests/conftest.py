"""Fixtures for all tests."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def synthetic_person():
    """Function that makes a person with all 308 keypoints; see synthetic_person.py."""
    path = Path(__file__).with_name("synthetic_person.py")
    spec = importlib.util.spec_from_file_location("synthetic_person", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.synthetic_person
