// A method SPEC while it is edited: one text value for every parameter that the catalogue names.
#pragma once

#include "core/selection/spec/method_spec.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kvloupe::state {

class MethodDraft {
 public:
  MethodDraft() = default;
  // From a valid SPEC; parameters it does not name take their defaults for this model. Of a model that
  // is not known yet (no layers), defaults that are formulas of it stay empty, and the SPEC leaves
  // them out.
  MethodDraft(const std::string& spec, const selection::ModelShape& shape);

  const std::string& id() const { return id_; }
  // Another method; budget and scope stay where it has them, else its budget is the last one there was, or
  // the default one for a trace of so many tokens.
  void change_method(const std::string& id, const selection::ModelShape& shape,
                     std::int64_t num_tokens);
  // Of a method without a budget: the last one is that of the draft before.
  void keep_budget_of(const MethodDraft& before);
  // The same method with its defaults there; empty values where it has none.
  MethodDraft defaults(const selection::ModelShape& shape, std::int64_t num_tokens) const;
  // The common parameters where the method has a budget, then its own.
  std::vector<const selection::ParamInfo*> params() const;
  const std::string& value(const std::string& name) const;
  // Tokens and ratio exclude each other: setting one unsets the other.
  void set(const std::string& name, const std::string& value);
  std::string spec() const;
  // The same with nothing that is as by default. Throws Error{Usage} where problem() is not empty.
  std::string short_spec() const;
  // What is wrong with it; empty when it can be used.
  std::string problem() const;

 private:
  std::string id_;
  std::map<std::string, std::string> values_;
  std::pair<std::string, std::string>
      budget_;  // the last one: parameter and value; empty: none yet

  void note_budget();
};

}  // namespace kvloupe::state
