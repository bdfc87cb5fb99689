"""Tables of Hugging Face's names for the settings and tensors of each model, one module for each family."""

from xnn.pretrained.families.bert import BERT_FAMILY
from xnn.pretrained.families.distilbert import DISTILBERT_FAMILY
from xnn.pretrained.families.gemma import GEMMA2_FAMILY, GEMMA3_FAMILY, GEMMA_FAMILY
from xnn.pretrained.families.gpt2 import GPT2_FAMILY
from xnn.pretrained.families.llama import LLAMA_FAMILY, MISTRAL_FAMILY, QWEN2_FAMILY, QWEN3_FAMILY
from xnn.pretrained.families.resnet import RESNET_FAMILY
from xnn.pretrained.families.roberta import ROBERTA_FAMILY, XLM_ROBERTA_FAMILY
from xnn.pretrained.families.t5 import T5_FAMILY
from xnn.pretrained.families.tables import Family
from xnn.pretrained.families.vit import VIT_FAMILY

# The order decides when the config fits several families: `save` takes the first.
FAMILIES: dict[str, Family] = {family.kind: family for family in (
    GPT2_FAMILY, LLAMA_FAMILY, MISTRAL_FAMILY, QWEN2_FAMILY, QWEN3_FAMILY, GEMMA_FAMILY, GEMMA2_FAMILY, GEMMA3_FAMILY,
    BERT_FAMILY, ROBERTA_FAMILY, XLM_ROBERTA_FAMILY, DISTILBERT_FAMILY, T5_FAMILY, VIT_FAMILY, RESNET_FAMILY)}

__all__ = ["FAMILIES"]
