"""Programs of torch.export may come from anyone: what is not a plain program of ``lgx export`` is not loaded."""

import contextlib
import io
import json
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from lgx.artifacts.export.about import About
from lgx.artifacts.export.pt2_checks import checked_copy
from lgx.artifacts.export.pt2_file import run_pt2, write_pt2
from lgx.core.task import Task
from lgx.errors import UserError
from tests.support.hostile import Payload

PROGRAM, WEIGHTS, INPUTS = "models/model.json", "data/weights/model_weights_config.json", "data/sample_inputs/model.pt"
Change = Callable[[dict[str, bytes]], Any]


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    """A program that maps images of 8 px to three classes."""
    out = tmp_path_factory.mktemp("programs") / "net.pt2"
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3), nn.GELU()).eval()
    write_pt2(out, model, About(Task("", 3, img_size=8)))
    return out


def rewritten(path: Path, change: Change, compression: int = zipfile.ZIP_STORED) -> Path:
    """Change the content of a file, by names below the folder inside it."""
    with zipfile.ZipFile(path) as archive:
        content = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    change(content)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(f"model/{name}", data)
    return path


def in_json(member: str, change: Callable[[Any], Any]) -> Change:
    """A change of the JSON of a member."""

    def apply(content: dict[str, bytes]) -> None:
        values = json.loads(content[member])
        change(values)
        content[member] = json.dumps(values).encode()

    return apply


def nodes(program: Any) -> Any:
    return program["graph_module"]["graph"]["nodes"]


def pickled(evidence: Path) -> bytes:
    buffer = io.BytesIO()
    torch.save(Payload(evidence), buffer)
    return buffer.getvalue()


def test_torch_itself_would_run_the_code_of_a_file(good, tmp_path):
    path, evidence = shutil.copy(good, tmp_path / "net.pt2"), tmp_path / "evidence"
    rewritten(path, lambda content: content.update({INPUTS: pickled(evidence)}))
    with contextlib.suppress(AssertionError):  # what the code returns is no input
        torch.export.load(path)
    assert evidence.exists()


def test_pickles_that_run_code_are_not_loaded(good, tmp_path):
    path, evidence = shutil.copy(good, tmp_path / "net.pt2"), tmp_path / "evidence"
    rewritten(path, lambda content: content.update({INPUTS: pickled(evidence)}))
    with pytest.raises(UserError, match="was not loaded, because a foreign program could run code"):
        run_pt2(path)

    def pickle_weights(content: dict[str, bytes]) -> None:
        in_json(WEIGHTS, lambda config: next(iter(config["config"].values())).update(use_pickle=True))(content)
        content["data/weights/weight_0"] = pickled(evidence)

    rewritten(shutil.copy(good, path), pickle_weights)
    with pytest.raises(UserError, match="it holds pickled tensors"):
        run_pt2(path)
    rewritten(shutil.copy(good, path), lambda content: content.update({"data/constants/opaque_obj_0": pickle.dumps(1)}))
    with pytest.raises(UserError, match="it holds 'data/constants/opaque_obj_0'"):
        run_pt2(path)
    assert not evidence.exists()


