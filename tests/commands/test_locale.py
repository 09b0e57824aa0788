"""lgx works in a locale without UTF-8: it reads names as they are, and a terminal's alphabet ends no command."""

import io
import sys
from pathlib import Path

import pytest

from lgx.cli import main
from tests.support.command_line import python
from tests.support.images import write_images

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
PROBE = """
import locale, sys
import lgx.cli
def run(argv):
    from data_modules import ImageFolderData
    module = ImageFolderData(root=argv[0])
    print(len(module.read("train")), module.info.class_names, open(argv[1]).read(), "x \\u00d7")
lgx.cli.run_command = run
lgx.cli.main()
"""


def test_names_and_texts_with_accents_need_no_locale(tmp_path: Path) -> None:
    images = write_images(tmp_path / "mine", {"train": 6, "test": 3})
    for split in ("train", "test"):
        (images / split / "circle").rename(images / split / "cercle-é")
    (tmp_path / "text").write_text("日本", encoding="utf-8")
    (tmp_path / "probe.py").write_text(PROBE)
    done = python(tmp_path / "probe.py", images, tmp_path / "text", **ASCII)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == r"5 ('cercle-\xe9', 'square', 'stripe') \u65e5\u672c x \xd7"


def test_what_a_terminal_cannot_print_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr("lgx.cli.run_command", lambda argv: print("6 × é", flush=True))
    main(["doctor"])
    assert stream.buffer.getvalue() == b"6 \\xd7 \\xe9\n"
