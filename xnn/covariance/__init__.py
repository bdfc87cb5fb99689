"""How the kernels of infinitely wide networks pass through layers: the value `Kernel`, and a rule for each layer."""
