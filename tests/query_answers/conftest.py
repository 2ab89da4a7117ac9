"""What the tests of answers start from."""

import pytest

from golden_store import GoldenStore


@pytest.fixture(name="store")
def _store() -> GoldenStore:
    return GoldenStore()
