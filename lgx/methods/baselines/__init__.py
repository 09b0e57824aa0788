"""Baselines: fine-tuning and the starts that every method is compared with."""

from lgx.core.task import Kind
from lgx.methods.spec import BLACK, GRAY, ORANGE, PINK, Look, MethodSpec

_KINDS: tuple[Kind, ...] = ("classification", "segmentation", "text", "multilabel", "language")

RANDOM = MethodSpec(
    name="random",
    paper="Random initialization of timm and transformers; no paper",
    url="https://github.com/huggingface/pytorch-image-models",
    summary="Every weight is drawn at random, so that training begins from scratch.",
    looks=(Look("random", "random start", GRAY), Look("trained", "trained from a random start", GRAY, "--")),
    initializer="lgx.methods.baselines.from_source:RandomStart",
    kinds=_KINDS,
    trained_name="trained",
    order=10,
)
PRETRAINED = MethodSpec(
    name="pretrained",
    paper="Pretrain-finetune: the ancestor's weights as they are; no paper of its own",
    url="https://github.com/huggingface/pytorch-image-models",
    summary="All weights come from a network of the same size that was trained before, so that each size needs "
    "its own.",
    looks=(Look("pretrained", "pretrained", BLACK), Look("pretrain_finetune", "pretrain-finetune", BLACK, "--")),
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
    summary="A large network is trained with labels; other methods take their weights from it.",
    looks=(Look("ancestor", "ancestor", BLACK, ":"),),
    module="lgx.methods.baselines.finetune:Ancestor",
    learngene="network",
    kinds=_KINDS,
    order=30,
)
VANILLA_LG = MethodSpec(
    name="vanilla_lg",
    paper="Wang et al., Learngene: From Open-World to Your Learning Task, AAAI 2022",
    url="https://arxiv.org/abs/2106.06788",
    summary="The last layers of a trained ancestor become the last layers of the descendant; all layers before "
    "them are random.",
    looks=(Look("vanilla_lg", "Vanilla-LG", PINK),),
    initializer="lgx.methods.baselines.from_source:VanillaLG",
    kinds=_KINDS,
    order=40,
)
WEIGHT_SELECTION = MethodSpec(
    name="weight_selection",
    paper="Xu et al., Initializing Models with Larger Ones, ICLR 2024",
    url="https://arxiv.org/abs/2311.18823",
    summary="Evenly spaced elements of the first layers of a larger trained network become the weights.",
    looks=(Look("weight_selection", "weight selection", ORANGE),),
    initializer="lgx.methods.baselines.from_source:WeightSelection",
    kinds=_KINDS,
    order=50,
)
