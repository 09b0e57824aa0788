"""The command line: quick, helpful, and true to what was typed."""

import json
import sys
import time

import pytest

from lgx.cli import COMMANDS, TRAINING
from tests.support.command_line import arguments, lgx, python


def test_help_answers_at_once_and_imports_no_torch():
    code = "import sys; from lgx.cli import main; main(['--help']); assert 'torch' not in sys.modules"
    start = time.perf_counter()
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in (*COMMANDS, *TRAINING))
    assert time.perf_counter() - start < 30  # a hang, not a timing: the measure is `make bench`'s affair


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "data"])
def test_every_command_explains_itself(command):
    result = lgx(command, "--help")
    assert result.code == 0
    assert f"lgx {command}" in result.out
    assert len(result.out) > 200 or command == "doctor"


def test_commands_with_subcommands_list_them():
    assert "prepare" in lgx("data").out
    assert lgx("data", "prepar").code == 2


def test_help_of_a_method_lists_inherited_options_with_their_text():
    done = lgx("fit", "--model.help=SWS")
    assert done.code == 0, done.err
    for option in ("stages", "alpha", "ancestor", "label_smoothing", "arch"):
        assert f"--model.{option}" in done.out or f"--{option}" in done.out
    assert "Layers of each stage" in done.out


def test_version():
    import lgx as package

    assert lgx("--version").out == f"lgx {package.__version__}\n"


def test_arch_prints_json():
    rows = json.loads(lgx("arch", "6-Small", "Aux-B", "--json").out)
    assert [r["name"] for r in rows] == ["6-Small", "Aux-B"]
    assert rows[1]["parameters"] == 36_952_552
    assert rows[0]["macs"] > 2e9


def test_sample_writes_reproducible_json_lines(tmp_path):
    assert lgx("sample", "ViTs+-1K", "--count", 20, "--out", tmp_path / "set.jsonl").code == 0
    lines = (tmp_path / "set.jsonl").read_text().splitlines()
    assert len(lines) == 20
    assert lgx("sample", "ViTs+-1K", "--count", 3).out.splitlines() == lines[:3]


def test_doctor_finds_this_machine_fit():
    result = lgx("doctor")
    assert result.code == 0
    assert "torch" in result.out
    assert "no problem found" in result.out


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "16", "SLURM_JOB_NUM_NODES": "2"}, "SLURM job 7, 16 tasks on 2 node(s)"),
        ({"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, "torchrun, 8 processes, 4 of them"),
        ({"SLURM_NTASKS": "1", "SLURM_JOB_NAME": "bash"}, "named bash or interactive"),
        ({"NCCL_IB_DISABLE": "1"}, "several GPUs will be slow"),
    ],
)
def test_doctor_knows_the_cluster_and_what_often_ails_it(monkeypatch, variables, words):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert words in lgx("doctor").out


def test_bench_reports_ratios(tmp_path):
    result = lgx("bench", "--repeats", 1, "--batch", 1, "--size", "tiny", "--json", tmp_path / "bench.json")
    assert result.code == 0, result.err
    rows = {row["what"]: row for row in json.loads((tmp_path / "bench.json").read_text())}
    assert set(rows) == {"ordinary_step", "hyper_step", "predict", "graph"}
    assert rows["ordinary_step"]["ratio"] == 1
    for row in rows.values():
        assert row["size"] == "tiny"
        assert row["batch"] == 1
        assert row["seconds"] > 0
        assert row["peak_mb"] >= 0
    shares = [value for key, value in rows["hyper_step"].items() if key.startswith("share_")]
    assert sum(shares) == pytest.approx(1)
    assert len(shares) == 4
    assert rows["hyper_step"]["dense_mb"] == pytest.approx(4 * 5_717_416 / 2**20)  # DeiT-Tiny


def test_bench_of_sws_reports_ratios(tmp_path):
    result = lgx("bench", "--suite=sws", "--size=tiny", "--repeats=1", "--batch=1", "--json", tmp_path / "bench.json")
    assert result.code == 0, result.err
    rows = json.loads((tmp_path / "bench.json").read_text())
    assert [row["what"] for row in rows] == ["ordinary_step", "shared_step", "distilled_step", "forward"]


