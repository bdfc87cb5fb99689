"""Names of BERT."""

from collections.abc import Mapping

from xnn.models import BERT, BERTConfig
from xnn.pretrained.families.tables import (
    ENCODER,
    SIZES,
    Family,
    Tensor,
    dense,
    encoder_block,
    norms,
    read_classes,
    write_classes,
)

# The class of each head has the same end in BERT, RoBERTa and DistilBERT.
HEADS = {"ForMaskedLM": "masked_token", "ForSequenceClassification": "sequence",
         "ForTokenClassification": "token", "ForQuestionAnswering": "answer"}
TEXT_SETTINGS = {**SIZES, **ENCODER, "vocabulary": "vocab_size", "types": "type_vocab_size",
                 "length": "max_position_embeddings"}
TEXT_FIXED = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False,
              "add_cross_attention": False}


def architectures(name: str) -> dict[str, Mapping[str, object]]:
    """The classes with a head of BERT, RoBERTa or DistilBERT, whose name in classes is `name`."""
    return {name + end: {"head": head} for end, head in HEADS.items()}


def text_encoder(config: BERTConfig) -> list[Tensor]:
    """The tensors of BERT and RoBERTa without a head."""
    tables = {"word": "tokens", "position": "positions", "token_type": "types"}
    return [*(Tensor(f"embeddings.{theirs}_embeddings.weight", (f"{ours}/table",)) for theirs, ours in tables.items()),
            *encoder_block("attention.self"),
            *norms({"embeddings.LayerNorm": "norm", "encoder.layer.{i}.attention.output.LayerNorm":
                     "blocks/attention_norm", "encoder.layer.{i}.output.LayerNorm": "blocks/feed_forward_norm"})]


def masked_token(dense_name: str, norm_name: str, bias_name: str) -> list[Tensor]:
    """The tensors of the head for masked tokens; the table of its last layer is that of the embedding."""
    return [*dense(dense_name, "transform"), *norms({norm_name: "transform_norm"}), Tensor(bias_name, ("bias/b",))]


def write_head(config: BERTConfig) -> dict[str, object]:
    """Their settings for the number of classes; theirs is 2 for answers to questions, the default."""
    return {} if config.head == "answer" else write_classes(config.classes)


def _tensors(config: BERTConfig) -> list[Tensor]:
    has_pooler = config.head in ("pooler", "sequence")
    return [*text_encoder(config), *(dense("pooler.dense", "pooler") if has_pooler else [])]


def _head(config: BERTConfig) -> list[Tensor]:
    return {"masked_token": masked_token("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                                           "cls.predictions.bias"),
            "answer": dense("qa_outputs", "logits"), "sequence": dense("classifier", "logits"),
            "token": dense("classifier", "logits")}.get(config.head, [])


BERT_FAMILY = Family(
    "bert", BERT, BERTConfig,
    {"BertModel": {"head": "pooler"}, **architectures("Bert"), "BertForPreTraining": {"head": "pooler"}},
    TEXT_SETTINGS, TEXT_FIXED, _tensors, head=_head, prefix="bert.", base="BertModel", without_head={"head": "none"},
    ignored=("position_ids",), unread=("cls.seq_relationship.",),
    copies={"cls.predictions.decoder.weight": "tokens/table", "cls.predictions.decoder.bias": "bias/b"},
    read=read_classes, write=write_head,
    fits=lambda config: config.types > 0 and config.padding is None and config.pooler == "tanh")
