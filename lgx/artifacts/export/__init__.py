"""Write models that timm and transformers load without lgx."""

from lgx.artifacts.export.folders import check_model_place
from lgx.artifacts.export.gpt2_folder import write_text_descendant
from lgx.artifacts.export.timm_folder import write_descendant

__all__ = ["check_model_place", "write_descendant", "write_text_descendant"]
