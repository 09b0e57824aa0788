"""``lgx sample``: sample an architecture set."""

import json
import sys


def sample(
    name: str, count: int = 1000, seed: int = 1, out: str | None = None, arch: str | None = None, force: bool = False
) -> None:
    """Sample an architecture set and write one JSON line per architecture.

    Example: lgx sample ViTs-1K --count 10 --arch 12-Tiny,img_size=32,patch_size=4

    Args:
        name: ViTs-1K, ViTs+-1K or, for text models, GPTs-1K.
        count: Number of architectures. The first n architectures of a longer draw equal a draw of n.
        seed: Seed of the draw; the published generators use 1.
        out: File to write; by default the lines are printed.
        arch: Architecture whose image size, patch size, channels and classes are used, e.g.
            12-Tiny,img_size=32,patch_size=4. For text models: whose longest text and vocabulary are used, e.g.
            6-GPT2,max_len=128.
        force: Replace a file that another command or program wrote.
    """
    from lgx.architectures import name_of, parse_any_architecture, sample_architectures
    from lgx.core.seed import check_seed
    from lgx.host.files import atomic_path, check_output, first_line

    check_seed(seed, "--seed")
    if out is not None:
        check_output(out, "lgx sample", lambda file: first_line(file).startswith('{"name": '), force=force)
    base = parse_any_architecture(arch) if arch else None
    lines = [
        json.dumps({"name": name_of(architecture), **architecture.to_dict()}) + "\n"
        for architecture in sample_architectures(name, count, seed, base)
    ]
    if out is None:
        sys.stdout.writelines(lines)
        return
    with atomic_path(out) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8")
    print(f"written   {out}: {len(lines)} architectures of {name}")
