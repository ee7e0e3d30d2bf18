/* kvloupe.h in C, on arrays made by hand: what is kept, how another layout gives the same, and what is refused. */
#define _GNU_SOURCE
#include "core/c_api/kvloupe.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kQHeads = 4, kKvHeads = 2, kDim = 8, kTokens = 64, kChunk = 16, kLayers = 3 };

static int failures = 0;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      failures++;                                                     \
    }                                                                 \
  } while (0)

/* What a refusal must be: its code, one sentence in three parts, and these words in it. */
static void check_refused(int code, int expected, const char *words, int line) {
  const char *said = kvloupe_last_error();
  const char *first = strstr(said, "; ");
  if (code != expected || strstr(said, words) == NULL || first == NULL || strstr(first + 2, "; ") == NULL || strchr(said, '\n') != NULL) {
    fprintf(stderr, "line %d: code %d, expected %d and '%s', said '%s'\n", line, code, expected, words, said);
    failures++;
  }
}
#define REFUSED(call, expected, words) check_refused(call, expected, words, __LINE__)

static float q[kQHeads][kTokens][kDim], k[kKvHeads][kTokens][kDim], v[kKvHeads][kTokens][kDim];

/* Every query asks along lane 0. Keys 5 and 21 + head answer it most, the others a little less the later they come. */
static void fill(void) {
  for (int h = 0; h < kQHeads; h++)
    for (int t = 0; t < kTokens; t++)
      for (int i = 0; i < kDim; i++) q[h][t][i] = i == 0 ? 1.0F : 0.0F;
  for (int g = 0; g < kKvHeads; g++)
    for (int t = 0; t < kTokens; t++)
      for (int i = 0; i < kDim; i++) {
        k[g][t][i] = i == 0 ? -0.01F * (float)t : 0.5F;
        v[g][t][i] = (float)(t + i);
        if (i == 0 && (t == 5 || t == 21 + g)) k[g][t][i] = 9.0F;
      }
}

static kvloupe_model model_of(void) {
  kvloupe_model model = {.size = sizeof model, .num_layers = kLayers, .num_q_heads = kQHeads, .num_kv_heads = kKvHeads, .head_dim = kDim};
  return model;
}

static kvloupe_array array_of(const void *data, int heads, int tokens, int32_t dtype) {
  kvloupe_array array = {.data = data, .shape = {heads, tokens, kDim}, .strides = {(int64_t)kTokens * kDim, kDim, 1}, .dtype = dtype};
  return array;
}

static kvloupe_chunk chunk_of(int layer, int past, int length) {
  kvloupe_chunk chunk = {.size = sizeof chunk, .layer = layer, .past = past, .phase = KVLOUPE_PREFILL};
  chunk.q = array_of(&q[0][past][0], kQHeads, length, KVLOUPE_FLOAT32);
  chunk.k = array_of(k, kKvHeads, past + length, KVLOUPE_FLOAT32);
  chunk.v = array_of(v, kKvHeads, past + length, KVLOUPE_FLOAT32);
  return chunk;
}

static kvloupe_selector *make(const char *spec) {
  const kvloupe_model model = model_of();
  kvloupe_selector *selector = NULL;
  if (kvloupe_selector_create(spec, &model, 1, &selector) != KVLOUPE_OK) {
    fprintf(stderr, "%s: %s\n", spec, kvloupe_last_error());
    exit(1);
  }
  return selector;
}

static int row_is(const kvloupe_selector *selector, int row, int count, const int32_t *expected) {
  const int32_t *positions = NULL;
  int64_t found = -1;
  if (kvloupe_selector_row(selector, row, &positions, &found) != KVLOUPE_OK) return 0;
  const int32_t *all = NULL;
  const int64_t *offsets = NULL;
  if (kvloupe_selector_rows(selector, &all, &offsets) != KVLOUPE_OK) return 0;
  if (offsets[0] != 0 || offsets[row + 1] - offsets[row] != count || (count > 0 && all + offsets[row] != positions)) return 0;
  return found == count && (count == 0 || memcmp(positions, expected, (size_t)count * sizeof *expected) == 0);
}

