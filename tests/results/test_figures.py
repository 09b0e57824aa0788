"""Colors and dashes of methods."""

from lgx.results.figures import styles
from lgx.results.tables import METHODS


def test_every_method_of_the_papers_has_a_look_of_its_own() -> None:
    looks = styles(METHODS)
    assert len({(look.color, look.dash) for look in looks.values()}) == len(METHODS)


def test_a_methods_look_does_not_depend_on_the_others() -> None:
    assert styles(["sws", "mine"])["sws"] == styles(["tleg", "sws", "another"])["sws"]
    assert len({(s.color, s.dash) for s in styles(["sws", "a", "b", "c"]).values()}) == 4
