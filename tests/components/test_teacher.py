"""A teacher is never trained, saved or in train mode, and it normalizes its inputs as it was trained to."""

import pytest
import timm
import torch
from timm.models import save_for_hf
from torch import nn

from lgx.artifacts.pretrained import load_pretrained
from lgx.components.features import sum_features
from lgx.components.teacher import Teacher
from lgx.core.task import Task
from lgx.errors import UserError

TASK = Task("shapes", 5, in_chans=3, img_size=32, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A convolutional network with BatchNorm as a timm folder."""
    torch.manual_seed(0)
    model = timm.create_model("resnet10t", num_classes=5)
    model.pretrained_cfg = {**model.pretrained_cfg, "mean": (0.1, 0.2, 0.3), "std": (0.5, 0.6, 0.7), "num_classes": 5}
    path = tmp_path_factory.mktemp("teacher") / "resnet"
    save_for_hf(model, str(path), safe_serialization=True)
    return path


def test_a_teacher_of_any_timm_family_gets_its_own_normalization(folder):
    teacher = Teacher.of(load_pretrained(str(folder)), TASK)
    assert (teacher.width, teacher.num_parameters) == (512, sum(p.numel() for p in teacher.model.parameters()))
    pixels = torch.rand(2, 3, 32, 32)

    def normalized(mean, std):
        return (pixels - torch.tensor(mean).view(1, 3, 1, 1)) / torch.tensor(std).view(1, 3, 1, 1)

    model = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    expected = model(normalized((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)))
    torch.testing.assert_close(teacher(normalized(TASK.mean, TASK.std)), expected, rtol=1e-4, atol=1e-5)


def test_a_teacher_is_not_part_of_the_module_that_holds_it(folder):
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.teacher = Teacher.of(load_pretrained(str(folder)), TASK)

    holder = Holder().train()
    before = {k: v.clone() for k, v in holder.teacher.model.state_dict().items()}
    assert set(holder.state_dict()) == {"layer.weight", "layer.bias"}
    assert len(list(holder.parameters())) == 2
    logits = holder.teacher(torch.randn(4, 3, 32, 32))
    assert not logits.requires_grad
    assert all(torch.equal(before[k], v) for k, v in holder.teacher.model.state_dict().items())  # BatchNorm too


def test_a_source_that_does_not_fit_is_refused(folder):
    with pytest.raises(UserError, match=r"predicts 5 classes, but task shapes has 7.* with its own library"):
        Teacher.of(load_pretrained(str(folder)), Task("shapes", 7))
    with pytest.raises(UserError, match=r"no such file or folder|no config\.json"):
        Teacher.of(load_pretrained("no/such/folder"), TASK)
    with pytest.raises(UserError, match="not a file, a folder or a model that timm knows"):
        Teacher.of(load_pretrained("resnet_of_my_dreams"), TASK)


def test_a_teacher_that_cannot_read_the_images_is_refused(tmp_path):
    save_for_hf(timm.create_model("levit_128s", num_classes=5), str(tmp_path / "levit"), safe_serialization=True)
    with pytest.raises(UserError, match="cannot read 3 channels of 32 px"):
        Teacher.of(load_pretrained(str(tmp_path / "levit")), Task("x", 5, img_size=32))
    teacher = Teacher.of(load_pretrained(str(tmp_path / "levit")), Task("x", 5, img_size=224))
    assert teacher(torch.zeros(1, 3, 224, 224)).shape == (1, 5)


def test_features_after_a_hidden_layer_of_the_head_have_its_width(tmp_path):
    model = timm.create_model("mobilenetv3_small_050", num_classes=5)
    save_for_hf(model, str(tmp_path / "mobile"), safe_serialization=True)
    teacher = Teacher.of(load_pretrained(str(tmp_path / "mobile")), TASK)
    total, count = sum_features(teacher, [torch.randn(2, 3, 32, 32)])
    assert (total.shape, count) == ((teacher.width,), 2)
