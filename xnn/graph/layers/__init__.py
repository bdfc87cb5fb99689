"""Layers and models on graphs, and the message passing that they share."""
