"""Writes `losses.npz`, PyTorch's losses and their gradients: ``python -m tests.xnn.peers.losses``."""

import pathlib

import numpy as np

FILE = pathlib.Path(__file__).with_suffix(".npz")
CTC_LENGTHS, CTC_LABEL_LENGTHS = (7, 5, 3), (3, 2, 0)


def inputs() -> dict[str, np.ndarray]:
    npr = np.random.default_rng(0)
    normal = lambda *shape: npr.normal(size=shape).astype(np.float32) * 3
    return {
        "logits": normal(6, 4), "classes": np.array([0, 3, 1, 1, 2, 0]), "ignoring": np.array([0, -100, 1, -100, 2, 0]),
        "distributions": npr.dirichlet(np.ones(4), 6).astype(np.float32), "numbers": normal(6, 4),
        "shares": npr.random((6, 4)).astype(np.float32), "bits": npr.integers(0, 2, (6, 4)).astype(np.float32),
        "others": normal(6, 4), "sequences": normal(3, 7, 5), "words": np.array([[1, 2, 2], [4, 3, 0], [0, 0, 0]]),
    }


def cases(torch):
    f = torch.nn.functional
    signs = lambda bits: 2 * bits - 1
    return {
        "cross_entropy": lambda a: f.cross_entropy(a["logits"], a["classes"]),
        "cross_entropy_smooth": lambda a: f.cross_entropy(a["logits"], a["classes"], label_smoothing=0.1),
        "cross_entropy_ignored": lambda a: f.cross_entropy(a["logits"], a["ignoring"], label_smoothing=0.1),
        "cross_entropy_soft": lambda a: f.cross_entropy(a["logits"], a["distributions"]),
        "binary": lambda a: f.binary_cross_entropy_with_logits(a["logits"], a["shares"]),
        "binary_weighted": lambda a: f.binary_cross_entropy_with_logits(a["logits"], a["bits"],
                                                                        pos_weight=torch.tensor(3.0)),
        "hinge": lambda a: torch.relu(1 - a["logits"] * signs(a["bits"])).mean(),
        "kl_divergence": lambda a: f.kl_div(f.log_softmax(a["logits"], -1), a["distributions"], reduction="batchmean"),
        "mse": lambda a: f.mse_loss(a["logits"], a["numbers"]),
        "mae": lambda a: f.l1_loss(a["logits"], a["numbers"]),
        "huber": lambda a: f.huber_loss(a["logits"], a["numbers"], delta=2.0),
        "triplet": lambda a: f.triplet_margin_loss(a["logits"], a["numbers"], a["others"], eps=0.0),
        "cosine_distance": lambda a: (1 - f.cosine_similarity(a["logits"], a["numbers"])).mean(),
        "info_nce": lambda a: f.cross_entropy(
            f.normalize(a["logits"]) @ f.normalize(a["numbers"]).T / 0.1, torch.arange(6)),
        "ctc": lambda a: f.ctc_loss(f.log_softmax(a["sequences"], -1).transpose(0, 1), a["words"], CTC_LENGTHS,
                                    CTC_LABEL_LENGTHS, reduction="none").mean(),
    }


def main() -> None:
    import torch

    arrays = inputs()
    results = {}
    for name, loss in cases(torch).items():
        tensors = {key: torch.tensor(value) for key, value in arrays.items()}
        at = tensors["sequences" if name == "ctc" else "logits"].requires_grad_()
        value = loss(tensors)
        value.backward()
        results |= {f"{name}/value": value.detach().numpy(), f"{name}/gradient": at.grad.numpy()}
    np.savez_compressed(FILE, **arrays, **results)


if __name__ == "__main__":
    main()
