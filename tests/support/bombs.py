"""Small files that take far more memory or time than their size suggests; :func:`main` reads each with a limit."""

import bz2
import io
import json
import lzma
import pickle
import resource
import signal
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, PngImagePlugin

from data_modules.files.archives import check_tar, unzip
from data_modules.images.examples import ImageFiles, LabeledImages
from data_modules.sets.segmentation import MaskedImages
from data_modules.shards.index import Shard, read_index
from data_modules.shards.reading import ShardImages
from data_modules.suites.decathlon import DECATHLON
from data_modules.suites.mini_archives import EncodedImages, read_zip
from data_modules.text.rows import read_json_lines, read_table
from data_modules.text.tokens import _read_vocabulary
from lgx.architectures.sets import read_architectures
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.core.rows import COLUMNS, read_rows
from lgx.errors import UserError
from lgx.host.safety import read_json
from lgx.results.run_records import read_yaml
from lgx.runs.sweeps import load_sweep
from lgx.training.configuration import make_parser, parse_configuration

MEMORY, SECONDS = 2**30, 30
"""Bytes of address space above those of this process before it reads, and seconds, that a reader may take."""

Reader = Callable[[Path], Any]
Content = Callable[[], bytes] | str | bytes


def repeated(unit: bytes, times: int, start: bytes = b"") -> bytes:
    """A gzip file of ``start`` and of ``unit`` many times, made in the time of one."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first, packed = (packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH) for part in (start, unit))
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + first + packed * times + b"\x03\0" + bytes(8)


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, old: bool = True) -> bytes:
    """A header of a tar file."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT if old else tarfile.USTAR_FORMAT)


def hole() -> bytes:
    """The header of a sparse file in GNU's old format, whose list of holes goes on behind it."""
    block = bytearray(header("a.png", tarfile.GNUTYPE_SPARSE))
    block[482:483] = b"\1"
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()  # its checksum
    return bytes(block)


def tar_of(kind: bytes) -> bytes:
    """An archive of a megabyte with one header of a gigabyte."""
    return repeated(b"a" * 2**20, 2**10, header("././@LongLink", kind, 2**30))


def many_headers() -> bytes:
    """Names of 200 kB each, every one of which stays in memory."""
    long = b"train/" + b"a" * 200_000 + b"\0"
    padded = long + bytes(-len(long) % 512)
    return repeated(header("././@LongLink", tarfile.GNUTYPE_LONGNAME, len(long)) + padded + header("a"), 10_000)


def old_holes() -> bytes:
    """A sparse file in GNU's old format whose list of holes has gigabytes."""
    more = bytearray(b"00000000001\0" * 42 + bytes(8))
    more[504:505] = b"\1"
    return repeated(bytes(more) * 2048, 4096, hole())


def new_holes() -> bytes:
    """A sparse file in GNU's newest format whose list of holes has gigabytes."""
    facts = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n26 GNU.sparse.realsize=10\n"
    start = header("pax", tarfile.XHDTYPE, len(facts), old=False) + facts + bytes(-len(facts) % 512)
    return repeated(b"0\n" * 2**19, 2048, start + header("a.png", size=2**30) + b"1000000000\n")


def png(size: tuple[int, int], text: bool = False) -> bytes:
    """A picture of one color; ``text`` adds a comment of 100 MB."""
    buffer, comments = io.BytesIO(), PngImagePlugin.PngInfo()
    if text:
        comments.add_text("a", "a" * (100 * 2**20), zip=True)
    Image.new("1", size).save(buffer, "png", pnginfo=comments, compress_level=1)
    return buffer.getvalue()


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file whose members are deflated or packed with another method."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def zeros(method: int, size: int = 2**25) -> bytes:
    """A zip file with one member of zeros."""
    return zipped({"train/a/1.png": bytes(size)}, method)


def checkpoint(pickled: bytes, method: int = zipfile.ZIP_STORED) -> bytes:
    """A checkpoint of torch."""
    return zipped({"archive/data.pkl": pickled, "archive/version": b"3\n", "archive/data/0": bytes(2**20)}, method)


def legacy(*pickles: bytes) -> bytes:
    """A checkpoint in torch's older format, whose first three pickles are followed by others."""
    facts = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    first = (torch.serialization.MAGIC_NUMBER, torch.serialization.PROTOCOL_VERSION, facts)
    return b"".join([*(pickle.dumps(value, 2) for value in first), *pickles])


def many_tensors() -> bytes:
    """A safetensors file of 200,000 empty tensors."""
    tensors = ", ".join(f'"{k:030}": {{"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}' for k in range(200_000))
    text = f'{{"__metadata__": {{"lgx": "{{}}"}}, {tensors}}}'.encode()
    return struct.pack("<Q", len(text)) + text


