"""GGUF files written here, in the layout that llama.cpp's converter gives a Llama model."""

from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write_gguf(
    file: Path,
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    pre: str = "smollm",
) -> None:
    """Writes `model` with its matrices stored as `kind`, and puts the values so stored back into `model`."""
    config, weights = model.config, model.state_dict()
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)

    names = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    for layer in range(config.num_hidden_layers):
        names |= {
            f"blk.{layer}.{ours}.weight": f"model.layers.{layer}.{theirs}.weight" for ours, theirs in LAYER.items()
        }
    for name, source in names.items():
        weight = weights[source]
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(name.split(".")[-2])
        data = weight.numpy()
        if heads:  # rope pairs are neighbours there, halves apart here
            data = data.reshape(heads, 2, -1, data.shape[-1]).swapaxes(1, 2).reshape(data.shape)
        if weight.dim() == 1:
            writer.add_tensor(name, data)
            continue
        stored = quantize(np.ascontiguousarray(data), kind)
        writer.add_tensor(name, stored, raw_dtype=kind)
        seen = dequantize(stored, kind)
        if heads:
            seen = seen.reshape(heads, -1, 2, data.shape[-1]).swapaxes(1, 2).reshape(data.shape)
        weight.copy_(type(weight)(seen))

    backend = tokenizer.backend_tokenizer
    vocab = sorted(backend.get_vocab().items(), key=lambda item: item[1])
    special = set(tokenizer.all_special_ids)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([token for token, _ in vocab])
    writer.add_token_types([3 if at in special else 1 for _, at in vocab])
    writer.add_token_merges([" ".join(pair) for pair in merges_of(tokenizer)])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_chat_template(tokenizer.chat_template)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def merges_of(tokenizer: PreTrainedTokenizerFast) -> list[tuple[str, str]]:
    import json

    return [tuple(pair) for pair in json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]]