static void keeps_the_keys_that_answer(void) {
  kvloupe_selector *selector = make("oracle:budget_tokens=2");
  CHECK(strcmp(kvloupe_selector_spec(selector), "oracle:budget_tokens=2,budget_ratio=0,budget_scope=past,skip_layers=0,reduce=sum") == 0);
  int32_t axis = -1;
  int64_t rows = 0, heads = 0;
  CHECK(kvloupe_selector_layout(selector, &axis, &rows, &heads) == KVLOUPE_OK);
  CHECK(axis == KVLOUPE_ROW_KV_HEAD && rows == kKvHeads && heads == kQHeads / kKvHeads);
  CHECK(kvloupe_selector_layout(selector, NULL, NULL, NULL) == KVLOUPE_OK);
  for (int past = 0; past < kTokens; past += kChunk)
    for (int layer = 0; layer < kLayers; layer++) {
      const kvloupe_chunk chunk = chunk_of(layer, past, kChunk);
      CHECK(kvloupe_selector_select(selector, &chunk) == KVLOUPE_OK);
      const char *reason = kvloupe_selector_dense_reason(selector);
      CHECK(past == 0 ? reason != NULL && strcmp(reason, "empty_past") == 0 : reason == NULL);
      for (int g = 0; g < kKvHeads; g++) {
        const int32_t early[] = {0, 5}, late[] = {5, 21 + g};
        if (past == 0) CHECK(row_is(selector, g, 0, NULL));
        else CHECK(row_is(selector, g, 2, past == kChunk ? early : late));
      }
    }
  kvloupe_selector_destroy(selector);
}

static void says_what_a_spec_says(void) {
  char json[2048] = "";
  size_t length = 0;
  CHECK(kvloupe_spec_facts("snapkv:budget_tokens=7", json, sizeof json, &length) == KVLOUPE_OK);
  CHECK(strlen(json) == length && json[0] == '{');
  CHECK(strstr(json, "\"id\":\"snapkv\"") != NULL && strstr(json, "\"budget_tokens\":\"7\"") != NULL);
  CHECK(strstr(json, "\"named\":[\"budget_tokens\"]") != NULL && strstr(json, "\"state_action\":\"eviction\"") != NULL);
  size_t again = 0;
  CHECK(kvloupe_spec_facts("snapkv:budget_tokens=7", NULL, 0, &again) == KVLOUPE_OK && again == length);
  CHECK(kvloupe_spec_facts("snapkv:budget_tokens=7", json, 5, NULL) == KVLOUPE_OK && strlen(json) == 4);
  REFUSED(kvloupe_spec_facts("quokka", json, sizeof json, NULL), KVLOUPE_ERROR_USAGE, "'quokka' is not a method");
  REFUSED(kvloupe_spec_facts(NULL, json, sizeof json, NULL), KVLOUPE_ERROR_USAGE, "a pointer is NULL");
}

static void refuses_a_type_of_layer_that_is_none(void) {
  const int32_t types[kLayers] = {KVLOUPE_LAYER_FULL, KVLOUPE_LAYER_NOPE, 3};
  kvloupe_model model = model_of();
  model.layer_types = types;
  kvloupe_selector *selector = NULL;
  REFUSED(kvloupe_selector_create("oracle", &model, 1, &selector), KVLOUPE_ERROR_USAGE, "the type of layer 2 is 3");
  /* A caller that knows no such member: what lies behind its struct is not read. */
  model.size = offsetof(kvloupe_model, layer_types);
  CHECK(kvloupe_selector_create("oracle", &model, 1, &selector) == KVLOUPE_OK);
  kvloupe_selector_destroy(selector);
}

