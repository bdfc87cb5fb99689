"""Names of RoBERTa and XLM-RoBERTa, which differ in the names of their classes."""

from collections.abc import Mapping

from xnn.models import BERT, BERTConfig
from xnn.pretrained.families.bert import (
    TEXT_FIXED,
    TEXT_SETTINGS,
    architectures,
    masked_token,
    text_encoder,
    write_head,
)
from xnn.pretrained.families.tables import Family, Tensor, dense, read_classes


def _tensors(config: BERTConfig) -> list[Tensor]:
    return [*text_encoder(config), *(dense("pooler.dense", "pooler") if config.head == "pooler" else [])]


def _head(config: BERTConfig) -> list[Tensor]:
    return {"masked_token": masked_token("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
            "sequence": [*dense("classifier.dense", "pooler"), *dense("classifier.out_proj", "logits")],
            "token": dense("classifier", "logits"),
            "answer": dense("qa_outputs", "logits")}.get(config.head, [])


def _roberta(kind: str, name: str, vocabulary: int) -> Family:
    """Args: kind: their `model_type`; name: in the names of classes; vocabulary: their default."""
    def read(settings: Mapping[str, object]) -> dict[str, object]:
        return {"vocabulary": settings.get("vocab_size", vocabulary), "padding": settings.get("pad_token_id", 1),
                **read_classes(settings)}

    return Family(
        kind, BERT, BERTConfig, {f"{name}Model": {"head": "pooler"}, **architectures(name)}, TEXT_SETTINGS, TEXT_FIXED,
        _tensors, head=_head, prefix="roberta.", base=f"{name}Model", without_head={"head": "none"},
        ignored=("position_ids",),
        copies={"lm_head.decoder.weight": "tokens/table", "lm_head.decoder.bias": "bias/b"}, read=read,
        write=lambda config: {"pad_token_id": config.padding, **write_head(config)},
        fits=lambda config: config.types > 0 and config.padding is not None and config.pooler == "tanh")


ROBERTA_FAMILY = _roberta("roberta", "Roberta", 50_265)
XLM_ROBERTA_FAMILY = _roberta("xlm-roberta", "XLMRoberta", 30_522)
