"""Files that hold a network as a program, which runs without lgx."""

ONNX, PT2 = ".onnx", ".pt2"
"""How the names of such files end: ONNX, and torch.export."""

PROGRAMS = (ONNX, PT2)