MISTAKES = [
    (["--model=Ancestorr"], ("Ancestorr", "did you mean Ancestor?")),
    (["--data=CIFR10"], ("CIFR10", "did you mean CIFAR10")),
    (["--model.lable_smoothing=0.1"], ("lable_smoothing", "did you mean label_smoothing?")),
    (["--trainer.max_epoch=1"], ("--trainer.max_epoch", "--help")),
    (["--trainer.max_epochs=abc"], ("trainer.max_epochs", "int", "abc")),
    (["--model.arch=7-Smal"], ("7-Smal", "7-Small")),
    (["--model.arch=depth=4,embed_dim=16,num_heads=2,patch_size=4,img_size=32"], ("img_size=16",)),
    (["--data.root=/nowhere/at/all"], ("/nowhere/at/all", "train")),
    (["--model.optimizer=os.system"], ("os.system is not allowed", "LGX_ALLOW_IMPORTS")),
    (["--model=subprocess.Popen"], ("subprocess.Popen is not allowed",)),
    (["--trainer.accelerator=gpu"], ("gpu",)),
    (["--ckpt_path=/nowhere.ckpt"], ("/nowhere.ckpt", "no such checkpoint")),
    (["--ckpt_path=https://example.org/x.ckpt"], ("only local files",)),
    (["--model=SWS", "--model.ancestor=none.learngene.safetensors"], ("none.learngene.safetensors", "no such file")),
    (["--model=Distill", "--model.alpha=2"], ("model.alpha", "[0, 1]")),
    (["--model=Finetune", "--model.initializer=Pretraned"], ("Pretraned", "did you mean Pretrained?")),
    (["--data.batch_size=1000"], ("batch_size", "48")),
    (["--config=/nowhere.yaml"], ("/nowhere.yaml",)),
]


@pytest.mark.parametrize(("options", "words"), MISTAKES, ids=[m[0][-1][:40] for m in MISTAKES])
def test_a_mistake_gets_one_sentence_and_no_traceback(images, tmp_path, options, words):
    if options == ["--trainer.accelerator=gpu"]:
        import torch

        if torch.cuda.is_available():
            pytest.skip("this machine has a GPU")
    result = lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", *options))
    assert result.code == 2
    assert "Traceback" not in result.err
    assert result.sentence.startswith("lgx fit: ")
    assert all(word in result.sentence for word in words), result.sentence
    assert not list(tmp_path.rglob("*.ckpt"))