static void evicts_and_says_what_is_alive(void) {
  kvloupe_selector *selector = make("streaming_llm:budget_tokens=6,sink_tokens=2");
  const int32_t first[] = {0, 1, 12, 13, 14, 15}, second[] = {0, 1, 28, 29, 30, 31};
  kvloupe_chunk chunk = chunk_of(0, 0, kChunk);
  CHECK(kvloupe_selector_select(selector, &chunk) == KVLOUPE_OK);
  chunk = chunk_of(0, kChunk, kChunk);
  CHECK(kvloupe_selector_select(selector, &chunk) == KVLOUPE_OK);
  CHECK(row_is(selector, 1, 6, first));
  kvloupe_selector *copy = NULL;
  CHECK(kvloupe_selector_fork(selector, &copy) == KVLOUPE_OK);
  CHECK(kvloupe_selector_reset(copy, 0, 0) == KVLOUPE_OK);
  kvloupe_selector_destroy(copy);
  REFUSED(kvloupe_selector_fork(selector, NULL), KVLOUPE_ERROR_USAGE, "a pointer is NULL");
  CHECK(kvloupe_selector_alive(selector, 0) == KVLOUPE_OK);
  CHECK(row_is(selector, 1, 6, second));
  REFUSED(kvloupe_selector_alive(selector, 1), KVLOUPE_ERROR_USAGE, "nothing is alive in layer 1");
  REFUSED(kvloupe_selector_reset(selector, kChunk, 1), KVLOUPE_ERROR_USAGE, "cannot begin at position 16");
  CHECK(kvloupe_selector_reset(selector, 0, 0) == KVLOUPE_OK);
  chunk = chunk_of(0, 0, kChunk);
  CHECK(kvloupe_selector_select(selector, &chunk) == KVLOUPE_OK);
  CHECK(row_is(selector, 0, 0, NULL));
  kvloupe_selector_destroy(selector);
}

