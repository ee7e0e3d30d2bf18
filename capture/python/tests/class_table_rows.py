"""The rows of class_table.py."""
import peft
import torch
import transformers

from .class_table import HALF_TOLERANCE, RIGHT, Row, eager
from .class_table_models import CONFIGS, tokens

PADS = 4


def forward(model, ids):
    model(ids)


def generating(**options):
    def run(model, ids):
        torch.manual_seed(0)
        given = dict(attention_mask=torch.ones_like(ids), max_new_tokens=5, do_sample=False, eos_token_id=None, pad_token_id=0)
        model.generate(ids, **{**given, **options})
    return run


def in_chunks(make_cache, *ends):
    def run(model, ids):
        cache = make_cache(model)
        for begin, end in zip((0, *ends), (*ends, ids.shape[1])):
            model(ids[:, begin:end], past_key_values=cache)
    return run


def dynamic(model):
    return transformers.DynamicCache(config=model.config)


# --- classes ---------------------------------------------------------------------------------------------------------------

NO_INTERFACE = "does not use transformers' attention interface; record a language model of a decoder alone"
# Class -> words of its refusal, and the layers that are recorded where the refusal names some.
REFUSED = {
    "DiffLlamaForCausalLM": "layer 0 attends twice in one forward", "DogeForCausalLM": "adds numbers to the logits",
    "DeepseekV32ForCausalLM": "no model that chooses its keys itself",
    "Llama4ForCausalLM": "hides token 0 from token 8; record the layers of which this is not so, as layers=[3]",
    "JambaForCausalLM": "JambaMambaMixer does not use transformers' attention interface; record the layers that have one, as layers=[1, 3]",
    "RecurrentGemmaForCausalLM": "has no attention that is known; record the layers that have one, as layers=[2]",
    "Zamba2ForCausalLM": NO_INTERFACE, "Mamba2ForCausalLM": NO_INTERFACE, "BloomForCausalLM": NO_INTERFACE,
    "FalconForCausalLM": NO_INTERFACE, "GPTJForCausalLM": NO_INTERFACE, "MptForCausalLM": NO_INTERFACE,
    "CodeGenForCausalLM": NO_INTERFACE, "GPTNeoForCausalLM": "has no attention that is known; record a language model of a decoder",
    "T5ForConditionalGeneration": "has an encoder; record a language model of a decoder alone",
    "BartForConditionalGeneration": "has an encoder; record a language model of a decoder alone",
}
_LAYER_1 = "does not use transformers' attention interface; record the layers that have one, as layers=[1]"
REFUSED.update({f"{name}ForCausalLM": _LAYER_1
                for name in ("Bamba", "GraniteMoeHybrid", "Qwen3Next", "Lfm2", "MiniMax", "NemotronH")})
CLASSES = [Row(name, "one forward", REFUSED.get(name, RIGHT), forward) for name in CONFIGS]
# What those refusals advise.
SUITED = {"Llama4ForCausalLM": [3], "JambaForCausalLM": [1, 3], "RecurrentGemmaForCausalLM": [2]}
SUITED.update({name: [1] for name, words in REFUSED.items() if words == _LAYER_1})
ADVISED = [Row(name, f"layers={layers}", RIGHT, forward, options=dict(layers=layers)) for name, layers in SUITED.items()]
# Caches of other kinds: windows, latents, recurrent states; and keys that are no GQA.
GENERATED = [Row(name, "generate", RIGHT, generating(), options=dict(layers=SUITED.get(name)))
             for name in ("MistralForCausalLM", "Gemma2ForCausalLM", "GptOssForCausalLM", "GPT2LMHeadModel", "GPTBigCodeForCausalLM",
                          "DeepseekV3ForCausalLM", "JambaForCausalLM", "Qwen3NextForCausalLM", "FalconH1ForCausalLM",
                          "OPTForCausalLM", "Exaone4ForCausalLM")]


# --- ways of calling -------------------------------------------------------------------------------------------------------