def test_a_misspelt_key_in_a_file_is_named(images, tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("trainer:\n  max_epoch: 3\n")
    result = lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", f"--config={config}"))
    assert result.code == 2
    assert "max_epoch" in result.sentence


def test_a_hostile_configuration_runs_nothing(images, tmp_path):
    evidence = tmp_path / "evidence"
    (tmp_path / "evil.py").write_text(f"open({str(evidence)!r}, 'w')\nclass Evil: pass\n")
    sys.path.insert(0, str(tmp_path))
    try:
        for option in ("--model=evil.Evil", "--model.optimizer=evil.Evil", "--trainer.callbacks+=evil.Evil"):
            result = lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", option))
            assert result.code == 2
            assert "not allowed" in result.sentence
    finally:
        sys.path.remove(str(tmp_path))
    assert not evidence.exists()
    assert "evil" not in sys.modules


def test_evaluation_without_a_checkpoint_refuses(fit):
    for command in ("test", "validate", "predict"):
        result = fit("Ancestor", command=command)
        assert result.code == 2
        assert "needs --ckpt_path" in result.sentence
        assert "--untrained true" in result.sentence
    assert fit("Ancestor", "--untrained=true", "--name=u", command="test").code == 0


def test_two_runs_never_mix_in_one_folder(fit, tmp_path):
    assert fit("Ancestor", "--name=a").code == 0
    again = fit("Ancestor", "--name=a")
    assert again.code == 2
    assert "already holds a run" in again.sentence
    assert fit("Ancestor", "--name=a", "--overwrite=true").code == 0
    assert len(list((tmp_path / "runs/test/a/seed0").glob("events*"))) == 1


def test_the_saved_configuration_repeats_the_run(fit, tmp_path):
    from lgx.core.rows import read_rows

    assert fit("Ancestor", "--name=a").code == 0
    config = tmp_path / "runs/test/a/seed0/config.yaml"
    assert lgx("fit", "--config", config, "--name", "b").code == 0
    a, b = ([r.value for r in read_rows(tmp_path / f"runs/test/{n}/seed0/results.csv")] for n in "ab")
    assert a == b
    assert (tmp_path / "runs/test/b/seed0/checkpoints/best.ckpt").exists()
    assert str(tmp_path / "runs/test/a") not in (tmp_path / "runs/test/b/seed0/config.yaml").read_text()


def test_a_saved_configuration_neither_resumes_nor_overwrites_by_itself(fit, tmp_path):
    assert fit("Ancestor", "--name=a", "--overwrite=true").code == 0
    assert fit("Ancestor", "--name=a", "--ckpt_path=last", "--trainer.max_epochs=2").code == 0
    config = tmp_path / "runs/test/a/seed0/config.yaml"
    assert "already holds a run" in lgx("fit", "--config", config).sentence
    assert "needs --ckpt_path" in lgx("test", "--config", config).sentence
    assert lgx("fit", "--config", config, "--name", "fresh").code == 0


@pytest.mark.parametrize("group", ["model", "data"])
def test_a_missing_group_is_asked_for(images, tmp_path, group):
    args = [a for a in arguments("fit", "Ancestor", images, tmp_path) if not a.startswith((f"--{group}", "Ancestor"))]
    result = lgx(*(args if group == "model" else [*args[:1], "--model=Ancestor", *args[2:]]))
    assert result.code == 2
    assert f"--{group}" in result.sentence or group in result.sentence
    assert "Traceback" not in result.err


def test_a_later_file_wins_over_an_earlier_one(images, tmp_path):
    for name, epochs in (("one", 1), ("two", 2)):
        (tmp_path / f"{name}.yaml").write_text(f"trainer:\n  max_epochs: {epochs}\n")
    base = [a for a in arguments("fit", "Ancestor", images, tmp_path / "runs", "--name=c") if "max_epochs" not in a]
    assert lgx(*base, f"--config={tmp_path}/one.yaml", f"--config={tmp_path}/two.yaml").code == 0
    assert "max_epochs: 2" in (tmp_path / "runs/test/c/seed0/config.yaml").read_text()


def test_a_hostile_checkpoint_is_refused_and_runs_nothing(fit, tmp_path):
    import torch

    from tests.artifacts.test_learngene import Payload

    evidence, path = tmp_path / "evidence", tmp_path / "last.ckpt"
    torch.save({"state_dict": Payload(evidence)}, path)
    for command in ("fit", "test"):
        result = fit("Ancestor", f"--ckpt_path={path}", command=command)
        assert result.code == 2
        assert str(path) in result.sentence
        assert "Traceback" not in result.err
    assert not evidence.exists()


def test_a_corrupt_checkpoint_is_named(fit, ancestor, tmp_path):
    whole = (ancestor / "checkpoints/best.ckpt").read_bytes()
    for name, content in {"half.ckpt": whole[: len(whole) // 2], "empty.ckpt": b"", "text.ckpt": b"hello"}.items():
        (tmp_path / name).write_bytes(content)
        result = fit("Ancestor", f"--ckpt_path={tmp_path / name}", command="test")
        assert result.code == 2
        assert f"{name}: not an intact checkpoint" in result.sentence
        assert "Traceback" not in result.err


@pytest.mark.parametrize("workers", [0, 1])
def test_a_truncated_image_is_named(tmp_path, workers):
    from tests.support.images import write_images

    images = write_images(tmp_path / "shapes", {"train": 24, "val": 3, "test": 3})
    broken = images / "train" / "circle" / "000.png"
    broken.write_bytes(broken.read_bytes()[:60])
    options = [f"--data.num_workers={workers}", "--data.batch_size=24"]
    result = lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", *options))
    assert result.code == 2
    assert "000.png" in result.sentence
    assert "Traceback" not in result.sentence


@pytest.mark.slow
def test_a_compiled_network_saves_plain_names(fit, tmp_path):
    from lgx.artifacts.learngene import load_checkpoint

    result = fit("Ancestor", "--name=c", "--model.compile=true")
    assert result.code == 0, result.err
    state = load_checkpoint(tmp_path / "runs/test/c/seed0/checkpoints/last.ckpt")["state_dict"]
    assert all(name.startswith("network.") and "_orig_mod" not in name for name in state)
