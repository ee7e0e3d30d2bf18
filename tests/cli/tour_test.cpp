// `validate` of a tour: what a page asks for is looked for in its trace.
#include "tests/cli/cli_test.h"

#include <fstream>
#include <string>

namespace kvloupe {
namespace {

const std::string kTrace = std::string(KVLOUPE_TEST_DATA_DIR) + "/v1_tiny.h5";

ProgramResult validate(const std::string& page, const std::string& body = "Text.") {
  std::ofstream("tour.md") << "---\ntitle: T\ntrace: " << kTrace << "\n---\n# One\n```tour\n"
                           << page << "\n```\n"
                           << body << "\n";
  return run_program({"validate", "tour.md"});
}

TEST(ValidateTour, WhatItsPagesAskForIsInTheTrace) {
  const std::string method = "method: random:budget_tokens=6\n";
  const ProgramResult sound =
      validate(method + "goto: layer=0,chunk=2,span=needle\nknob: budget_tokens\ndone: chunk=3");
  EXPECT_EQ(sound.exit_code, 0) << sound.standard_error;
  EXPECT_THAT(sound.standard_output, HasSubstr("tour.md: sound"));
  const auto refused = [&](const std::string& page, const std::string& why) {
    expect_refused(validate(page), 1, why);
  };
  refused("goto: layer=40", "layer 40");
  refused("goto: chunk=99", "chunk 99");
  refused("goto: span=nothing", "nothing");
  refused("method: run:9", "run 9 is not in this trace");
  refused("method: custom:nope", "custom:nope");
  refused(method + "done: chunk=99", "chunk 99");
  refused(method + "knob: num_queries", "random has no parameter num_queries");
  refused("other-trace: nowhere.h5", "nowhere.h5");
  refused("try: See $\\foo{x}$ now", "\\foo is not known");
  refused("see: See $\\foo{x}$ now", "\\foo is not known");
  // Without a method of its own a page has those of the page before.
  const std::string next = "Text.\n# Two\n```tour\nknob: num_queries\n```\nMore.";
  const ProgramResult kept = validate("method: quoka:budget_tokens=6", next);
  EXPECT_EQ(kept.exit_code, 0) << kept.standard_error;
  expect_refused(validate("method: h2o:budget_tokens=6", next), 1, "h2o has no parameter");
  expect_refused(validate(method, "See $\\foo{x}$."), 1, "\\foo is not known");
}

TEST(ValidateTour, FormulasKnowTheGreekLettersOfLatex) {
  std::string formula;
  for (const char* letter :
       {"alpha", "beta",    "gamma",  "delta",  "epsilon", "varepsilon", "zeta",  "eta",   "theta",
        "iota",  "kappa",   "lambda", "mu",     "nu",      "xi",         "pi",    "rho",   "sigma",
        "tau",   "upsilon", "phi",    "varphi", "chi",     "psi",        "omega", "Gamma", "Delta",
        "Theta", "Lambda",  "Xi",     "Pi",     "Sigma",   "Upsilon",    "Phi",   "Psi",   "Omega"})
    formula += std::string("\\") + letter + " ";
  const ProgramResult sound = validate("goto: layer=0", "See $" + formula + "$.");
  EXPECT_EQ(sound.exit_code, 0) << sound.standard_error;
}

}  // namespace
}  // namespace kvloupe
