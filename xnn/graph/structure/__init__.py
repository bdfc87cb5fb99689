"""Graph data structures: `Graph`, `HeteroGraph`, `Edges` and others, batches, sparse matrices and files of graphs."""
