"""Names of DistilBERT."""

from collections.abc import Mapping

from xnn.models import BERT, BERTConfig
from xnn.pretrained.families.bert import architectures, masked_token, write_head
from xnn.pretrained.families.tables import Family, Tensor, dense, norms, read_classes

_EPSILON = 1e-12                                              # the format has no setting for it


def _tensors(config: BERTConfig) -> list[Tensor]:
    names = {"attention.q_lin": "attention/query", "attention.k_lin": "attention/key",
             "attention.v_lin": "attention/value", "attention.out_lin": "attention/out", "ffn.lin1": "feed_forward/up",
             "ffn.lin2": "feed_forward/down"}
    return [Tensor("embeddings.word_embeddings.weight", ("tokens/table",)),
            Tensor("embeddings.position_embeddings.weight", ("positions/table",)),
            *(tensor for theirs, ours in names.items() for tensor in dense(
                f"transformer.layer.{{i}}.{theirs}", f"blocks/{ours}")),
            *norms({"embeddings.LayerNorm": "norm", "transformer.layer.{i}.sa_layer_norm": "blocks/attention_norm",
                    "transformer.layer.{i}.output_layer_norm": "blocks/feed_forward_norm"})]


def _head(config: BERTConfig) -> list[Tensor]:
    return {"masked_token": masked_token("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
            "sequence": [*dense("pre_classifier", "pooler"), *dense("classifier", "logits")],
            "token": dense("classifier", "logits"), "pooler": dense("pre_classifier", "pooler"),
            "answer": dense("qa_outputs", "logits")}.get(config.head, [])


def _read(settings: Mapping[str, object]) -> dict[str, object]:
    return {"types": 0, "pooler": "relu", "epsilon": _EPSILON, "layers": settings.get("n_layers", 6),
            **read_classes(settings)}


DISTILBERT_FAMILY = Family(
    "distilbert", BERT, BERTConfig, {"DistilBertModel": {"head": "none"}, **architectures("DistilBert")},
    {"vocabulary": "vocab_size", "length": "max_position_embeddings", "features": "dim", "hidden": "hidden_dim",
     "layers": "n_layers", "heads": "n_heads", "dropout": "dropout"},
    {"activation": "gelu"}, _tensors, head=_head, prefix="distilbert.", base="DistilBertModel",
    ignored=("position_ids",), copies={"vocab_projector.weight": "tokens/table"}, read=_read, write=write_head,
    fits=lambda config: not config.types and config.padding is None and config.pooler == "relu"
    and config.epsilon == _EPSILON)
