"""Writes folders of small random encoders and heads of transformers, for tests/xnn/test_pretrained_heads.py.

    python -m tests.xnn.peers.pretrained_encoders       # needs torch and transformers; writes pretrained/
"""

import numpy as np
import torch
import transformers as hf

from tests.xnn.peers.pretrained import FOLDER, draw_weights

SMALL = {"hidden_size": 4, "intermediate_size": 6, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT = hf.BertConfig(vocab_size=11, max_position_embeddings=9, num_labels=3, **SMALL)
ROBERTA = hf.RobertaConfig(vocab_size=11, max_position_embeddings=9, type_vocab_size=1, num_labels=3, **SMALL)
DISTILBERT = hf.DistilBertConfig(vocab_size=11, max_position_embeddings=9, num_labels=3, dim=4, hidden_dim=6,
                                 n_layers=2, n_heads=2)
GPT2 = hf.GPT2Config(vocab_size=11, n_positions=9, n_embd=4, n_layer=2, n_head=2, num_labels=3, pad_token_id=1)
VIT = hf.ViTConfig(image_size=4, patch_size=2, **SMALL)
ANSWERS = {"num_labels": 2}
MODELS = {
    "bert_vectors": hf.BertModel(BERT, add_pooling_layer=False),
    "bert_masked": hf.BertForMaskedLM(BERT),
    "bert_classes": hf.BertForSequenceClassification(BERT),
    "bert_token_classes": hf.BertForTokenClassification(BERT),
    "bert_answers": hf.BertForQuestionAnswering(hf.BertConfig(**{**BERT.to_dict(), **ANSWERS})),
    "roberta": hf.RobertaModel(ROBERTA),
    "roberta_vectors": hf.RobertaModel(ROBERTA, add_pooling_layer=False),
    "roberta_masked": hf.RobertaForMaskedLM(ROBERTA),
    "roberta_classes": hf.RobertaForSequenceClassification(ROBERTA),
    "roberta_token_classes": hf.RobertaForTokenClassification(ROBERTA),
    "roberta_answers": hf.RobertaForQuestionAnswering(hf.RobertaConfig(**{**ROBERTA.to_dict(), **ANSWERS})),
    "xlm_roberta_masked": hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(
        vocab_size=11, max_position_embeddings=9, type_vocab_size=1, **SMALL)),
    "distilbert": hf.DistilBertModel(DISTILBERT),
    "distilbert_masked": hf.DistilBertForMaskedLM(DISTILBERT),
    "distilbert_classes": hf.DistilBertForSequenceClassification(DISTILBERT),
    "distilbert_token_classes": hf.DistilBertForTokenClassification(DISTILBERT),
    "distilbert_answers": hf.DistilBertForQuestionAnswering(
        hf.DistilBertConfig(**{**DISTILBERT.to_dict(), **ANSWERS})),
    "gpt2_vectors": hf.GPT2Model(GPT2),
    "gpt2_classes": hf.GPT2ForSequenceClassification(GPT2),
    "t5_encoder": hf.T5EncoderModel(hf.T5Config(vocab_size=11, d_model=4, d_kv=3, d_ff=6, num_layers=2, num_heads=2)),
    "vit_pooler": hf.ViTModel(VIT),
    "vit_vectors": hf.ViTModel(VIT, add_pooling_layer=False),
    "resnet_features": hf.ResNetModel(hf.ResNetConfig(embedding_size=2, hidden_sizes=[2, 4], depths=[1, 1],
                                                      layer_type="basic")),
}
N_OUTPUTS = {"roberta": 2, "vit_pooler": 2, "bert_answers": 2, "roberta_answers": 2, "distilbert_answers": 2}


def inputs_of(name: str) -> dict[str, torch.Tensor]:
    if name.startswith(("vit", "resnet")):
        return {"pixel_values": torch.randn(2, 3, *[4 if name.startswith("vit") else 16] * 2)}
    x = torch.randint(2, 11, (2, 6))
    x[1, 4:] = 1                                              # padding
    more = {"token_type_ids": torch.randint(0, 2, (2, 6))} if name.startswith("bert") else {}
    return {"input_ids": x, "attention_mask": (x != 1).long(), **more}


def main() -> None:
    torch.manual_seed(0)
    for name, model in MODELS.items():
        draw_weights(model)
        model.save_pretrained(FOLDER / name)
        inputs = inputs_of(name)
        arrays = {key: value.numpy() for key, value in inputs.items()}
        with torch.no_grad():
            calls = {"y": model(**inputs)}
            if "input_ids" in inputs:
                calls["alone"] = model(inputs["input_ids"])   # without a mask and token types
        for key, outputs in calls.items():
            arrays |= {f"{key}{i}": outputs[i].numpy() for i in range(N_OUTPUTS.get(name, 1))}
        np.savez_compressed(FOLDER / name / "arrays.npz", **arrays)
        (FOLDER / name / "generation_config.json").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
