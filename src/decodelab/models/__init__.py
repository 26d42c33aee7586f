"""Models that the real decoder runs: what a model folder holds, read and checked. What computes with it is chapter 8's."""
