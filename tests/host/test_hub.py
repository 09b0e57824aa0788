"""Without an answer of the Hugging Face hub within seconds, its clients read the cache."""

import time

import pytest
from huggingface_hub import constants

from lgx.errors import UserError
from lgx.host import hub
from tests.support.fake_hub import CLOSED, running_hub, silent_hub


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


def test_without_the_hub_its_clients_are_offline_and_a_failure_is_one_sentence(monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", CLOSED)
    before = constants.HF_HUB_OFFLINE
    with hub.hub_or_cache("x", "give a file"):
        assert constants.is_offline_mode()
    with pytest.raises(UserError) as error, hub.hub_or_cache("x", "give a file"):
        raise OSError("many\nlines")
    assert str(error.value).startswith("x: is not in the cache, and the Hugging Face hub cannot be reached (")
    assert str(error.value).endswith("; without a network, give a file")
    assert before == constants.HF_HUB_OFFLINE
