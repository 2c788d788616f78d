"""What the check's tests have in common."""

import pytest

from v14.check import document, prefix


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """A stand-in's prefix cache does not age, and what it reads need not be long."""
    monkeypatch.setattr(prefix, "PAUSE_S", 0.0)
    monkeypatch.setattr(prefix, "NUM_WORDS", 300)
    monkeypatch.setattr(document, "NUM_WORDS", 900)
