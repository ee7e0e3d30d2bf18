/* KVLoupe's methods in your program: which KVs a sparse-attention method keeps of the queries, keys and values that
   you hold. C99, no other header of the project, link with -lkvloupe.

     kvloupe_model model = {.size = sizeof model, .num_layers = 24, .num_q_heads = 16, .num_kv_heads = 4, .head_dim = 64};
     kvloupe_selector *selector;
     if (kvloupe_selector_create("quoka:budget_tokens=256", &model, 0, &selector) != KVLOUPE_OK)
       return complain(kvloupe_last_error());
     // for each chunk, for each layer, as the model computes them:
     kvloupe_chunk chunk = {.size = sizeof chunk, .layer = layer, .past = past, .q = .., .k = .., .v = ..};
     kvloupe_selector_select(selector, &chunk);
     kvloupe_selector_row(selector, row, &positions, &count);
     kvloupe_selector_destroy(selector);

   A failed call returns another number than KVLOUPE_OK, and kvloupe_last_error() says in one sentence what failed, why, and
   what to do. It changes nothing. Only where memory ran out in the middle of a chunk the selector has to be reset: the calls
   that follow say so.

   Threads: a selector may be used from any thread; calls on one wait for each other. Several selectors work side by side.
   A child that fork() makes cannot use the selectors of its parent, and is told so.

   docs/selector.md explains all of it; its words (chunk, past, budget) are those of docs/guide.md. */
#ifndef KVLOUPE_H
#define KVLOUPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header. A library serves programs that were compiled with its own number; additions leave the number as it is. */
#define KVLOUPE_ABI_VERSION 1

#if defined(__GNUC__)
#define KVLOUPE_API __attribute__((visibility("default")))
#else
#define KVLOUPE_API
#endif

/* What a call returns. */
#define KVLOUPE_OK 0
#define KVLOUPE_ERROR_INPUT 1    /* a file, the values of an array, memory, the engine */
#define KVLOUPE_ERROR_USAGE 2    /* the arguments alone are wrong: SPEC, shapes, order */
#define KVLOUPE_ERROR_INTERNAL 3 /* a defect of the library */

/* The types of number of an array. */
#define KVLOUPE_FLOAT32 0
#define KVLOUPE_FLOAT16 1
#define KVLOUPE_BFLOAT16 2

/* What a chunk is: a piece of the prompt, or tokens that the model has generated. */
#define KVLOUPE_PREFILL 0
#define KVLOUPE_DECODE 1

/* What a layer is, beside its window. */
#define KVLOUPE_LAYER_FULL 0
#define KVLOUPE_LAYER_SLIDING 1
#define KVLOUPE_LAYER_NOPE 2 /* queries and keys are not rotated */

/* What a row of a selection speaks for. */
#define KVLOUPE_ROW_KV_HEAD 0  /* all query heads of a KV head */
#define KVLOUPE_ROW_Q_HEAD 1   /* one query head */
#define KVLOUPE_ROW_SUBGROUP 2 /* some query heads of a KV head */

typedef struct kvloupe_selector kvloupe_selector;

/* The model whose attention is looked at. Set `size` to sizeof(kvloupe_model); what you leave 0 has the meaning given. */
typedef struct kvloupe_model {
  uint32_t size;
  int32_t num_layers;
  int32_t num_q_heads;
  int32_t num_kv_heads; /* divides num_q_heads */
  int32_t head_dim;
  int32_t
      rope_interleaved; /* 1: rotary pairs are neighbours; 0: a lane and the one half a head further */
  double softmax_scale; /* 0: 1/sqrt(head_dim) */
  double softcap;       /* 0: none */
  double rope_theta;    /* 0: not known; only learned gates need it */
  const int32_t*
      windows; /* [num_layers] keys that a query sees, its own included, 0: all; NULL: all in every layer */
  const float* sink_logits; /* [num_layers][num_q_heads] learned sinks; NULL: none */
  const char*
      model_hash; /* SHA-256 of the model's file, as `kvloupe info` says it, for basis=auto; NULL: not known */
  const int32_t*
      layer_types; /* [num_layers] KVLOUPE_LAYER_FULL, ..; NULL: all full. Only learned gates ask for it */
} kvloupe_model;