def way(name, run, expected=RIGHT, model="LlamaForCausalLM", **more):
    return Row(model, name, expected, run, **more)


def padded_batch(ids):
    row = torch.cat([torch.zeros(1, PADS, dtype=ids.dtype), ids], 1)
    mask = torch.ones_like(row)
    mask[:, :PADS] = 0
    return torch.cat([row.flip(1), row]), torch.cat([torch.ones_like(mask), mask])


def left_padded(model, ids):
    batch, mask = padded_batch(ids)
    model(batch, attention_mask=mask)


def generating_left_padded(model, ids):
    batch, mask = padded_batch(ids)
    generating(attention_mask=mask)(model, batch)


def padded_reference(model, ids):
    """Attention of the row as it stood in the batch."""
    batch, mask = padded_batch(ids)
    with eager(model), torch.no_grad():
        given = model(batch, attention_mask=mask, output_attentions=True).attentions
    return {layer: one[1, :, PADS:, PADS:].numpy() for layer, one in enumerate(given)}


def batched(model, ids):
    model(torch.cat([ids.flip(1), ids]))


def by_position(model, ids):
    cache = dynamic(model)
    for begin, end in ((0, 13), (13, 14), (14, ids.shape[1])):
        model(ids[:, begin:end], None, None, cache)


def filled_before(model, ids):
    cache = dynamic(model)
    cache.update(torch.zeros(1, 2, 5, 8), torch.zeros(1, 2, 5, 8), 0)
    model(ids[:, 5:], None, None, cache)


def packed(model, ids):
    positions = torch.cat([torch.arange(10), torch.arange(ids.shape[1] - 10)])[None]
    model(ids, position_ids=positions, use_cache=False)


def training(model, ids):
    model.train()
    with torch.enable_grad():
        model(ids, labels=ids).loss.backward()


def checkpointed(model, ids):
    model.gradient_checkpointing_enable()
    model.train()
    with torch.enable_grad():
        model(ids, labels=ids, use_cache=False)


def checkpointed_and_back(model, ids):
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    with torch.enable_grad():
        model(ids, labels=ids, use_cache=False).loss.backward()


