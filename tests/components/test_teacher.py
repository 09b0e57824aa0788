"""A teacher is a value: not trained, not saved, not in train mode, and it sees its own normalization."""

import pytest
import timm
import torch
from timm.models import save_for_hf
from torch import nn

from lgx.components.losses import distillation_loss
from lgx.components.normalization import renormalize
from lgx.components.teacher import Teacher
from lgx.core.batch import Task
from lgx.errors import UserError

TASK = Task("shapes", 5, in_chans=3, img_size=32, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A convolutional network with BatchNorm as timm folder: a teacher that is no ViT."""
    torch.manual_seed(0)
    model = timm.create_model("resnet10t", num_classes=5)
    model.pretrained_cfg = {**model.pretrained_cfg, "mean": (0.1, 0.2, 0.3), "std": (0.5, 0.6, 0.7), "num_classes": 5}
    path = tmp_path_factory.mktemp("teacher") / "resnet"
    save_for_hf(model, str(path), safe_serialization=True)
    return path


def test_a_teacher_of_any_timm_family_sees_its_own_normalization(folder):
    teacher = Teacher.load(f"local-dir:{folder}", TASK)
    pixels = torch.rand(2, 3, 32, 32)

    def normalized(mean, std):
        return (pixels - torch.tensor(mean).view(1, 3, 1, 1)) / torch.tensor(std).view(1, 3, 1, 1)

    model = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    expected = model(normalized((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)))
    torch.testing.assert_close(teacher(normalized(TASK.mean, TASK.std)), expected, rtol=1e-4, atol=1e-5)


def test_a_teacher_is_no_part_of_the_module_that_holds_it(folder):
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.teacher = Teacher.load(str(folder), TASK)

    holder = Holder().train()
    before = {k: v.clone() for k, v in holder.teacher.model.state_dict().items()}
    assert set(holder.state_dict()) == {"layer.weight", "layer.bias"}
    assert len(list(holder.parameters())) == 2
    logits = holder.teacher(torch.randn(4, 3, 32, 32))
    assert not logits.requires_grad
    assert all(torch.equal(before[k], v) for k, v in holder.teacher.model.state_dict().items())  # BatchNorm as well


def test_misfits_are_explained(folder):
    with pytest.raises(UserError, match="predicts 5 classes, but task shapes has 7"):
        Teacher.load(str(folder), Task("shapes", 7))
    with pytest.raises(UserError, match=r"no such file or folder|no config\.json"):
        Teacher.load("no/such/folder", TASK)
    with pytest.raises(UserError, match="nor a model that timm knows"):
        Teacher.load("resnet_of_my_dreams", TASK)


def test_renormalizing_for_the_same_statistics_changes_nothing():
    inputs = torch.randn(2, 3, 4, 4)
    assert renormalize(inputs, TASK, TASK.mean, TASK.std) is inputs


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_distillation_loss_is_the_papers_soft_cross_entropy(temperature):
    student, teacher = torch.randn(6, 5, dtype=torch.double), torch.randn(6, 5, dtype=torch.double)
    expected = 0.0
    for p_s, p_t in zip(student, teacher, strict=True):
        soft_t, soft_s = (p_t / temperature).exp(), (p_s / temperature).exp()
        expected -= ((soft_t / soft_t.sum()) * (soft_s / soft_s.sum()).log()).sum().item() / 6
    assert distillation_loss(student, teacher, temperature).item() == pytest.approx(expected, rel=1e-5)
    entropy = distillation_loss(teacher, teacher, temperature).item()
    assert entropy <= distillation_loss(student, teacher, temperature).item()


def test_a_teacher_that_cannot_read_the_images_is_refused(tmp_path):
    save_for_hf(timm.create_model("levit_128s", num_classes=5), str(tmp_path / "levit"), safe_serialization=True)
    with pytest.raises(UserError, match="cannot read 3 channels of 32 px"):
        Teacher.load(str(tmp_path / "levit"), Task("x", 5, img_size=32))
    assert Teacher.load(str(tmp_path / "levit"), Task("x", 5, img_size=224))(torch.zeros(1, 3, 224, 224)).shape == (
        1,
        5,
    )