CODE = "__import__('pathlib').Path('evidence').touch()"
CHANGES: dict[str, tuple[Change, str]] = {
    "a guard": (in_json(PROGRAM, lambda p: p.update(guards_code=[CODE])), "it holds code"),
    "an expression": (
        in_json(
            PROGRAM,
            lambda p: p["graph_module"]["graph"]["sym_int_values"].update(
                x={"as_expr": {"expr_str": "exec('1')", "hint": None}}
            ),
        ),
        "'expr_str' is",
    ),
    "a power": (
        in_json(
            PROGRAM,
            lambda p: p["graph_module"]["graph"]["sym_int_values"].update(
                x={"as_expr": {"expr_str": "9**9**9**9", "hint": None}}
            ),
        ),
        "'expr_str' is",
    ),
    "a function of torch": (in_json(PROGRAM, lambda p: nodes(p)[0].update(target="torch.hub.load")), "'target' is"),
    "an operation on files": (
        in_json(PROGRAM, lambda p: nodes(p)[0].update(target="torch.ops.aten.from_file.default")), "'target' is",
    ),
    "an operation that writes files": (
        in_json(PROGRAM, lambda p: nodes(p)[0].update(target="torch.ops.aten.save.default")), "'target' is",
    ),
    "an attribute of an operation": (
        in_json(PROGRAM, lambda p: nodes(p)[0].update(target="torch.ops.aten.relu.__init__")), "'target' is",
    ),
    "an attribute of all operations": (
        in_json(PROGRAM, lambda p: nodes(p)[0].update(target="torch.ops.aten.__dict__.update")), "'target' is",
    ),
    "a name with code": (in_json(PROGRAM, lambda p: nodes(p)[0].update(name=f"x\n{CODE}")), "'name' is"),
    "a key with code": (
        in_json(PROGRAM, lambda p: p["graph_module"]["graph"]["tensor_values"].update({f"x={CODE}": {}})), "'' is",
    ),
    "a module": (
        in_json(
            PROGRAM,
            lambda p: p["graph_module"]["module_call_graph"][0]["signature"].update(
                out_spec='[1, {"type": "collections.defaultdict", "context": "", "children_spec": []}]'
            ),
        ),
        "'out_spec' is",
    ),
    "a library": (lambda c: c.update({"data/aotinductor/model/net.so": b"\x7fELF"}), "it holds 'data/aotinductor"),
    "a large tensor": (
        in_json(
            WEIGHTS,
            lambda w: next(iter(w["config"].values()))["tensor_meta"].update(sizes=[{"as_int": 10**6}] * 2),
        ),
        "a tensor is larger than the file",
    ),
    "no graph": (lambda c: c.update({PROGRAM: b"[]"}), "not an intact file"),
    "no JSON": (lambda c: c.update({PROGRAM: b"{"}), "not valid JSON"),
    "no weights": (lambda c: c.pop(WEIGHTS), "torch.export cannot load it"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_torch_would_evaluate_is_refused(good, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    change, words = CHANGES[name]
    path = rewritten(Path(shutil.copy(good, tmp_path / "net.pt2")), change)
    with pytest.raises(UserError) as refused:
        run_pt2(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert words in str(refused.value)
    assert not (tmp_path / "evidence").exists()


def with_list_at(content: bytes, start: int) -> bytes:
    """A zip file whose list of members begins at a byte."""
    own = int.from_bytes(content[-6:-2], "little")
    return content[:own] + bytes(start - own) + content[own:-6] + start.to_bytes(4, "little") + content[-2:]


def with_two_lists(first: Path, second: Path, out: Path) -> Path:
    """A zip file with the members of two: torch finds those of the first, Python those of the second.

    The last bytes say where the list of members begins. torch counts from the beginning of the file, where the list of
    the first one lies; Python takes all before the second one for a prefix.
    """
    contents = [path.read_bytes() for path in (first, second)]
    start = max(int.from_bytes(content[-6:-2], "little") for content in contents)
    out.write_bytes(b"".join(with_list_at(content, start) for content in contents))
    return out


def test_torch_reads_the_members_that_were_checked_and_no_others(good, tmp_path):
    evidence = tmp_path / "evidence"
    bad = rewritten(Path(shutil.copy(good, tmp_path / "bad.pt2")), lambda c: c.update({INPUTS: pickled(evidence)}))
    plain = rewritten(Path(shutil.copy(good, tmp_path / "plain.pt2")), lambda content: None)
    path = with_two_lists(bad, plain, tmp_path / "net.pt2")
    with contextlib.suppress(AssertionError):  # what the code returns is no input
        torch.export.load(path)
    assert evidence.exists()
    evidence.unlink()
    images = torch.randn(4, 3, 8, 8)
    assert torch.equal(run_pt2(path)[0](images), run_pt2(good)[0](images))
    assert not evidence.exists()


def test_a_file_that_changes_after_the_check_is_not_read_again(good, tmp_path, monkeypatch):
    path, evidence = Path(shutil.copy(good, tmp_path / "net.pt2")), tmp_path / "evidence"

    def changed(*args):
        found = checked_copy(*args)
        rewritten(path, lambda content: content.update({INPUTS: pickled(evidence)}))
        return found

    monkeypatch.setattr("lgx.artifacts.export.pt2_file.checked_copy", changed)
    assert run_pt2(path)[0](torch.zeros(1, 3, 8, 8)).shape == (1, 3)
    assert not evidence.exists()


def test_damaged_files_are_named(good, tmp_path):
    path = tmp_path / "net.pt2"
    whole = good.read_bytes()
    for content in (b"", b"text", whole[: len(whole) // 2], whole[:-30]):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"net\.pt2: not an intact file of `lgx export` \("):
            run_pt2(path)
    rewritten(Path(shutil.copy(good, path)), lambda content: None, zipfile.ZIP_DEFLATED)
    with pytest.raises(UserError, match="it is compressed"):
        run_pt2(path)
    with pytest.raises(UserError, match="no such file"):
        run_pt2(tmp_path / "absent.pt2")


def test_an_unchanged_file_that_is_packed_again_is_loaded(good, tmp_path):
    path = rewritten(Path(shutil.copy(good, tmp_path / "net.pt2")), lambda content: None)
    images = torch.randn(4, 3, 8, 8)
    assert torch.equal(run_pt2(path)[0](images), run_pt2(good)[0](images))
