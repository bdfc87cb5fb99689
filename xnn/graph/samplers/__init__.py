"""Sampling of a part of a large graph for each training step: neighbours, subgraphs, partitions, random walks."""
