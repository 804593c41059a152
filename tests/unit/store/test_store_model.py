"""The store against a model of a few lines, under everything that can happen to it."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import settings

from .store_machine import StoreMachine


class FewFilesMachine(StoreMachine):
    """With so few files that queues are synced and closed in the middle of everything."""

    bounds: ClassVar = {"max_open_files": 1, "max_unsynced_files": 1}


TestStoreModel = pytest.mark.property(StoreMachine.TestCase)
TestStoreModel.settings = settings(stateful_step_count=20)
TestFewFiles = pytest.mark.property(FewFilesMachine.TestCase)
TestFewFiles.settings = settings(stateful_step_count=20)