/* A borrowed array of three axes; strides count elements, and the last must be 1. Where the rows of a head follow each
   other (strides[1] == shape[2]), float32 keys and values are read where they lie. All else is copied for the call. */
typedef struct kvloupe_array {
  const void* data;
  int64_t shape[3];
  int64_t strides[3];
  int32_t dtype; /* KVLOUPE_FLOAT32, .. */
  int32_t reserved;
} kvloupe_array;

/* One chunk in one layer: what enters the dot product, after norms and rotary embedding, and the values as they are cached.
   m queries after `past` keys. Set `size` to sizeof(kvloupe_chunk). */
typedef struct kvloupe_chunk {
  uint32_t size;
  int32_t layer;
  int64_t past;
  int32_t phase; /* KVLOUPE_PREFILL or KVLOUPE_DECODE */
  int32_t
      ends_prefill; /* 1: the last chunk of the prompt (flash_prefill:last_full_blocks asks for it) */
  kvloupe_array q; /* [num_q_heads, m, head_dim] */
  kvloupe_array
      k; /* [num_kv_heads, past + m, head_dim], the first `past` as they were in the calls before */
  kvloupe_array v; /* likewise; data NULL where the method reads no values */
  kvloupe_array
      probe_q; /* [num_q_heads, n, head_dim], infinipot alone: queries of its probe text after this chunk */
  const float*
      novelty; /* [past + m], infinipot alone: -log P of each token, infinity for the first */
} kvloupe_chunk;

/* KVLOUPE_ABI_VERSION of the library, and the version of KVLoupe, "0.1.0". */
KVLOUPE_API uint32_t kvloupe_abi_version(void);
KVLOUPE_API const char* kvloupe_version(void);

/* Of the last call of this thread that failed: "what; why; what to do", UTF-8, until the next one fails. "" before. */
KVLOUPE_API const char* kvloupe_last_error(void);

/* What a method SPEC says, as JSON: {"id", "parameters": {name: text}, "named", "granularity", "state_action", "budget_scope",
   "dense_in_decode", "lowering", "block_size", "block_tables", "lanes", "reassigns_positions", "needs_probe", "basis"}.
   `parameters` has all of them, `named` the names that the text gives. For a block method `lowering` is "native", "union" or
   "budget", `block_size` the tokens of a block, and `block_tables` whether its rows are tables of blocks. `lanes` is "leading" or
   "strongest" for a method that leaves out channels of queries, `basis` "auto", "self" or a path for one that has a basis. What
   a method does not have is null. `json` gets at most `room` bytes, the closing NUL among them, and `length` the size of the whole
   without it; both may be NULL with room 0. */
KVLOUPE_API int kvloupe_spec_facts(const char* spec, char* json, size_t room, size_t* length);

/* A selector for a method SPEC (docs/commands.md), "quoka:budget_tokens=256". `threads` 0: all cores. The first selector of a
   process loads libkvloupe_engine.so, which takes a third of a second. */
KVLOUPE_API int kvloupe_selector_create(const char* spec, const kvloupe_model* model,
                                        int32_t threads, kvloupe_selector** selector);
/* Another selector that has seen all that this one has; what either sees from then on does not concern the other. */
KVLOUPE_API int kvloupe_selector_fork(const kvloupe_selector* selector, kvloupe_selector** copy);
/* NULL is allowed. */
KVLOUPE_API void kvloupe_selector_destroy(kvloupe_selector* selector);

/* The SPEC with all of its parameters; valid as long as the selector. */
KVLOUPE_API const char* kvloupe_selector_spec(const kvloupe_selector* selector);

/* What the queries of the chunk attend to beside the chunk itself; then kvloupe_selector_row() or _rows() gives the rows. The chunks of a
   layer come in order from position 0 on, each chunk through the layers in ascending order (all chunks of a layer before
   the next layer are as good). Layers may be left out, but not those whose sets a method reuses. */
KVLOUPE_API int kvloupe_selector_select(kvloupe_selector* selector, const kvloupe_chunk* chunk);

