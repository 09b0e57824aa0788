"""Facts about the code are kept for this very code, and only where they can be."""

from lgx.host import cache


def test_a_fact_is_computed_again_after_a_change_of_the_code_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("LGX_CACHE", str(tmp_path))
    values = iter([1, 2])
    assert [cache.remembered("x", lambda: next(values)) for _ in range(2)] == [1, 1]
    monkeypatch.setattr(cache, "_state", lambda: "another")
    assert cache.remembered("x", lambda: next(values)) == 2
    assert len([*tmp_path.rglob("x-*.json")]) == 1


def test_a_cache_that_cannot_be_written_changes_nothing(tmp_path, monkeypatch):
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("LGX_CACHE", str(tmp_path / "blocked"))
    assert [cache.remembered("x", lambda: 1) for _ in range(2)] == [1, 1]
    monkeypatch.setenv("LGX_CACHE", str(tmp_path))
    (tmp_path / "facts" / f"x-{'0' * 16}.json").mkdir(parents=True)
    assert cache.remembered("x", lambda: 2) == 2
