#include "core/trace/fields/attributes.h"

#include "core/base/units.h"
#include "core/trace/fields/attribute_io.h"
#include "core/trace/fields/fields.h"
#include "core/trace/fields/trace_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

namespace kvloupe::trace {
namespace {

// Far above any model; they keep products of these numbers inside 64 bits.
constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxHeads = 65536;
constexpr std::int64_t kMaxHeadDim = 65536;
constexpr std::int64_t kMaxHiddenSize = 1 << 30;
constexpr std::int64_t kMostOfCapture = 1 << 24;  // tokens

// How a member stands in the file: as what, written how, read how. `read` gives nothing where the attribute
// is absent; it throws the rest of a sentence that begins with its name.
template <typename Member>
struct Form;

struct Wrong {
  std::string words;  // "is 7, outside 1 to 5"
};

template <>
struct Form<std::string> {
  static constexpr const char* kType = "text";
  static void write(hid_t group, const std::string& name, const std::string& value) {
    h5::write_attribute(group, name, value);
  }
  static std::optional<std::string> read(hid_t group, const std::string& name) {
    return h5::string_attribute(group, name);
  }
};

template <std::integral Integer>
struct Form<Integer> {
  static constexpr const char* kType = "integer";
  static void write(hid_t group, const std::string& name, Integer value) {
    h5::write_attribute(group, name, static_cast<std::int64_t>(value));
  }
  static std::optional<Integer> read(hid_t group, const std::string& name) {
    const auto value = h5::int_attribute(group, name);
    if (!value) return std::nullopt;
    if (!std::in_range<int>(*value)) throw Wrong{fmt::format("is {}, which no trace has", *value)};
    if constexpr (std::is_same_v<Integer, bool>)
      if (*value != 0 && *value != 1) throw Wrong{"is neither 0 nor 1"};
    return static_cast<Integer>(*value);
  }
};

template <>
struct Form<double> {
  static constexpr const char* kType = "float64";
  static void write(hid_t group, const std::string& name, double value) {
    h5::write_attribute(group, name, value);
  }
  static std::optional<double> read(hid_t group, const std::string& name) {
    const auto value = h5::double_attribute(group, name);
    if (value && !std::isfinite(*value)) throw Wrong{"is not finite"};
    return value;
  }
};

// A word of an enumeration (trace_names.h).
template <typename Enum>
requires std::is_enum_v<Enum>
struct Form<Enum> {
  static constexpr const char* kType = "text";
  static void write(hid_t group, const std::string& name, Enum value) {
    h5::write_attribute(group, name, std::string(to_text(value)));
  }
  static std::optional<Enum> read(hid_t group, const std::string& name) {
    const auto word = h5::string_attribute(group, name);
    if (!word) return std::nullopt;
    const auto value = from_text<Enum>(*word);
    if (!value) throw Wrong{fmt::format("is \"{}\", an unknown word", *word)};
    return value;
  }
};

// What is not told is left out.
template <typename Member>
struct Form<std::optional<Member>> {
  static constexpr const char* kType = Form<Member>::kType;
  static void write(hid_t group, const std::string& name, const std::optional<Member>& value) {
    if (value) Form<Member>::write(group, name, *value);
  }
  static std::optional<std::optional<Member>> read(hid_t group, const std::string& name) {
    if (auto value = Form<Member>::read(group, name)) return std::optional(std::move(*value));
    return std::nullopt;
  }
};

template <>
struct Form<std::vector<std::string>> {
  static constexpr const char* kType = "text";
  static void write(hid_t group, const std::string& name, const std::vector<std::string>& values) {
    h5::write_attribute(group, name, values);
  }
  static std::optional<std::vector<std::string>> read(hid_t group, const std::string& name) {
    return h5::strings_attribute(group, name);
  }
};

template <>
struct Form<std::vector<float>> {
  static constexpr const char* kType = "float32 [H]";
  static void write(hid_t group, const std::string& name, const std::vector<float>& values) {
    h5::write_attribute(group, name, values);
  }
  static std::optional<std::vector<float>> read(hid_t group, const std::string& name) {
    auto values = h5::floats_attribute(group, name);
    for (const float value : values.value_or(std::vector<float>()))
      if (!std::isfinite(value)) throw Wrong{"holds a value that is not finite"};
    return values;
  }
};

template <>
struct Form<std::vector<LayerType>> {
  static constexpr const char* kType = "text [num_layers]";
  static void write(hid_t group, const std::string& name, const std::vector<LayerType>& types) {
    std::vector<std::string> words;
    for (const LayerType type : types) words.emplace_back(to_text(type));
    h5::write_attribute(group, name, words);
  }
  static std::optional<std::vector<LayerType>> read(hid_t group, const std::string& name) {
    const auto words = h5::strings_attribute(group, name);
    if (!words) return std::nullopt;
    std::vector<LayerType> types;
    for (const std::string& word : *words) {
      const auto type = from_text<LayerType>(word);
      if (!type) throw Wrong{fmt::format("has an unknown word for layer {}", types.size())};
      types.push_back(*type);
    }
    return types;
  }
};

template <>
struct Form<StoredParts> {
  static constexpr const char* kType = "text";
  static void write(hid_t group, const std::string& name, StoredParts parts) {
    h5::write_attribute(group, name, text_of(parts));
  }
  static std::optional<StoredParts> read(hid_t group, const std::string& name) {
    const auto text = h5::string_attribute(group, name);
    return text ? std::optional(stored_parts_of(*text)) : std::nullopt;
  }
};

// One row. Without `present` it is always written.
template <typename Struct>
struct Attribute {
  AttributeInfo info;
  // By its name, which may have a prefix.
  std::function<void(hid_t, const std::string&, const Struct&)> write;
  std::function<bool(hid_t, const std::string&, Struct&)> read;  // false: it is absent
  bool (*present)(const Struct&) = nullptr;

