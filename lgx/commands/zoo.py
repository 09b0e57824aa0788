"""``lgx zoo``: the learngenes that ship with lgx."""

import json as json_module
from dataclasses import asdict


def zoo(*, json: bool = False) -> None:
    """List the learngenes that ship with lgx; `lgx init --source zoo:NAME` reads them without a network.

    Args:
        json: Print a JSON list instead of text.
    """
    from lgx.artifacts.zoo import zoo as entries

    found = list(entries().values())
    if json:
        print(json_module.dumps([asdict(entry) for entry in found], indent=2))
        return
    for entry in found:
        print(f"zoo:{entry.name}")
        print(f"  method    {entry.method}")
        print(f"  starts    {entry.starts}")
        print(f"  images    {entry.img_size} px")
        print(f"  data      {entry.data}")
        print(f"  measured  {entry.measured}")
        print(f"  file      {entry.size:,} bytes, SHA-256 {entry.sha256}")
        print(f"  card      {entry.card}")
