"""A lane that is a vLLM server on the network: its address, its reply as Steps, its counts."""