/* The same numbers in bfloat16 (all of them are exact in it), token by token instead of head by head. */
/* Block 0 holds key 5 and has the largest mean; with alpha=1 nothing beside it is kept but the query block itself. */
static void says_which_blocks_each_query_block_keeps(void) {
  kvloupe_selector *selector = make("flash_prefill:block_size=8,sink_blocks=1,window_blocks=1,alpha=1");
  kvloupe_blocks blocks = {.size = sizeof blocks};
  REFUSED(kvloupe_selector_blocks(selector, &blocks), KVLOUPE_ERROR_USAGE, "no chunk was selected for");
  for (int past = 0; past < kTokens; past += kChunk) {
    const kvloupe_chunk chunk = chunk_of(0, past, kChunk);
    CHECK(kvloupe_selector_select(selector, &chunk) == KVLOUPE_OK);
    blocks.num_key_blocks = 77;
    CHECK(kvloupe_selector_blocks(selector, &blocks) == KVLOUPE_OK);
    CHECK(past == 0 ? blocks.kept == NULL && blocks.forced == NULL && blocks.num_key_blocks == 0 : blocks.kept != NULL);
  }
  CHECK(blocks.size == sizeof blocks && blocks.block_size == 8 && blocks.past == 48 && blocks.num_q_heads == kQHeads);
  CHECK(blocks.num_query_blocks == 2 && blocks.num_key_blocks == 8 && blocks.abstains == NULL);
  for (int row = 0; row < 2 * kQHeads; row++)
    for (int key = 0; key < 8; key++) {
      const int own = 6 + row % 2;
      CHECK(blocks.kept[row * 8 + key] == (key == 0 || key == own));
      CHECK(blocks.forced[row * 8 + key] <= blocks.kept[row * 8 + key]);
    }
  const int32_t first[] = {0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(row_is(selector, kQHeads - 1, 8, first));
  blocks.size = 8;
  REFUSED(kvloupe_selector_blocks(selector, &blocks), KVLOUPE_ERROR_USAGE, "not that of kvloupe_blocks");
  REFUSED(kvloupe_selector_blocks(selector, NULL), KVLOUPE_ERROR_USAGE, "is NULL");
  REFUSED(kvloupe_selector_blocks(NULL, &blocks), KVLOUPE_ERROR_USAGE, "its selector is NULL");
  kvloupe_selector_destroy(selector);
  selector = make("oracle:budget_tokens=2");
  blocks.size = sizeof blocks;
  REFUSED(kvloupe_selector_blocks(selector, &blocks), KVLOUPE_ERROR_USAGE, "oracle has no blocks");
  kvloupe_selector_destroy(selector);
}

static void other_layouts_give_the_same(void) {
  static uint16_t tokens[kTokens][kKvHeads][kDim];
  for (int t = 0; t < kTokens; t++)
    for (int g = 0; g < kKvHeads; g++)
      for (int i = 0; i < kDim; i++) {
        const float value = i == 0 && (t == 5 || t == 21 + g) ? 9.0F : 0.5F;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        tokens[t][g][i] = (uint16_t)(bits >> 16);
      }
  kvloupe_selector *selector = make("oracle:budget_tokens=2");
  CHECK(kvloupe_selector_reset(selector, 2 * kChunk, 2) == KVLOUPE_OK);
  kvloupe_chunk chunk = chunk_of(1, 2 * kChunk, kChunk);
  chunk.k = array_of(tokens, kKvHeads, 3 * kChunk, KVLOUPE_BFLOAT16);
  chunk.k.strides[0] = kDim;
  chunk.k.strides[1] = kKvHeads * kDim;
  chunk.v.data = NULL;
  CHECK(kvloupe_selector_select(selector, &chunk) == KVLOUPE_OK);
  const int32_t expected[] = {5, 22};
  CHECK(row_is(selector, 1, 2, expected));
  kvloupe_selector_destroy(selector);
}

static void refuses_what_is_no_selector(void) {
  kvloupe_model model = model_of();
  kvloupe_selector *selector = NULL;
  REFUSED(kvloupe_selector_create("no_such", &model, 1, &selector), KVLOUPE_ERROR_USAGE, "is not a method");
  CHECK(selector == NULL);
  REFUSED(kvloupe_selector_create(NULL, &model, 1, &selector), KVLOUPE_ERROR_USAGE, "a pointer is NULL");
  REFUSED(kvloupe_selector_create("dense", NULL, 1, &selector), KVLOUPE_ERROR_USAGE, "a pointer is NULL");
  REFUSED(kvloupe_selector_create("dense", &model, 1, NULL), KVLOUPE_ERROR_USAGE, "a pointer is NULL");
  REFUSED(kvloupe_selector_create("dense", &model, -1, &selector), KVLOUPE_ERROR_USAGE, "threads");
  REFUSED(kvloupe_selector_create("loki:basis=/nowhere", &model, 1, &selector), KVLOUPE_ERROR_INPUT, "/nowhere");
  model.size = 8;
  REFUSED(kvloupe_selector_create("dense", &model, 1, &selector), KVLOUPE_ERROR_USAGE, "size is not that of kvloupe_model");
  model = model_of();
  model.num_kv_heads = 3;
  REFUSED(kvloupe_selector_create("dense", &model, 1, &selector), KVLOUPE_ERROR_USAGE, "do not share 3 KV heads evenly");
  REFUSED(kvloupe_selector_select(NULL, NULL), KVLOUPE_ERROR_USAGE, "its selector is NULL");
  kvloupe_selector_destroy(NULL);
}

static void refuses_chunks_that_cannot_be(void) {
  kvloupe_selector *selector = make("quoka:budget_tokens=4");
  const int32_t *positions;
  int64_t count;
  const int64_t *offsets;
  REFUSED(kvloupe_selector_row(selector, 0, &positions, &count), KVLOUPE_ERROR_USAGE, "no chunk was selected for");
  REFUSED(kvloupe_selector_rows(selector, &positions, &offsets), KVLOUPE_ERROR_USAGE, "no chunk was selected for");
  REFUSED(kvloupe_selector_rows(NULL, &positions, &offsets), KVLOUPE_ERROR_USAGE, "its selector is NULL");
  REFUSED(kvloupe_selector_select(selector, NULL), KVLOUPE_ERROR_USAGE, "size is not that of kvloupe_chunk");
  kvloupe_chunk chunk = chunk_of(0, kChunk, kChunk);
  REFUSED(kvloupe_selector_select(selector, &chunk), KVLOUPE_ERROR_USAGE, "the first chunk there begins at 0");
  chunk = chunk_of(kLayers, 0, kChunk);
  REFUSED(kvloupe_selector_select(selector, &chunk), KVLOUPE_ERROR_USAGE, "there is no layer 3");
  chunk = chunk_of(0, 0, kChunk);
  chunk.q.data = NULL;
  REFUSED(kvloupe_selector_select(selector, &chunk), KVLOUPE_ERROR_USAGE, "its memory is NULL");
  chunk = chunk_of(0, 0, kChunk);
  chunk.q.dtype = 7;
  REFUSED(kvloupe_selector_select(selector, &chunk), KVLOUPE_ERROR_USAGE, "no type of number");
  chunk = chunk_of(0, 0, kChunk);
  chunk.k.strides[2] = 2;
  REFUSED(kvloupe_selector_select(selector, &chunk), KVLOUPE_ERROR_USAGE, "last stride is 2");
  chunk = chunk_of(0, 0, kChunk);
  chunk.k.strides[0] = INT64_MAX;
  REFUSED(kvloupe_selector_select(selector, &chunk), KVLOUPE_ERROR_USAGE, "its strides are");
  chunk = chunk_of(0, 0, kChunk);
  chunk.k.shape[1]++;
  REFUSED(kvloupe_selector_select(selector, &chunk), KVLOUPE_ERROR_USAGE, "[2, 17, 8]");
  chunk = chunk_of(0, 0, kChunk);
  chunk.q.shape[1] = INT64_MAX;
  REFUSED(kvloupe_selector_select(selector, &chunk), KVLOUPE_ERROR_USAGE, "second axis");
  chunk = chunk_of(0, 0, kChunk);
  chunk.past = INT64_MAX;
  REFUSED(kvloupe_selector_select(selector, &chunk), KVLOUPE_ERROR_USAGE, "cannot come before a chunk");
  chunk = chunk_of(0, 0, kChunk);
  chunk.phase = 9;
  REFUSED(kvloupe_selector_select(selector, &chunk), KVLOUPE_ERROR_USAGE, "9 is no phase");
  chunk = chunk_of(0, 0, kChunk);
  k[1][3][2] = NAN;
  REFUSED(kvloupe_selector_select(selector, &chunk), KVLOUPE_ERROR_INPUT, "layer 0, head 1 of k, position 3");
  fill();
  CHECK(kvloupe_selector_select(selector, &chunk) == KVLOUPE_OK);
  REFUSED(kvloupe_selector_select(selector, &chunk), KVLOUPE_ERROR_USAGE, "the next chunk there begins at 16");
  REFUSED(kvloupe_selector_row(selector, kKvHeads, &positions, &count), KVLOUPE_ERROR_USAGE, "there is no row 2");
  REFUSED(kvloupe_selector_row(selector, 0, NULL, &count), KVLOUPE_ERROR_USAGE, "a pointer is NULL");
  REFUSED(kvloupe_selector_rows(selector, &positions, NULL), KVLOUPE_ERROR_USAGE, "a pointer is NULL");
  kvloupe_selector_destroy(selector);
}

static void *work(void *spec) {
  kvloupe_selector *selector = make(spec);
  for (int past = 0; past < kTokens; past += kChunk) {
    const kvloupe_chunk chunk = chunk_of(0, past, kChunk);
    if (kvloupe_selector_select(selector, &chunk) != KVLOUPE_OK) return (void *)spec;
  }
  kvloupe_selector_destroy(selector);
  return NULL;
}

static void threads_work_side_by_side(void) {
  pthread_t threads[4];
  static char specs[][32] = {"quoka:budget_tokens=4", "h2o:budget_tokens=4", "quest:budget_tokens=32", "random:budget_tokens=4"};
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, work, specs[i]) == 0);
  for (int i = 0; i < 4; i++) {
    void *failed = NULL;
    CHECK(pthread_join(threads[i], &failed) == 0 && failed == NULL);
  }
}

int main(int count, char **arguments) {
  /* A library that calls itself as one of Torch's does, and is none: the engine must find its own. */
  if (count > 1) CHECK(dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) != NULL);
  CHECK(kvloupe_abi_version() == KVLOUPE_ABI_VERSION);
  CHECK(kvloupe_version()[0] != '\0' && kvloupe_last_error()[0] == '\0');
  fill();
  keeps_the_keys_that_answer();
  says_what_a_spec_says();
  refuses_a_type_of_layer_that_is_none();
  evicts_and_says_what_is_alive();
  says_which_blocks_each_query_block_keeps();
  other_layouts_give_the_same();
  refuses_what_is_no_selector();
  refuses_chunks_that_cannot_be();
  threads_work_side_by_side();
  if (failures == 0) fputs("all as it should be\n", stderr);
  return failures == 0 ? 0 : 1;
}
