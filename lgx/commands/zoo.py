"""``lgx zoo``: the learngenes that ship with lgx."""


def zoo() -> None:
    """List the learngenes that ship with lgx; `lgx init --source zoo:NAME` reads them without a network."""
    from lgx.artifacts.zoo import zoo as entries

    for entry in entries().values():
        print(f"zoo:{entry.name}")
        print(f"  method    {entry.method}")
        print(f"  starts    {entry.starts}")
        print(f"  images    {entry.img_size} px")
        print(f"  data      {entry.data}")
        print(f"  measured  {entry.measured}")
        print(f"  file      {entry.size:,} bytes, SHA-256 {entry.sha256}")
        print(f"  card      {entry.card}")
