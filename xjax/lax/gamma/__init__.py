"""The gamma function and its products and quotients, with logarithms to more digits than a float has."""
