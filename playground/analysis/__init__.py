"""What runs say when they are compared: divergence, costs, benchmarks."""