  Attribute where(bool (*is_present)(const Struct&)) && {
    present = is_present;
    return std::move(*this);
  }
  Attribute assuming(const char* what) && {
    info.assumed = what;
    return std::move(*this);
  }
};
template <typename Struct>
using Attributes = std::vector<Attribute<Struct>>;

// What is wrong with a value, or empty.
template <typename Member>
using Check = std::function<std::string(const Member&)>;

constexpr int kFirst = 0;  // since the first minor version

template <typename Struct, typename Member>
Attribute<Struct> row(const char* name, Member Struct::*member, Need need, int since = kFirst,
                      const Check<std::type_identity_t<Member>>& check = nullptr) {
  return {{"", name, Form<Member>::kType, need, since},
          [=](hid_t group, const std::string& named, const Struct& values) {
            Form<Member>::write(group, named, values.*member);
          },
          [=](hid_t group, const std::string& named, Struct& values) {
            auto value = Form<Member>::read(group, named);
            if (!value) return false;
            if (check)
              if (const std::string words = check(*value); !words.empty()) throw Wrong{words};
            values.*member = std::move(*value);
            return true;
          }};
}

template <typename Struct>
Attributes<Struct> of_group(const char* group, Attributes<Struct> rows) {
  for (Attribute<Struct>& one : rows) one.info.group = group;
  return rows;
}

Check<int> between(std::int64_t least, std::int64_t most) {
  return [=](int value) {
    return value < least || value > most
               ? fmt::format("is {}, outside {} to {}", value, least, most)
               : std::string();
  };
}
template <typename Number>
std::string positive(const Number& value) {
  return value > 0 ? "" : fmt::format("is {}, not above 0", value);
}
template <typename Number>
std::string not_negative(const Number& value) {
  return value >= 0 ? "" : fmt::format("is {}, below 0", value);
}
// "0,3".
std::string numbers_in_order(const std::string& text) {
  std::int64_t last = -1;
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(',', begin);
    const auto number = parse_int(text.substr(begin, end - begin));
    if (!number || *number <= last) return "does not name heads in ascending order";
    last = *number;
  }
  return "";
}
std::string not_empty(const std::string& text) { return text.empty() ? "is empty" : ""; }

template <typename Struct>
const Attributes<Struct>& table();

template <>
const Attributes<RootAttributes>& table() {
  using S = RootAttributes;
  using enum Need;
  static const auto rows = of_group<S>(
      "/",
      {row("format", &S::format, Required), row("schema_version", &S::schema_version, Required),
       row("producer", &S::producer, Expected), row("created", &S::created, Expected),
       row("mode", &S::mode, Expected).assuming("open_loop"), row("dtype", &S::dtype, Optional),
       row("chunks_done", &S::chunks_done, Required, kFirst, not_negative<std::int64_t>),
       row("complete", &S::complete, Expected)});
  return rows;
}

template <>
const Attributes<ModelInfo>& table() {
  using S = ModelInfo;
  using enum Need;
  static const auto rows = of_group<S>(
      "/model",
      {row("name", &S::name, Expected), row("architecture", &S::architecture, Expected),
       row("num_layers", &S::num_layers, Required, kFirst, between(1, kMaxLayers)),
       row("num_q_heads", &S::num_q_heads, Required, kFirst, between(1, kMaxHeads)),
       row("num_kv_heads", &S::num_kv_heads, Required, kFirst, between(1, kMaxHeads)),
       row("kv_heads", &S::kv_heads, Optional, 13, numbers_in_order).where([](const S& model) {
         return !model.kv_heads.empty();
       }),
       row("head_dim", &S::head_dim, Required, kFirst, between(1, kMaxHeadDim)),
       row("hidden_size", &S::hidden_size, Expected, kFirst, between(1, kMaxHiddenSize)),
       row("softmax_scale", &S::softmax_scale, Expected, kFirst, positive<double>)
           .assuming("1/sqrt(head_dim)"),
       row("rope_theta", &S::rope_theta, Expected),
       row("rope_pairing", &S::rope_pairing, Expected).assuming("half_split"),
       row("rope_scaling", &S::rope_scaling, Expected), row("file_hash", &S::file_hash, Expected),
       row("compute", &S::compute, Optional, 7), row("layer_types", &S::layer_types, Optional)});
  return rows;
}

template <>
const Attributes<SoftmaxForm>& table() {
  using S = SoftmaxForm;
  using enum Need;
  static const auto rows = of_group<S>(
      "/layers/{l}",
      {row("window", &S::window, Exact, kFirst, positive<std::int64_t>).where([](const S& form) {
         return form.window > 0;
       }),
       row("softcap", &S::softcap, Exact, kFirst, positive<double>).where([](const S& form) {
         return form.softcap > 0;
       }),
       row("sink_logit", &S::sink_logits, Exact).where([](const S& form) {
         return !form.sink_logits.empty();
       })});
  return rows;
}

// One word, or none.
Attribute<RunInfo> decode_row() {
  return {{"", "decode", "text", Need::Exact, 1},
          [](hid_t group, const std::string& name, const RunInfo& run) {
            if (run.decode_dense) h5::write_attribute(group, name, "dense");
          },
          [](hid_t group, const std::string& name, RunInfo& run) {
            const auto word = h5::string_attribute(group, name);
            if (word && *word != "dense")
              throw Wrong{fmt::format("is \"{}\", an unknown word", *word)};
            run.decode_dense = word.has_value();
            return run.decode_dense;
          }};
}

template <>
const Attributes<RunInfo>& table() {
  using S = RunInfo;
  using enum Need;
  const auto of_blocks = [](const S& run) { return run.block_size > 0; };
  const auto of_basis = [](const S& run) { return !run.basis_source.empty(); };
  static const auto rows = of_group<S>(
      "/runs/{r}",
      {row("method", &S::method, Required, kFirst, not_empty), row("mode", &S::mode, Required),
       row("row_axis", &S::row_axis, Required), row("q_heads_per_row", &S::q_heads_per_row, Exact),
       row("granularity", &S::granularity, Required),
       row("state_action", &S::state_action, Required),
       row("budget_scope", &S::budget_scope, Exact, 10), decode_row(),
       row("block_size", &S::block_size, Exact, 2, between(0, kMaxBlockSize)).where(of_blocks),
       row("lowering", &S::lowering, Exact, 10).where(of_blocks),
       row("block_tables", &S::block_tables, Exact, 2).where(of_blocks),
       row("basis_source", &S::basis_source, Exact, 1).where(of_basis),
       row("basis_hash", &S::basis_hash, Exact, 1).where(of_basis),
       row("basis_leakage", &S::basis_leakage, Exact, 1).where(of_basis)});
  return rows;
}

template <>
const Attributes<ProbeAttributes>& table() {
  using S = ProbeAttributes;
  static const auto rows = of_group<S>("/probe", {row("text", &S::text, Need::Required, 1),
                                                  row("num_tokens", &S::num_tokens, Need::Required,
                                                      1, between(1, kMaxProbeTokens))});
  return rows;
}

template <>
const Attributes<CaptureRequest>& table() {
  using S = CaptureRequest;
  using enum Need;
  static const auto rows = of_group<S>(
      "/capture",
      {row("model", &S::model, Exact, 4),
       row("chunk_size", &S::chunk_size, Required, 4, between(0, kMostOfCapture)),
       row("max_new_tokens", &S::max_new_tokens, Required, 4, between(0, kMostOfCapture)),
       row("store", &S::store, Exact, 4),
       row("device", &S::device, Exact, 8).where([](const S& asked) {
         return !asked.device.empty();
       }),
       row("answers", &S::answers, Exact, 4).where([](const S& asked) {
         return !asked.answers.empty();
       })});
  return rows;
}

template <>
const Attributes<ModelSpeed>& table() {
  using S = ModelSpeed;
  using enum Need;
  static const auto rows = of_group<S>(
      "/capture",
      {row("ttft_ms", &S::ttft_ms, Exact, 6, not_negative<double>),
       row("prefill_tokens_per_s", &S::prefill_tokens_per_s, Exact, 6, not_negative<double>),
       row("decode_tokens_per_s", &S::decode_tokens_per_s, Exact, 6, not_negative<double>)});
  return rows;
}

template <typename Struct>
void add_to(std::vector<AttributeInfo>& all, const std::string& prefix = "") {
  for (const Attribute<Struct>& attribute : table<Struct>()) {
    all.push_back(attribute.info);
    all.back().name = prefix + attribute.info.name;
  }
}

}  // namespace

