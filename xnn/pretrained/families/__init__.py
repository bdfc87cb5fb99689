"""Tables of Hugging Face's names for the settings and tensors of each model, one module for each family."""

from xnn.pretrained.families.bert import BERT_FAMILY
from xnn.pretrained.families.gpt2 import GPT2_FAMILY
from xnn.pretrained.families.llama import LLAMA_FAMILY
from xnn.pretrained.families.resnet import RESNET_FAMILY
from xnn.pretrained.families.t5 import T5_FAMILY
from xnn.pretrained.families.tables import Family
from xnn.pretrained.families.vit import VIT_FAMILY

# The order decides when the config fits several families: `save` takes the first.
FAMILIES: dict[str, Family] = {family.kind: family for family in (
    GPT2_FAMILY, LLAMA_FAMILY, BERT_FAMILY, T5_FAMILY, VIT_FAMILY, RESNET_FAMILY)}

__all__ = ["FAMILIES"]
