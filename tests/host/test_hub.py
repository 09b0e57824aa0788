"""Without an answer of the Hugging Face hub within seconds, its clients read the cache."""

import time

import pytest
from huggingface_hub import constants

from lgx.host import hub
from tests.support.fake_hub import running_hub, silent_hub


@pytest.fixture(autouse=True)
def forgotten():
    hub.failure_of.cache_clear()


def test_a_hub_that_answers_anything_is_in_reach(monkeypatch):
    with running_hub() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        with hub.hub_or_cache("x", "give a file") as reason:
            assert reason == ""
            assert not constants.HF_HUB_OFFLINE
        with pytest.raises(KeyError), hub.hub_or_cache("x", "give a file"):
            raise KeyError


def test_a_hub_that_never_answers_is_waited_for_once(monkeypatch):
    monkeypatch.setattr(hub, "SECONDS", 1.0)
    with silent_hub() as address:
        began = time.monotonic()
        assert all(hub.failure_of(address) for _ in range(9))
        assert 0.9 < time.monotonic() - began < 4
