"""Speculative Decoding Playground: see and measure speculative decoding on real models."""

__version__ = "0.1.0.dev0"
