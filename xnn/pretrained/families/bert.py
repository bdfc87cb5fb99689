"""Names of BERT."""

from xnn.models import BERT, BERTConfig
from xnn.pretrained.families.tables import ENCODER, SIZES, Family, Tensor, dense, encoder_block, norms


def _bert(config: BERTConfig) -> list[Tensor]:
    tables = {"word": "tokens", "position": "positions", "token_type": "types"}
    return [*(Tensor(f"embeddings.{theirs}_embeddings.weight", (f"{ours}/table",)) for theirs, ours in tables.items()),
            *encoder_block("attention.self"), *dense("pooler.dense", "pooler"),
            *norms({"embeddings.LayerNorm": "norm", "encoder.layer.{i}.attention.output.LayerNorm":
                     "blocks/attention_norm", "encoder.layer.{i}.output.LayerNorm": "blocks/feed_forward_norm"})]


BERT_FAMILY = Family(
    "bert", BERT, BERTConfig, {"BertModel": {}, "BertForPreTraining": {}, "BertForMaskedLM": {}},
    {**SIZES, **ENCODER, "vocabulary": "vocab_size", "types": "type_vocab_size", "length": "max_position_embeddings"},
    {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False},
    _bert, prefix="bert.", base="BertModel", ignored=("position_ids",), unread=("cls.",))
