"""The simulated world: hardware in numbers, and an executor that computes time in place of tensors."""
