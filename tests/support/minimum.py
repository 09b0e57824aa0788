"""The oldest versions that pyproject.toml allows, as constraints for pip: ``python -m tests.support.minimum``."""

import re
import tomllib
from pathlib import Path


def oldest(pyproject: Path) -> dict[str, str]:
    """Lower bound of each dependency by its name, with those of the extras that the extra ``dev`` includes."""
    project = tomllib.loads(pyproject.read_text())["project"]
    extras = project["optional-dependencies"]
    (own,) = (text for text in extras["dev"] if text.startswith("lgx["))
    found = {}
    for text in [*project["dependencies"], *(text for extra in own[4:-1].split(",") for text in extras[extra])]:
        name = re.split(r"[\[<>=!~; ]", text, maxsplit=1)[0]
        bounds = re.findall(r">=\s*([\w.]+)", text)
        if len(bounds) != 1:
            raise ValueError(f"{pyproject}: {text!r} has {len(bounds)} lower bounds; state one")
        found[name] = bounds[0]
    return found


if __name__ == "__main__":
    for name, version in oldest(Path(__file__).parents[2] / "pyproject.toml").items():
        print(f"{name}=={version}")
