"""The packages of a user whose classes a configuration may name: ``LGX_ALLOW_IMPORTS=mypackage,other``."""

import os

VARIABLE = "LGX_ALLOW_IMPORTS"


def user_packages() -> list[str]:
    """Names of these packages, as the environment has them now."""
    return [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]


def is_user_class(path: str) -> bool:
    """Whether a class path lies in one of these packages."""
    return any(path.startswith(f"{package}.") for package in user_packages())