def laughs(key: str) -> str:
    """A few lines of YAML that stand for 10^9 values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 9)]
    return "\n".join([*lines, f"{key}: *a8", ""])


def in_file(content: Content, name: str, read: Reader) -> Reader:
    """A reader of a file with this content; a function makes it when it is read."""

    def run(folder: Path) -> Any:
        folder.mkdir(parents=True, exist_ok=True)
        made = content() if callable(content) else content
        (folder / name).write_bytes(made.encode() if isinstance(made, str) else made)
        return read(folder / name)

    return run


def configure(*argv: str) -> Any:
    return parse_configuration(make_parser("fit"), [*argv])


def configuration(path: Path) -> Any:
    return configure("--config", str(path))


def masked(path: Path) -> Any:
    return MaskedImages([(path, path)], {0: 0}, "x")[0]


def torchvision(path: Path) -> Any:
    class Source:
        def __getitem__(self, index: int) -> Any:
            return Image.open(path).convert("RGB"), 0

    return LabeledImages(Source(), [0], "x")[0]


def in_shard(path: Path) -> Any:
    shard = path.with_suffix(".tar")
    with tarfile.open(shard, "w") as tar:
        tar.add(path, "a.png")
        info = tarfile.TarInfo("a.cls")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"0"))
    return ShardImages([Shard(shard, 1, "")], "x")[0]


def timm_folder(path: Path) -> Any:
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(4, np.float32)}, path.parent / "model.safetensors")
    return load_pretrained(str(path.parent))


def devkit(path: Path) -> Any:
    return DECATHLON.prepare(path.parent / "data", "aircraft", path.parent)


def shard(path: Path) -> Any:
    return ShardImages([Shard(path, 1, "")], "x")


def unzipped(path: Path) -> Any:
    return unzip([path], path.parent / "out")


def table(path: Path) -> Any:
    return read_table(path, ["a"], "b", {"1": 1})


BYTE_ARRAY = b"\x80\x02cbuiltins\nbytearray\nJ\0\0\0\x40\x85R."
"""A pickle of a byte array of a gibibyte."""
BEYOND = b"\x80\x05\x96" + (2**62).to_bytes(8, "little") + b"Z."
DOUBLING = b"".join(b"h" + bytes([k]) + b"h" + bytes([k]) + b"\x86q" + bytes([k + 1]) for k in range(99))
PICKLES = {
    "a byte array by its old name": BYTE_ARRAY.replace(b"builtins", b"__builtin__"),
    "tuples that double": b"\x80\x02})q\x00" + DOUBLING + b"K\x01s.",
    "lists in lists": b"\x80\x02" + b"]" * 10**5 + b"a" * (10**5 - 1) + b".",
    "a function": b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
}

BIG = (13_300, 13_300)
RUN = ("--model=Ancestor", "--model.arch=6-Tiny", "--model.optimizer=torch.optim.AdamW", "--data=CIFAR10")
NUMBERS = ", ".join(["0"] * 4000)
DEEP, LONG = "[" * 10**6, '["' + "a" * 2**24 + '"]'
MATRIX = ", ".join(f"v{k}: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]" for k in range(12))
SWEEP = f"experiment: a\nseeds: [0]\nruns:\n- {{name: a, config: a, matrix: {{{MATRIX}}}}}\n"
HEADERS = {
    "name": tarfile.GNUTYPE_LONGNAME, "link": tarfile.GNUTYPE_LONGLINK,
    "pax": tarfile.XHDTYPE, "global pax": tarfile.XGLTYPE, "Solaris pax": tarfile.SOLARIS_XHDTYPE,
}  # fmt: skip
PICTURES: dict[str, Reader] = {
    "an image": lambda path: ImageFiles(path.parent, [path.name], [0], "x")[0],
    "a mask": masked,
    "an image of torchvision": torchvision,
    "an image in a zip file": lambda path: EncodedImages([(path, path.read_bytes())], np.zeros(1, np.int64), "x")[0],
    "an image in a shard": in_shard,
}

FILES: dict[tuple[str, str, Reader], dict[str, Content]] = {
    ("configuration", "a.yaml", configuration): {
        "4000 devices": f"trainer: {{devices: [{NUMBERS}]}}",
        "aliases": laughs("trainer"),
        "depth": f"trainer: {DEEP}",
        "many values": "trainer: {" + ", ".join(f"a{k}: [0, 0, 0, 0]" for k in range(500)) + "}",
        "depth in a text": f"trainer: {{max_epochs: '{DEEP}'}}",
    },
    ("saved configuration", "a.yaml", lambda path: read_yaml(path, "x")): {"aliases": laughs("a")},
    ("sweep", "a.yaml", load_sweep): {"10^12 runs": SWEEP, "aliases": laughs("runs")},
    ("JSON", "a.json", lambda path: read_json(path, "x")): {"depth": DEEP, "length": LONG},
    ("JSON lines", "a.jsonl", lambda path: read_json_lines(path, "a", "b", 2)): {"depth": DEEP},
    ("architectures", "a.jsonl", lambda path: read_architectures(str(path))): {"length": LONG},
    ("vocabulary", "encoder.json", lambda path: _read_vocabulary(path, "x")): {"length": LONG, "depth": DEEP},
    ("shard index", "index.json", lambda path: read_index(path.parent)): {"length": LONG},
    ("learngene", "a.learngene.safetensors", Learngene.load): {"many tensors": many_tensors},
    ("embeddings", "a.safetensors", TaskEmbeddings.load): {"many tensors": many_tensors},
    ("checkpoint", "a.ckpt", load_checkpoint): {
        "many objects": lambda: checkpoint(b"\x80\x02" + b"}" * (20 * 2**20) + b"."),
        "compressed": lambda: checkpoint(b"\x80\x02" + b"}" * 2**24, zipfile.ZIP_BZIP2),
        **{name: partial(checkpoint, pickled) for name, pickled in PICKLES.items()},
        "a byte array": BYTE_ARRAY,
        "a length beyond the file": BEYOND,
        "before a zip file": BYTE_ARRAY + zipped({}),
        "names of storages": legacy(pickle.dumps({}, 2), BYTE_ARRAY),
    },
    ("results", "results.csv", read_rows): {
        "a line": lambda: (",".join(COLUMNS) + "\n" + "a" * 2**25).encode(),
        "length": lambda: (",".join(COLUMNS) + "\n" + "a\n" * 2**25).encode(),
    },
    ("tar", "a.tgz", check_tar): {
        **{f"{name} header": partial(tar_of, kind) for name, kind in HEADERS.items()},
        "GNU's old holes": old_holes,
        "GNU's new holes": new_holes,
        "many headers": many_headers,
        "content": partial(tar_of, tarfile.REGTYPE),
        "bzip2": lambda: bz2.compress(bytes(2**25)) * 20,
        "xz": lambda: lzma.compress(bytes(2**25)) * 20,
        "a member": header("a", size=2**40) + bytes(1024),
    },
    ("devkit", "decathlon-1.0-devkit.tar.gz", devkit): {
        "a header": partial(tar_of, tarfile.GNUTYPE_LONGNAME),
        "many headers": many_headers,
    },
    ("shard", "a.tar", shard): {
        "a header": lambda: header("././@LongLink", tarfile.GNUTYPE_LONGNAME, 2**26) + b"a" * 2**26,
        "a hole": hole() + bytes(1024),
        "a member": header("a.png", size=2**40) + bytes(1024),
    },
    ("zip", "a.zip", unzipped): {
        "deflated": partial(zeros, zipfile.ZIP_DEFLATED, 2**28),
        "bzip2": partial(zeros, zipfile.ZIP_BZIP2),
    },
    ("zip in memory", "a.zip", read_zip): {
        "deflated": partial(zeros, zipfile.ZIP_DEFLATED, 2**28),
        "lzma": partial(zeros, zipfile.ZIP_LZMA),
    },
    **{(name, "a.png", read): {"size": partial(png, BIG)} for name, read in PICTURES.items()},
    ("an image", "b.png", PICTURES["an image"]): {"comment": partial(png, (8, 8), text=True)},
    ("table", "a.tsv", table): {"a line": "a\tb\n" + "a" * 2**21, "many lines": "a\tb\n" + "a\t1\n" * 2_000_001},
    ("timm folder", "config.json", timm_folder): {
        name: json.dumps({"architecture": "vit_tiny_patch16_224", "model_args": size, "pretrained_cfg": {}})
        for name, size in {"depth": {"depth": 10**7}, "width": {"embed_dim": 60_000}}.items()
    },
}
"""What is read, the name of its file and its reader -> what is too large in it, and the content."""

BOMBS: dict[str, Reader] = {
    "command line: 4000 devices": lambda folder: configure(*RUN, f"--trainer.devices=[{NUMBERS}]"),
    "command line: depth": lambda folder: configure(*RUN, f"--trainer.max_epochs={DEEP[:50_000]}"),
    **{
        f"{what}: {name}": in_file(content, file, read)
        for (what, file, read), contents in FILES.items()
        for name, content in contents.items()
    },
}
"""What is too large -> writes it to a folder and reads it."""


def attempt(read: Reader, folder: Path) -> tuple[str, str, float]:
    """Class and message of the error with which a reader ends, and its seconds."""
    signal.alarm(SECONDS)
    started = time.perf_counter()
    try:
        read(folder)
        ended = "nothing", ""
    except Exception as error:
        ended = "UserError" if isinstance(error, UserError) else type(error).__name__, str(error)
    finally:
        signal.alarm(0)
    return *ended, time.perf_counter() - started


def _expire(number: int, frame: Any) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


def main(folder: Path) -> None:
    """Read every bomb; write name -> (class of the error, message, seconds) to ``found.json``."""
    signal.signal(signal.SIGALRM, _expire)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    found = {name: attempt(read, folder / str(k)) for k, (name, read) in enumerate(BOMBS.items())}
    Path("found.json").write_text(json.dumps(found))
