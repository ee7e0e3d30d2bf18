// The list of model families: one line each; families/<id>.cpp defines
// void family_<id>(Family&), which says what differs.
#pragma once

#define KVLOUPE_FAMILIES(X) \
  X(llama)                  \
  X(mistral)                \
  X(qwen2)                  \
  X(qwen3)                  \
  X(qwen3_moe)              \
  X(smollm3)                \
  X(gpt_oss)                \
  X(olmoe)                  \
  X(gemma3)
