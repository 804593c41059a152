"""The store against a model of a few lines, under everything that can happen to it."""

from __future__ import annotations

import pytest
from hypothesis import settings

from .store_machine import StoreMachine

TestStoreModel = pytest.mark.property(StoreMachine.TestCase)
TestStoreModel.settings = settings(stateful_step_count=20)
