"""Whether the Hugging Face hub answers is known within seconds; without it, the cache is read."""

import time

import pytest
from huggingface_hub import constants, get_session

from lgx.errors import UserError
from lgx.host import hub
from tests.support.hub import CLOSED, empty_hub, silent_hub


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setattr(hub, "_failures", {})


def test_a_hub_that_answers_anything_is_in_reach_and_its_errors_pass(monkeypatch):
    with empty_hub() as address:
        monkeypatch.setattr(constants, "ENDPOINT", address)
        assert hub.hub_failure() is None
        with pytest.raises(KeyError), hub.hub_or_cache("x", "give a file"):
            {}["absent" if not constants.HF_HUB_OFFLINE else "offline"]


def test_a_closed_port_is_reported_at_once(monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", CLOSED)
    began = time.monotonic()
    assert "refused" in str(hub.hub_failure())
    assert time.monotonic() - began < hub.SECONDS


def test_a_hub_that_never_answers_is_waited_for_once(monkeypatch):
    monkeypatch.setattr(hub, "SECONDS", 1.0)
    with silent_hub() as address:
        monkeypatch.setattr(constants, "ENDPOINT", address)
        began = time.monotonic()
        assert hub.hub_failure()
        assert 0.9 < time.monotonic() - began < 4
        began = time.monotonic()
        assert hub.hub_failure()
        assert time.monotonic() - began < 0.5


def test_the_client_of_a_hub_that_answers_waits_for_a_limited_time(monkeypatch):
    monkeypatch.setattr(get_session(), "timeout", None)
    with empty_hub() as address:
        monkeypatch.setattr(constants, "ENDPOINT", address)
        with hub.hub_or_cache("x", "give a file"):
            assert get_session().timeout.read == hub._STALLED


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