template <typename Struct>
void write_attributes(hid_t group, const Struct& values, const std::string& prefix) {
  for (const Attribute<Struct>& attribute : table<Struct>())
    if (attribute.present == nullptr || attribute.present(values))
      attribute.write(group, prefix + attribute.info.name, values);
}

template <typename Struct>
std::set<std::string> read_attributes(hid_t group, const std::string& of, Struct& values,
                                      std::vector<std::string>& warnings,
                                      const std::string& prefix) {
  std::set<std::string> found;
  for (const auto& [info, write, read, present] : table<Struct>()) {
    const std::string name = prefix + info.name;
    std::string wrong;
    try {
      if (read(group, name, values))
        found.insert(name);
      else if (info.need == Need::Required || info.need == Need::Expected)
        wrong = fmt::format("the attribute {}{} is missing", name, of);
    } catch (const Wrong& how) {
      wrong = fmt::format("{}{} {}", name, of, how.words);
    } catch (const h5::Defect& defect) {
      wrong = defect.what();
    }
    if (wrong.empty()) continue;
    if (info.need == Need::Required || info.need == Need::Exact) throw h5::Defect(wrong);
    if (info.assumed != nullptr) wrong += fmt::format("; {} is assumed", info.assumed);
    warnings.push_back(wrong);
  }
  return found;
}

