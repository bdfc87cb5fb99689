"""Operations on the structure of graphs in NumPy, before training: transforms, splits, encodings, generators."""
