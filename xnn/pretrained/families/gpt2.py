"""Names of GPT-2."""

from xnn.models import GPT2, GPT2Config
from xnn.pretrained.families.tables import (
    IN_THREE,
    SAME,
    Family,
    Tensor,
    dense,
    norms,
    read_classes,
    write_classes,
)


def _gpt2(config: GPT2Config) -> list[Tensor]:
    def conv1d(theirs, *ours):                     # both are stored as [in, out]
        form = IN_THREE if len(ours) == 3 else SAME
        return [Tensor(f"h.{{i}}.{theirs}.{name}", tuple(f"blocks/{path}/{key}" for path in ours), form)
                for name, key in (("weight", "w"), ("bias", "b"))]

    return [Tensor("wte.weight", ("tokens/table",)), Tensor("wpe.weight", ("positions/table",)),
            *conv1d("attn.c_attn", *(f"attention/{name}" for name in ("query", "key", "value"))),
            *conv1d("attn.c_proj", "attention/out"), *conv1d("mlp.c_fc", "feed_forward/up"),
            *conv1d("mlp.c_proj", "feed_forward/down"),
            *norms({"h.{i}.ln_1": "blocks/attention_norm", "h.{i}.ln_2": "blocks/feed_forward_norm", "ln_f": "norm"})]


def _head(config: GPT2Config) -> list[Tensor]:
    return dense("score", "logits", bias=False) if config.head == "sequence" else []


GPT2_FAMILY = Family(
    "gpt2", GPT2, GPT2Config,
    {"GPT2LMHeadModel": {"head": "next_token"}, "GPT2Model": {"head": "none"},
     "GPT2ForSequenceClassification": {"head": "sequence"}},
    {"vocabulary": "vocab_size", "length": "n_positions", "features": "n_embd", "layers": "n_layer", "heads": "n_head",
     "dropout": "resid_pdrop", "padding": "pad_token_id"},
    {"activation_function": "gelu_new", "n_inner": None, "scale_attn_by_inverse_layer_idx": False,
     "tie_word_embeddings": True, "layer_norm_epsilon": 1e-5, "scale_attn_weights": True, "add_cross_attention": False},
    _gpt2, head=_head, prefix="transformer.", base="GPT2Model", ignored=("attn.bias", "attn.masked_bias"),
    read=read_classes, write=lambda config: write_classes(config.classes))