#define KVLOUPE_ATTRIBUTES_OF(Struct)                                                \
  template void write_attributes(hid_t, const Struct&, const std::string&);          \
  template std::set<std::string> read_attributes(hid_t, const std::string&, Struct&, \
                                                 std::vector<std::string>&, const std::string&)
KVLOUPE_ATTRIBUTES_OF(RootAttributes);
KVLOUPE_ATTRIBUTES_OF(ModelInfo);
KVLOUPE_ATTRIBUTES_OF(SoftmaxForm);
KVLOUPE_ATTRIBUTES_OF(RunInfo);
KVLOUPE_ATTRIBUTES_OF(ProbeAttributes);
KVLOUPE_ATTRIBUTES_OF(CaptureRequest);
KVLOUPE_ATTRIBUTES_OF(ModelSpeed);
#undef KVLOUPE_ATTRIBUTES_OF

std::string schema_version() {
  int latest = 0;
  for (const AttributeInfo& attribute : all_attributes())
    latest = std::max(latest, attribute.since);
  for (const FieldInfo& field : all_fields()) latest = std::max(latest, field.since);
  return fmt::format("{}.{}", kSchemaMajor, latest);
}

std::vector<AttributeInfo> all_attributes() {
  std::vector<AttributeInfo> all;
  add_to<RootAttributes>(all);
  add_to<ModelInfo>(all);
  // The Python package writes these, and no program reads them.
  all.push_back({"/model", "adapter", "text", Need::Optional, 9});
  all.push_back({"/model", "v_head_dim", "integer", Need::Optional, 9});
  add_to<SoftmaxForm>(all);
  add_to<RunInfo>(all);
  add_to<ProbeAttributes>(all);
  add_to<CaptureRequest>(all);
  add_to<ModelSpeed>(all);
  add_to<ModelSpeed>(all, "dense_");
  return all;
}

}  // namespace kvloupe::trace
