"""Function-preserving growth of a smaller network (Net2Net, bert2BERT)."""

from lgx.methods.spec import PINK, Look, MethodSpec

SPEC = MethodSpec(
    name="net2net",
    paper="Chen et al., Net2Net: Accelerating Learning via Knowledge Transfer, ICLR 2016",
    url="https://arxiv.org/abs/1511.05641",
    summary="A smaller trained network is widened and deepened such that it computes the same function at first.",
    looks=(Look("net2net", "Net2Net", PINK, "-."),),
    initializer="lgx.methods.net2net.initializer:Net2Net",
    kinds=("classification", "segmentation"),
    order=57,
)
