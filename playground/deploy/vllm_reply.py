"""Moved to playground.remote.vllm_reply."""

from playground.remote.vllm_reply import read_reply as read_reply
