// Calibration of bases: runs a model over prose and fits the directions of its queries and keys on
// the way, so that no trace has to be written.
#pragma once

#include "core/base/cancel.h"
#include "core/device/default_device.h"
#include "core/selection/spec/basis_maker.h"
#include "core/selection/spec/method_spec.h"
#include "core/trace/basis_file.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::capture {

struct LoadedModel;  // model.h

// What is read. The methods' authors used sequences of 4,096 tokens (Loki: of wikitext; AQUA: of
// BookCorpus, it does not say how many); these defaults take a minute or two on two cores.
struct CalibrationText {
  std::optional<std::filesystem::path> corpus;  // text file; empty: Persuasion
  int sequences = 6;                            // spread evenly over the text
  int length = 2048;                            // tokens of each
};

// One pass fits all kinds; in their order. Throws Error{Input} for text that cannot be read, holds
// too little, or sequences longer than the model's context.
std::vector<trace::Basis> calibrate(const std::shared_ptr<const LoadedModel>& model,
                                    const std::vector<trace::BasisKind>& kinds,
                                    const CalibrationText& text, const WorkContext& context);

struct CalibrateOptions {
  std::string model = "smollm2";  // or a .gguf file
  std::vector<trace::BasisKind> kinds;
  CalibrationText text;
  std::filesystem::path output;           // of a single kind; empty: the file that basis=auto means
  std::string device = device::kDefault;  // of the model, as device::open_device() takes it
  bool force = false;                     // overwrites
};
struct WrittenBasis {
  std::filesystem::path path;
  trace::Basis basis;
};
// `kvloupe calibrate`. Nothing is left behind when it is cancelled or fails.
std::vector<WrittenBasis> run_calibration(const CalibrateOptions& options,
                                          const WorkContext& context);

// For traces (session::TraceSession), and before selection::load_basis. Where a SPEC asks for basis=auto and
// the model is the bundled one, makes its bases, of all kinds, if they were not made yet: once for all
// programs, with a message on standard error.
selection::BasisMaker basis_maker();

}  // namespace kvloupe::capture
