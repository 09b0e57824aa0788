"""Hook of the documentation's build: pages keep their places in the repository.

Links between pages are those of the repository, so that they also work where the repository is browsed.
"""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/**/*.md", "experiments/README.md")
_LINKED = (
    "LICENSE",
    "docs/site.css",
    "docs/**/*.csv",
    "docs/pictures/*",
    "docs/**/*.ipynb",
    "experiments/**/*",
    "lgx/**/*.py",
    "lgx/configs/*.yaml",
    "data_modules/**/*.py",
    "tests/**/*.py",
    "tests/**/*.toml",
)


def on_files(files: Files, config: Any) -> Files:
    """The pages, and the files that they link to, under their paths in the repository."""
    theme = [file for file in files if not file.src_dir or Path(file.src_dir) != ROOT / "docs"]
    found = {path for pattern in (*_PAGES, *_LINKED) for path in ROOT.glob(pattern) if path.is_file()}
    own = [path.relative_to(ROOT).as_posix() for path in sorted(found) if "__pycache__" not in path.parts]
    directories = config["use_directory_urls"]
    return Files([*theme, *(File(path, str(ROOT), config["site_dir"], directories) for path in own)])
