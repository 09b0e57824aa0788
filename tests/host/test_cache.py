"""Facts about the code are kept for this very code, and only where they can be."""

from lgx.host import cache


def test_a_fact_is_forgotten_after_a_change_of_the_code(tmp_path, monkeypatch):
    monkeypatch.setenv("LGX_CACHE", str(tmp_path))
    cache.remember("x", 1)
    assert cache.recall("x") == 1
    monkeypatch.setattr(cache, "_state", lambda: "another")
    assert cache.recall("x") is None


def test_a_cache_that_cannot_be_written_changes_nothing(tmp_path, monkeypatch):
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("LGX_CACHE", str(tmp_path / "blocked"))
    cache.remember("x", 1)
    assert cache.recall("x") is None


def test_old_facts_that_cannot_be_removed_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LGX_CACHE", str(tmp_path))
    (tmp_path / "facts" / f"x-{'0' * 16}.json").mkdir(parents=True)
    cache.remember("x", 1)
    cache.remember("x-y", 2)
    cache.remember("x", 3)
    assert cache.recall("x-y") == 2
