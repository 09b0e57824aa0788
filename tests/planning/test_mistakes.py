"""A mistake in the options of ``lgx plan`` ends with one sentence."""

import re

import pytest

from tests.planning.helpers import BASE
from tests.support.command_line import lgx, refusal


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([*BASE[:3], "--data=HAM10000", "--data.root=nowhere", "--data.img_size=32"],
         r"data ham10000: how many training examples .* give --samples ham10000=NUMBER, or bring the files"),
        ([*BASE, "--data.val_fraction=0.2"], "data cifar10: how many training examples .* --samples cifar10=NUMBER"),
        ([*BASE, "--gpus=0"], "--gpus: must be positive, got 0"),
        ([*BASE, "--trainer.precision=transformer-engine"], "trainer.precision: transformer-engine cannot be planned"),
        ([*BASE, "--trainer.max_epochs=-1"], "trainer.max_epochs or trainer.max_steps"),
        ([*BASE, "--gpus=8", "--nodes=500"], "data.batch_size: 64 x 4000 processes exceeds the 45000 training"),
        ([*BASE, "--model.arch=6-Small"], "model.arch: reads 3 channels of 224 px"),
        ([*BASE, "--gpu=8"], "unknown option --gpu; did you mean --gpus"),
        ([*BASE, "--gpus=many"], "gpus: expected .*got many"),
        ([*BASE, "--model.optimizer=torch.optim.Muon"], "model.optimizer: Muon only supports 2D parameters"),
        (["--model=TLEG", *BASE[1:], "--trainer.strategy=sharded"], "the network of TLEG cannot be sharded; use ddp"),
        ([*BASE, "--throughput=.inf"], "--throughput: must be positive, got inf"),
        ([*BASE, "--mfu=1.5", "--tflops=100"], r"--mfu: expected a share in \(0, 1\], got 1.5"),
        ([*BASE, "--tflops=100", "--throughput=5"], "each of them says how fast the run is; give only one"),
        ([*BASE, "--samples=many"], "--samples: .* or NAME=NUMBER,NAME=NUMBER for several sets, got many"),
        ([*BASE, "--samples=cifar10=100,200"], "--samples: expected a number, or NAME=NUMBER"),
    ],
)  # fmt: skip
def test_a_mistake_ends_with_one_sentence(options, sentence):
    done = refusal(lgx("plan", *options))
    assert re.search(sentence, done), done
    assert done.startswith("lgx plan: ")