/* Methods that evict: the rows become what is alive in the layer after its last chunk. */
KVLOUPE_API int kvloupe_selector_alive(kvloupe_selector* selector, int32_t layer);

/* How many rows there are, what each speaks for (KVLOUPE_ROW_KV_HEAD, ..) and for how many query heads. The pointers may be
   NULL. */
KVLOUPE_API int kvloupe_selector_layout(const kvloupe_selector* selector, int32_t* row_axis,
                                        int64_t* num_rows, int64_t* q_heads_per_row);

/* The positions of a row, ascending; all candidates where the cell is dense. Valid until the next call of
   kvloupe_selector_select, _alive, _reset or _destroy on the selector. */
KVLOUPE_API int kvloupe_selector_row(const kvloupe_selector* selector, int64_t row,
                                     const int32_t** positions, int64_t* count);

/* All rows at once: row r is positions[offsets[r]] to before positions[offsets[r + 1]]. There is one more offset than rows. Valid
   as long as a row. */
KVLOUPE_API int kvloupe_selector_rows(const kvloupe_selector* selector, const int32_t** positions,
                                      const int64_t** offsets);

/* The masks of a block method. Keys stand in blocks of `block_size` from position 0 on, and queries in query blocks likewise: query
   block i of the chunk is block past / block_size + i of the text. Set `size` to sizeof(kvloupe_blocks). */
typedef struct kvloupe_blocks {
  uint32_t size;
  int32_t num_q_heads;
  int64_t block_size, past, num_query_blocks, num_key_blocks;
  const uint8_t* kept;   /* [num_q_heads][num_query_blocks][num_key_blocks] 1: kept; NULL where the
                              cell is dense, then the numbers before are 0 */
  const uint8_t* forced; /* likewise, 1: by rule */
  const uint8_t* abstains; /* [num_query_blocks] 1: without a vote in a union; NULL: all have one */
} kvloupe_blocks;

/* What the last chunk's query blocks keep, each query head its own. With lowering=native they attend to that, keys after a query
   and outside of its window left out, and a row has the past keys that some query block of the head keeps. With another lowering
   the rows are what is attended to. Valid as long as a row. */
KVLOUPE_API int kvloupe_selector_blocks(const kvloupe_selector* selector, kvloupe_blocks* blocks);

/* Why the last chunk attends to all of its candidates: "empty_past", "fits_budget" or "method_rule"; NULL where the method
   chose, and in a child that fork() made. */
KVLOUPE_API const char* kvloupe_selector_dense_reason(const kvloupe_selector* selector);

/* Forgets all chunks. The next ones begin at position `past` and count from `chunk` on, both 0 for a new text. Methods that
   evict begin at 0 alone. */
KVLOUPE_API int kvloupe_selector_reset(kvloupe_selector* selector, int64_t past, int64_t chunk);

/* The other way round: a method of your own, in a shared library, which
   `kvloupe select T.h5 --plugin LIBRARY.so:FUNCTION --budget 256` asks for each layer and each chunk that has more keys before
   it than the budget. It is linked to nothing of KVLoupe. */
typedef struct kvloupe_cell {
  uint32_t size; /* sizeof(kvloupe_cell) of the caller, which may be newer */
  int32_t layer, chunk;
  int32_t num_rows; /* num_kv_heads, or num_q_heads with --rows q_head */
  int32_t num_q_heads, num_kv_heads, head_dim, v_head_dim;
  int64_t past, m; /* keys before the chunk, and queries in it */
  const float* q;  /* [num_q_heads][m][head_dim] */
  const float* k;  /* [num_kv_heads][past][head_dim] */
  const float* v;  /* [num_kv_heads][past][v_head_dim] */
} kvloupe_cell;
/* Writes a score for each row and key, [num_rows][past]; the best are kept, NaN last. Returns 0; another number is a failure. */
typedef int kvloupe_method(const kvloupe_cell* cell, float* scores);
/* Once in a library of such functions. */
#define KVLOUPE_PLUGIN                                  \
  KVLOUPE_API extern const uint32_t kvloupe_plugin_abi; \
  const uint32_t kvloupe_plugin_abi = KVLOUPE_ABI_VERSION

#ifdef __cplusplus
}
#endif

#endif
