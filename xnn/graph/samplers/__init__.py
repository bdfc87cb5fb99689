"""Parts of a large graph for each step: sampled neighbours, subgraphs, partitions, walks."""
