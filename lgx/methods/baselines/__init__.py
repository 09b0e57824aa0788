"""Baselines: fine-tuning and the starts that every method is compared with."""

from lgx.core.task import Kind
from lgx.methods.spec import MethodSpec

_KINDS: tuple[Kind, ...] = ("classification", "segmentation", "text", "multilabel", "language")

RANDOM = MethodSpec(
    name="random",
    paper="Random initialization of timm and transformers; no paper",
    url="https://github.com/huggingface/pytorch-image-models",
    initializer="lgx.methods.baselines.from_source:RandomStart",
    kinds=_KINDS,
    trained_name="trained",
    order=10,
)
PRETRAINED = MethodSpec(
    name="pretrained",
    paper="Pretrain-finetune: the ancestor's weights as they are; no paper of its own",
    url="https://github.com/huggingface/pytorch-image-models",
    module="lgx.methods.baselines.finetune:Finetune",
    initializer="lgx.methods.baselines.pretrained:Pretrained",
    kinds=_KINDS,
    trained_name="pretrain_finetune",
    order=20,
)
ANCESTOR = MethodSpec(
    name="ancestor",
    paper="A network trained with labels; no paper of its own",
    url="https://github.com/huggingface/pytorch-image-models",
    module="lgx.methods.baselines.finetune:Ancestor",
    learngene="network",
    kinds=_KINDS,
    order=30,
)
VANILLA_LG = MethodSpec(
    name="vanilla_lg",
    paper="Wang et al., Learngene: From Open-World to Your Learning Task, AAAI 2022",
    url="https://arxiv.org/abs/2106.06788",
    initializer="lgx.methods.baselines.from_source:VanillaLG",
    kinds=_KINDS,
    order=40,
)
WEIGHT_SELECTION = MethodSpec(
    name="weight_selection",
    paper="Xu et al., Initializing Models with Larger Ones, ICLR 2024",
    url="https://arxiv.org/abs/2311.18823",
    initializer="lgx.methods.baselines.from_source:WeightSelection",
    kinds=_KINDS,
    order=50,
)