WAYS = [
    way("SDPA", forward, attention="sdpa"),
    way("flex_attention", forward, attention="flex_attention"),
    way("flex_attention, generate", generating(), attention="flex_attention", model="Qwen2ForCausalLM"),
    way("generate, greedy", generating()), way("generate, SDPA", generating(), attention="sdpa"),
    way("generate, sampling", generating(do_sample=True, temperature=2.0)),
    way("generate, three returned", generating(do_sample=True, num_return_sequences=3), options=dict(batch_index=2)),
    way("generate, beams", generating(num_beams=4, max_new_tokens=12), "does not hold the sequence that was recorded"),
    way("generate, prompt lookup", generating(prompt_lookup_num_tokens=3, max_new_tokens=12), "cache was cropped"),
    way("generate, static cache", generating(cache_implementation="static")),
    way("generate, static cache with windows", generating(cache_implementation="static"), model="Gemma3ForCausalLM"),
    way("generate, static cache, SDPA", generating(cache_implementation="static"), attention="sdpa", model="Gemma3ForCausalLM"),
    way("generate, prefill in chunks", generating(prefill_chunk_size=7)),
    way("generate, use_cache=False", generating(use_cache=False), "allow the cache (use_cache=True)"),
    way("generate, use_cache=False for one token", generating(use_cache=False, max_new_tokens=1)),
    way("one forward, use_cache=False", lambda model, ids: model(ids, use_cache=False)),
    way("one forward, output_attentions", lambda model, ids: model(ids, output_attentions=True)),
    way("chunks of one's own", in_chunks(dynamic, 7, 16, 17, 18)),
    way("chunks of one's own, windows", in_chunks(dynamic, 7, 20, 21, 22), model="MistralForCausalLM"),
    way("chunks of one's own, SDPA, windows", in_chunks(dynamic, 7, 20, 21, 22), model="MistralForCausalLM", attention="sdpa"),
    way("chunks of one's own, latent keys", in_chunks(dynamic, 7, 16, 17), model="DeepseekV2ForCausalLM"),
    way("chunks in a static cache", in_chunks(lambda model: transformers.StaticCache(model.config, max_cache_len=40), 7, 16, 17)),
    way("chunks in a cache without configuration", in_chunks(lambda model: transformers.DynamicCache(), 7, 16)),
    way("chunks in a quantised cache", in_chunks(lambda model: transformers.QuantizedCache("fp8", config=model.config), 7, 16),
        "with a cache that keeps its values"),
    way("one forward into a quantised cache", in_chunks(lambda model: transformers.QuantizedCache("fp8", config=model.config))),
    way("the cache by position", by_position),
    way("a cache filled before, by position", filled_before, "the cache has 5 tokens of which 0 were recorded"),
    way("a row of a batch", batched, options=dict(batch_index=1)),
    way("left padding", left_padded, options=dict(batch_index=1), reference=padded_reference),
    way("left padding, SDPA, generate", generating_left_padded, options=dict(batch_index=1), reference=padded_reference,
        attention="sdpa"),
    way("left padding, learned positions", left_padded, options=dict(batch_index=1), reference=padded_reference,
        model="OPTForCausalLM"),
    way("packed by position_ids", packed, "hides token 0 from token 10"),
    way("the decoder alone", lambda model, ids: model.model(ids)),
    way("embeddings", lambda model, ids: model(inputs_embeds=model.get_input_embeddings()(ids)), "pass token ids"),
    way("training, a backward pass", training),
    way("training, dropout", training, "drops probabilities at random", changes=dict(attention_dropout=0.5)),
    way("training, checkpoints", checkpointed),
    way("training, checkpoints, backward inside", checkpointed_and_back, "backward() of checkpointed layers after it"),
    way("inference_mode", torch.inference_mode()(forward)),
    way("bfloat16", forward, prepare=lambda model: model.bfloat16(), tolerance=HALF_TOLERANCE),
    way("float16, SDPA", forward, prepare=lambda model: model.half(), tolerance=HALF_TOLERANCE, attention="sdpa"),
    way("bfloat16, generate", generating(), prepare=lambda model: model.bfloat16(), tolerance=HALF_TOLERANCE),
    way("two layers of three", forward, options=dict(layers=[0, 2]), changes=dict(num_hidden_layers=3)),
    way("scaled by layer", forward, "as layers=[0]", model="GPT2LMHeadModel", changes=dict(scale_attn_by_inverse_layer_idx=True)),
]


# --- compiled --------------------------------------------------------------------------------------------------------------

def compiled_layers(model):
    for layer in model.model.layers:
        layer.compile(backend="eager")
    return model


def compiled_in_place(model):
    model.compile(backend="eager")
    return model


def compiled_forward(model):
    model.forward = torch.compile(model.forward, backend="eager")
    return model


def run_before(prepare):
    def prepared(model):
        model = prepare(model)
        with torch.no_grad():
            model(tokens())
        return model
    return prepared


def compiled_generate(model, ids):
    compiled = transformers.CompileConfig(backend="eager", mode=None)
    compiled._compile_all_devices = True  # As on CUDA.
    generating(cache_implementation="static", compile_config=compiled)(model, ids)


def forced_eager(model, ids):
    with torch.compiler.set_stance("force_eager"):
        model(ids)


def _compiled(backend="eager", **more):
    return lambda model: torch.compile(model, backend=backend, **more)


