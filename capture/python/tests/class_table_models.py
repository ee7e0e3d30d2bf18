"""The tiny models of class_table.py, by the name of their class."""
import torch
import transformers

_TINY = dict(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2, initializer_range=0.2)
_MOE = dict(num_local_experts=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
_MLA = dict(_MOE, num_key_value_heads=4, q_lora_rank=8, kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
            n_routed_experts=4, n_shared_experts=1, n_group=1, topk_group=1, first_k_dense_replace=1)
_GPT2 = dict(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=128, bos_token_id=1, eos_token_id=2, initializer_range=0.2)
_VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4)

# Class -> what its configuration has beside _TINY; `only` takes nothing of that.
CONFIGS = {
    "LlamaForCausalLM": {}, "MistralForCausalLM": dict(sliding_window=12), "MixtralForCausalLM": _MOE,
    "Qwen2ForCausalLM": {}, "Qwen2MoeForCausalLM": dict(_MOE, shared_expert_intermediate_size=16, decoder_sparse_step=1),
    "Qwen3ForCausalLM": dict(head_dim=8), "Qwen3MoeForCausalLM": dict(_MOE, head_dim=8),
    "GemmaForCausalLM": dict(head_dim=8), "Gemma2ForCausalLM": dict(head_dim=8, sliding_window=12, attn_logit_softcapping=5.0),
    "Gemma3ForCausalLM": dict(head_dim=8, sliding_window=12, layer_types=["sliding_attention", "full_attention"]),
    "PhiForCausalLM": dict(num_key_value_heads=4), "Phi3ForCausalLM": {}, "GPT2LMHeadModel": dict(_GPT2, only=True),
    "GPTNeoXForCausalLM": {}, "GPTBigCodeForCausalLM": dict(_GPT2, only=True), "OPTForCausalLM": dict(ffn_dim=32, word_embed_proj_dim=32),
    "StableLmForCausalLM": {}, "Starcoder2ForCausalLM": dict(sliding_window=None), "OlmoForCausalLM": {}, "Olmo2ForCausalLM": {},
    "OlmoeForCausalLM": _MOE, "CohereForCausalLM": {},
    "Cohere2ForCausalLM": dict(sliding_window=12, layer_types=["sliding_attention", "full_attention"]),
    "GraniteForCausalLM": dict(attention_multiplier=0.3), "GraniteMoeForCausalLM": _MOE, "GlmForCausalLM": dict(head_dim=8),
    "Glm4ForCausalLM": dict(head_dim=8), "SmolLM3ForCausalLM": {}, "PersimmonForCausalLM": dict(num_key_value_heads=4),
    "NemotronForCausalLM": dict(head_dim=8), "Ernie4_5ForCausalLM": dict(head_dim=8), "HeliumForCausalLM": dict(head_dim=8),
    "BitNetForCausalLM": {}, "ApertusForCausalLM": {}, "ArceeForCausalLM": {}, "SeedOssForCausalLM": dict(head_dim=8),
    "Exaone4ForCausalLM": dict(sliding_window=12, layer_types=["sliding_attention", "full_attention"]),
    "HunYuanDenseV1ForCausalLM": dict(head_dim=8), "BioGptForCausalLM": {},
    "GptOssForCausalLM": dict(_MOE, head_dim=8, sliding_window=12, layer_types=["sliding_attention", "full_attention"]),
    "DeepseekV2ForCausalLM": _MLA, "DeepseekV3ForCausalLM": _MLA,
    "DeepseekV3Wide": dict(_MLA, v_head_dim=16),
    "DeepseekV32ForCausalLM": dict(_MLA, index_topk=6, index_head_dim=8, index_n_heads=2),
    "DiffLlamaForCausalLM": {}, "DogeForCausalLM": {}, "CTRLLMHeadModel": dict(_GPT2, dff=32, only=True),
    "Llama4ForCausalLM": dict(_MOE, head_dim=8, intermediate_size_mlp=32, num_hidden_layers=4, attention_chunk_size=8,
                              moe_layers=[1], attn_temperature_tuning=False),
    "JambaForCausalLM": dict(_MOE, num_hidden_layers=4, attn_layer_period=2, attn_layer_offset=1, use_mamba_kernels=False,
                             mamba_d_state=4, mamba_dt_rank=4),
    "BambaForCausalLM": dict(attn_layer_indices=[1], mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8, mamba_chunk_size=8),
    "GraniteMoeHybridForCausalLM": dict(_MOE, layer_types=["mamba", "attention"], mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8,
                                        mamba_chunk_size=8, shared_intermediate_size=16),
    "FalconH1ForCausalLM": dict(mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8, mamba_chunk_size=8),
    "Qwen3NextForCausalLM": dict(_MOE, head_dim=8, layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2,
                                 linear_num_value_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
                                 shared_expert_intermediate_size=16),
    "Lfm2ForCausalLM": dict(layer_types=["conv", "full_attention"], block_ff_dim=32),
    "RecurrentGemmaForCausalLM": dict(num_hidden_layers=3, head_dim=8, attention_window_size=12, lru_width=32),
    "Zamba2ForCausalLM": dict(num_hidden_layers=2, layers_block_type=["mamba", "hybrid"], mamba_d_state=8, mamba_headdim=16,
                              n_mamba_heads=4, mamba_ngroups=1, chunk_size=8, num_mem_blocks=1, use_mem_rope=True),
    "MiniMaxForCausalLM": dict(_MOE, head_dim=8, block_size=8, layer_types=["linear_attention", "full_attention"]),
    "NemotronHForCausalLM": dict(hybrid_override_pattern="M*", head_dim=8, mamba_num_heads=4, mamba_head_dim=8, ssm_state_size=8,
                                 n_groups=1, chunk_size=8),
    "Mamba2ForCausalLM": dict(num_heads=4, head_dim=16, state_size=8, n_groups=1, chunk_size=8),
    "BloomForCausalLM": dict(n_layer=2, n_head=4), "FalconForCausalLM": {}, "GPTJForCausalLM": dict(_GPT2, rotary_dim=4, only=True),
    "GPTNeoForCausalLM": dict(num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=12),
    "MptForCausalLM": dict(d_model=32, n_heads=4, n_layers=2, max_seq_len=128, vocab_size=64, only=True),
    "CodeGenForCausalLM": dict(_GPT2, n_head=8, n_embd=64, rotary_dim=4, only=True),
    "T5ForConditionalGeneration": dict(vocab_size=64, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2,
                                       decoder_start_token_id=0, only=True),
    "BartForConditionalGeneration": dict(d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                                         decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, vocab_size=64, only=True),
    "BertLMHeadModel": dict(is_decoder=True),
    "LlavaForConditionalGeneration": dict(
        only=True, image_token_index=60, vision_feature_layer=-1, vision_config=dict(_VISION, model_type="clip_vision_model"),
        text_config=dict(_TINY, model_type="llama")),
    "Gemma3ForConditionalGeneration": dict(
        only=True, image_token_index=60, mm_tokens_per_image=4, boi_token_index=61, eoi_token_index=62,
        vision_config=dict(_VISION, model_type="siglip_vision_model"),
        text_config=dict(_TINY, model_type="gemma3_text", head_dim=8, sliding_window=12,
                         layer_types=["sliding_attention", "full_attention"])),
    "Qwen2VLForConditionalGeneration": dict(
        only=True, image_token_id=60, video_token_id=61, vision_start_token_id=62, vision_end_token_id=63,
        vision_config=dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2, mlp_ratio=1, patch_size=4, in_channels=3),
        text_config=dict(_TINY, model_type="qwen2_vl_text",
                         rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[1, 1, 2]))),
}


def build(name, attention="eager", changes=None):
    described = dict(CONFIGS[name], **(changes or {}))
    cls = getattr(transformers, "DeepseekV3ForCausalLM" if name == "DeepseekV3Wide" else name)
    given = described if described.pop("only", False) else {**_TINY, **described}
    torch.manual_seed(0)
    model = cls._from_config(cls.config_class(**given), attn_implementation=attention)
    with torch.no_grad():
        for parameter in model.parameters():
            if not bool(torch.isfinite(parameter).all()):
                parameter.zero_()
    return model.float().eval()


def tokens(count=30):
    return torch.randint(3, 60, (1, count), generator=torch.Generator().manual_seed(1))
