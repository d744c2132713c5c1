"""Into production: exports for the engines, old commands in today's words, and a lane that is a vLLM server."""