COMPILED = [
    way("torch.compile(model)", forward, given=_compiled(), attention="sdpa"),
    way("torch.compile(model), eager attention", forward, given=_compiled()),
    way("torch.compile(model), inductor", forward, given=_compiled("inductor"), attention="sdpa"),
    way("torch.compile(model), run before", forward, given=run_before(_compiled("aot_eager"))),
    way("torch.compile(model), chunks", in_chunks(dynamic, 13, 14), given=_compiled()),
    way("torch.compile(model), packed", packed, "hides token 0 from token 10", given=_compiled()),
    way("model.compile()", forward, given=compiled_in_place),
    way("model.compile(), run before", forward, given=run_before(compiled_in_place), attention="sdpa"),
    way("model.forward = torch.compile(..)", forward, given=compiled_forward),
    way("compiled layers", forward, given=compiled_layers),
    way("compiled layers, run before", forward, given=run_before(compiled_layers)),
    way("generate, static cache, compiled", compiled_generate),
    way("fullgraph=True", forward, 'or record under torch.compiler.set_stance("force_eager")', given=_compiled(fullgraph=True)),
    way("fullgraph=True, run before", forward, 'set_stance("force_eager")', given=run_before(_compiled(fullgraph=True))),
    way("fullgraph=True under force_eager", forced_eager, given=run_before(_compiled(fullgraph=True))),
]


# --- adapters --------------------------------------------------------------------------------------------------------------

def with_lora(model, **more):
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False, **more)
    return peft.get_peft_model(model, config)


def with_two(model):
    adapted = with_lora(model)
    adapted.add_adapter("other", peft.LoraConfig(r=3, target_modules=["k_proj"], init_lora_weights=False))
    adapted.base_model.set_adapter(["default", "other"])
    return adapted


def merged(model):
    adapted = with_lora(model)
    adapted.merge_adapter()
    return adapted


def with_prompt(kind, **more):
    return lambda model: peft.get_peft_model(model, kind(task_type="CAUSAL_LM", num_virtual_tokens=4, **more))


def with_ia3(model):
    config = peft.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"], init_ia3_weights=False)
    return peft.get_peft_model(model, config)


ADAPTED = [
    way("LoRA", forward, given=with_lora),
    way("LoRA, generate", generating(), given=lambda model: with_lora(model, task_type="CAUSAL_LM")),
    way("LoRA, the cache by position", by_position, given=with_lora),
    way("LoRA, its base is given", forward, given=lambda model: with_lora(model).get_base_model()),
    way("LoRA, two adapters", forward, given=with_two), way("LoRA, merged", forward, given=merged),
    way("IA3", forward, given=with_ia3),
    way("LoRA, compiled", forward, given=lambda model: torch.compile(with_lora(model), backend="eager")),
    way("prefix tuning", forward, "record the model without it: model.get_base_model()", given=with_prompt(peft.PrefixTuningConfig)),
    way("prompt tuning", forward, "record the model without it: model.get_base_model()", given=with_prompt(peft.PromptTuningConfig)),
]


# --- images ----------------------------------------------------------------------------------------------------------------

def with_images(model, ids):
    ids = ids.clone()
    ids[0, 3:7] = 60
    model(input_ids=ids, **pixels(model, ids))


def pixels(model, ids):
    torch.manual_seed(0)
    if "Qwen2VL" in type(model).__name__:
        return dict(pixel_values=torch.randn(16, 96), image_grid_thw=torch.tensor([[1, 4, 4]]), mm_token_type_ids=(ids == 60).int())
    if "Gemma3" in type(model).__name__:
        return dict(pixel_values=torch.randn(1, 3, 8, 8), token_type_ids=(ids == 60).int())
    return dict(pixel_values=torch.randn(1, 3, 8, 8))


def image_reference(model, ids):
    with eager(model), torch.no_grad():
        given = model(input_ids=ids, output_attentions=True, **pixels(model, ids)).attentions
    return {layer: one[0].numpy() for layer, one in enumerate(given)}


IMAGES = [
    way("an image", with_images, model="LlavaForConditionalGeneration", reference=image_reference),
    way("an image", with_images, model="Qwen2VLForConditionalGeneration", reference=image_reference),
    way("an image that sees itself", with_images, "no images that see each other", model="Gemma3ForConditionalGeneration"),
    way("generate", generating(), model="LlavaForConditionalGeneration"),
]

ROWS = CLASSES + ADVISED + GENERATED + WAYS + COMPILED + ADAPTED + IMAGES
