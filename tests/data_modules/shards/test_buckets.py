"""Shards in a bucket: the same examples as on disk, whatever fails; what cannot be read is named."""

import itertools
import os
from dataclasses import replace
from pathlib import Path

import fsspec
import fsspec.asyn
import numpy as np
import pytest
import torch
from fsspec.core import url_to_fs
from torch.utils.data import DataLoader

from data_modules.files import remote
from data_modules.files.remote import place_of
from data_modules.loading.samplers import Batching
from data_modules.shards.index import read_index
from data_modules.shards.module import ShardedData
from data_modules.shards.order import ShardBatchSampler
from data_modules.shards.reading import ShardImages
from lgx.commands.data import prepare
from lgx.errors import UserError
from lgx.host.cache import cache_root
from tests.support import fake_data
from tests.support.bucket_server import open_server
from tests.support.command_line import arguments, lgx, ok
from tests.support.runs import kill_and_resume, last_checkpoint

URL = "s3://bucket/toy"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return fake_data.toy_shards(tmp_path_factory.mktemp("local") / "toy")


@pytest.fixture(scope="module")
def bucket():
    pytest.importorskip("moto", reason="needs moto: pip install 'lgx[dev]'")
    pytest.importorskip("s3fs", reason="needs the cloud extra: pip install 'lgx[cloud]'")
    with pytest.MonkeyPatch.context() as patch:
        yield (server := open_server(patch))
        server.server.shutdown()


@pytest.fixture
def server(bucket, folder, monkeypatch):
    """The server with the shards of ``folder``; blocks are small, so that a shard has several, and waits short."""
    # Loader processes of the test before have inherited the selector of its event loop, and take connections out of it.
    fsspec.asyn.iothread[0] = fsspec.asyn.loop[0] = None
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    client = pytest.importorskip("boto3").client("s3")
    for file in sorted(folder.iterdir()):
        client.put_object(Bucket="bucket", Key=f"toy/{file.name}", Body=file.read_bytes())
    monkeypatch.setattr(remote, "WAITS", (0.01,) * 5)
    monkeypatch.setattr(remote, "BLOCK", 4096)
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)  # its own, within each try
    return bucket


def system():
    return url_to_fs(URL, use_listings_cache=False)[0]


def replaced(url, change):
    system().pipe_file(url, change(system().cat_file(url)))


def flipped(data):
    """A shard of the same size with another pixel in its last image's place."""
    return data[:-6000] + bytes([data[-6000] ^ 1]) + data[-5999:]


def images_of(place, split="train", limit=10**6):
    place = place_of(place)
    place = place if isinstance(place, Path) else replace(place, limit=limit)
    return ShardImages(read_index(place)[1][split], f"toy {split}")


def order(place, workers=0, start=0, **options):
    """The numbers of the training images that are read in an epoch, from a batch on."""
    images = images_of(place, **options)
    sampler = ShardBatchSampler(images.sizes, Batching(2, seed=3))
    sampler.resume_at = (0, start)
    keys = [[index for _, index in batch] for batch in sampler]
    loader = DataLoader(images, batch_sampler=keys, num_workers=workers, collate_fn=numbers_of)
    return [*loader]


def numbers_of(examples):
    return [int(fake_data.number_of(image)) for image, _ in examples]


def kept():
    return cache_root() / "remote"


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_failures_that_pass_change_no_example_also_after_a_resume(server, folder, workers):
    few = {"workers": workers, "limit": 25_000}  # some three of five shards
    pause = [None] * 7
    kinds = itertools.cycle([500, *pause, "cut", *pause, 503, *pause, "slow", *pause])
    local = order(folder)
    with server.failing(lambda method, path: next(kinds) if path.endswith(".tar") else None) as requests:
        assert order(URL, **few) == local
        assert order(URL, start=4, **few) == local[4:]
    assert len(requests) > 40  # so that each kind of failure came several times


def fails(method, name, what):
    return lambda asked, path: what if asked == method and path.endswith(name) else None


