"""Layers and models on graphs, and the passing of messages that they share."""
