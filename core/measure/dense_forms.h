// Forms of dense attention of a chunk, and which of them a method is compared with: those that run here and are
// right. Private to core/measure: needs Torch.
#pragma once

#include "core/base/softmax_form.h"
#include "core/measure/latency_report.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace kvloupe::measure {

using Attend = std::function<at::Tensor()>;  // [num_q_heads, m, head_dim]

struct NamedAttention {
  std::string name;  // "flash, fp16"
  Attend run;
};

struct DenseForm {
  std::string name;
  // Makes what it reads (masks, expanded K and V, folded queries), outside of any timing.
  std::function<Attend()> make;
  std::string why_not = {};  // why it is none for this chunk; empty: it may be one
};
// Ours, which a method's dense cells run.
inline constexpr const char* kOwnForm = "kvloupe";

using MakeTensor = std::function<at::Tensor()>;
// Makes it when it is first asked for. What copies of the result gave is one tensor, kept while one of them lives.
MakeTensor made_once(MakeTensor make);

struct ChosenForms {
  std::vector<NamedAttention> forms;
  std::vector<DenseLeftOut> left_out;
};
// Each form is run once: those are chosen that have the memory, that Torch runs here and that give `expected`
// [num_q_heads, m, head_dim], to 2 % of its largest number. Numbers that are not finite there are not compared. Of
// those that were tried and left out a line in the log says why. Where `expected` is undefined nothing is run or compared. Throws on what
// would fail in all forms: a GPU that failed.
ChosenForms choose_forms(const std::vector<DenseForm>& forms, const at::Tensor& expected);

// softmax(Q K) V by its definition, in fp32: [num_q_heads, m, head_dim]. In plain products of Torch, of so many rows of
// one head at a time that the logits take 64 MiB. Shapes as in core/attention/attention.h.
at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const SoftmaxForm& softmax);

}  // namespace kvloupe::measure