@pytest.mark.parametrize(
    ("fault", "reason", "tries"),
    [(403, "permission is missing", 1), (404, "(404)", 1), (500, "tried 6 times", 6), ("cut", "tried 6 times", 6)],
)  # fmt: skip
def test_a_failure_that_stays_names_the_url_and_the_reason(server, fault, reason, tries):
    name, said = "train-000002.tar", []
    for workers in (0, 1):
        with server.failing(fails("GET", name, fault)) as requests, pytest.raises(UserError) as caught:
            order(URL, workers)
        said.append(str(caught.value))
        blocks = -(-(system().info(f"{URL}/{name}")["size"] + 1) // remote.BLOCK)
        assert tries <= requests.count(("GET", f"/bucket/toy/{name}")) <= tries * blocks
    assert said == [said[0]] * 2  # one sentence, also from a loader process
    assert said[0].startswith(f"{URL}/{name}: ")
    assert reason in said[0]
    assert {file.suffix for file in kept().iterdir()} <= {".tar"}  # no parts


@pytest.mark.parametrize("change", [flipped, lambda data: data[:-1]])
def test_a_shard_that_changes_under_a_run_is_named(server, change):
    name = "train-000001.tar"
    images = images_of(URL)
    replaced(f"{URL}/{name}", change)
    with pytest.raises(UserError, match=rf"{name}( does not have the checksum|: )"):
        np.asarray([images[k][1] for k in range(len(images))])


def test_the_cache_keeps_whole_shards_within_its_limit(server, folder, monkeypatch):
    sizes = sorted(shard.size for shard in read_index(folder)[1]["train"])
    order(URL, limit=sum(sizes))
    assert sorted(file.stat().st_size for file in kept().iterdir()) == sizes
    with server.failing(lambda method, path: 500 if path.endswith(".tar") else None):
        assert order(URL, limit=sum(sizes)) == order(folder)
    torn, pipe, *_ = kept().iterdir()
    torn.write_bytes(b"torn")
    pipe.unlink()
    os.mkfifo(pipe)
    for shard in [*images_of(URL, limit=sum(sizes[-2:])).shards] * 2:
        with shard.open() as file:
            assert file.read() == (folder / shard.path.name).read_bytes()
    assert len(list(kept().iterdir())) == 2
    monkeypatch.setenv("LGX_CACHE", "/proc/x")
    with pytest.raises(UserError, match=r"/proc/x/remote: .*; set LGX_CACHE to a folder"):
        order(URL)


@pytest.mark.parametrize("scheme", ["memory", "http"])
def test_other_file_systems_are_read_alike(server, folder, scheme):
    url = "memory://toy"
    if scheme == "http":
        url = f"{server.url}/bucket/toy"
        with pytest.raises(UserError, match=r"toy/index.json: permission is missing"):
            read_index(url)
        system().chmod(URL, "public-read", recursive=True)
        with pytest.raises(UserError, match=r"nothing: no index.json"), server.failing(fails("HEAD", ".json", 404)):
            read_index(f"{server.url}/bucket/nothing")
    else:
        fsspec.filesystem("memory").put(f"{folder}/", "toy/", recursive=True)
    assert order(url) == order(folder)


def test_options_of_a_bucket_are_checked():
    with pytest.raises(UserError, match=r"is a URL.*--data.in_memory false"):
        ShardedData(name="dtd", root="s3://bucket/data")
    with pytest.raises(UserError, match=r"data.shard_cache_gib"):
        ShardedData(name="dtd", root="s3://bucket/data", in_memory=False, shard_cache_gib=-1)
    with pytest.raises(UserError, match="--out: expected a local folder"):
        prepare("dtd", shards=True, out="s3://bucket/data")


@pytest.mark.parametrize("url", ["s3://key:secret@bucket/sets", "https://example.org/sets?signature=secret"])
def test_a_url_with_a_secret_is_refused_and_written_nowhere(url, tmp_path):
    for data in ("ShardedData", "ImageFolderData", "PocketDecathlon"):
        name = ["--data.name=x"] if data == "ShardedData" else []
        more = [f"--data={data}", f"--data.root={url}", *name]
        result = lgx(*arguments("fit", "Ancestor", tmp_path, tmp_path / "runs", "--name=r", *more))
        assert result.code
        assert "secret" not in result.out + result.err
        assert not any("secret" in file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    with pytest.raises(UserError, match="a password or a signature"):
        place_of(url)


def options(root, *more):
    data = ["--data=ShardedData", f"--data.root={root}", "--data.name=toy", "--data.in_memory=false"]
    sizes = ["--data.batch_size=4", "--data.num_workers=1", "--trainer.max_epochs=2"]
    return [*data, *sizes, "--data.augment=randaugment", "--save_every=1", *more]


def test_training_from_a_bucket_equals_that_from_disk_bit_for_bit(server, folder, tmp_path):
    ok(lgx(*arguments("fit", "Ancestor", folder.parent, tmp_path / "disk", "--name=r", *options(folder.parent))))
    from_disk = last_checkpoint(tmp_path / "disk/test/r/seed0")
    # The order is the same without a loader process, which would hold the lock of a killed run for seconds.
    more = ["--data.shard_cache_gib=0.00002", "--data.cache_gib=0", "--data.num_workers=0"]
    run = kill_and_resume("s3://bucket", tmp_path, 7, "before_update", options("s3://bucket", *more))
    found = last_checkpoint(run)
    assert found["global_step"] == from_disk["global_step"] == 10
    for name, tensor in from_disk["state_dict"].items():
        assert torch.equal(tensor, found["state_dict"][name]), name
