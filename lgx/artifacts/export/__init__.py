"""Write models that timm and transformers load without lgx."""

from lgx.artifacts.export.folders import check_model_place
from lgx.artifacts.export.models import write_descendant, write_program_folder

__all__ = ["check_model_place", "write_descendant", "write_program_folder"]
