"""Writes `recurrent.npz`, the results of PyTorch's recurrent modules: ``python -m tests.xnn.peers.recurrent``."""

import pathlib

import numpy as np

CASES = {
    "lstm": ("LSTM", {}),
    "lstm_stack": ("LSTM", {"num_layers": 2, "bidirectional": True}),
    "lstm_projection": ("LSTM", {"proj_size": 2}),
    "gru": ("GRU", {}),
    "gru_stack": ("GRU", {"num_layers": 2, "bidirectional": True}),
    "rnn_relu": ("RNN", {"nonlinearity": "relu", "num_layers": 2}),
}
LENGTHS = (5, 2, 3)
FILE = pathlib.Path(__file__).with_suffix(".npz")


def main() -> None:
    import torch
    from torch.nn.utils import rnn

    torch.manual_seed(0)
    arrays = {}
    for name, (kind, options) in CASES.items():
        module = getattr(torch.nn, kind)(3, 4, batch_first=True, **options)
        x = torch.randn(len(LENGTHS), max(LENGTHS), 3, requires_grad=True)
        packed = rnn.pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
        y, carry = module(packed)
        y, _ = rnn.pad_packed_sequence(y, batch_first=True)
        torch.sin(y).sum().backward()
        arrays |= {f"{name}/x": x, f"{name}/y": y, f"{name}/dx": x.grad}
        for i, last in enumerate(carry if isinstance(carry, tuple) else (carry,)):
            arrays[f"{name}/carry_{i}"] = last
        for weight, value in module.named_parameters():
            arrays |= {f"{name}/{weight}": value, f"{name}/d_{weight}": value.grad}
    np.savez_compressed(FILE, **{name: value.detach().numpy() for name, value in arrays.items()})


if __name__ == "__main__":
    main()
