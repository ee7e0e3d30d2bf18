// Calibration with a tiny model: what it fits, what it says of its text, and first use.
#include "capture/run/calibrate.h"

#include "capture/model/model.h"
#include "core/base/error.h"
#include "core/base/paths.h"
#include "core/base/sha256.h"
#include "core/device/torch_device.h"
#include "core/replay/trace_basis.h"
#include "core/selection/lanes/basis.h"
#include "tests/capture/capture_fixture.h"
#include "tests/capture/tiny_llama.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;
using selection::MethodSpec;
using trace::BasisKind;

const std::vector<BasisKind> kBoth = {BasisKind::Loki, BasisKind::Aqua};

std::string prose() {
  std::string text;
  for (int i = 0; text.size() < 900; ++i)
    text +=
        "sentence " + std::to_string(i * i) + " tells of " + std::to_string(7 * i) + " things. ";
  return text;
}

class Calibrate : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    folder_ = fs::temp_directory_path() / ("kvloupe_calibrate_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    setenv("KVLOUPE_CACHE_DIR", (folder_ / "cache").c_str(), 1);
    std::ofstream(folder_ / "prose.txt") << prose();
    TinyLlama tiny;
    tiny.context_length = 2048;
    tiny.build().write(folder_ / "tiny.gguf");
    model_ = load_model(folder_ / "tiny.gguf");
    text_.corpus = folder_ / "prose.txt";
    text_.sequences = 2;
    text_.length = 100;
  }
  void TearDown() override {
    unsetenv("KVLOUPE_CACHE_DIR");
    fs::remove_all(folder_);
  }

  std::vector<std::int32_t> ids() const {
    return model_->tokenizer.encode(prose(), SpecialTokens::Literal);
  }
  CalibrateOptions options() const {
    CalibrateOptions options;
    options.model = folder_ / "tiny.gguf";
    options.kinds = {BasisKind::Aqua};
    options.text = text_;
    options.output = folder_ / "aqua.h5";
    return options;
  }

  fs::path folder_;
  std::shared_ptr<const LoadedModel> model_;
  CalibrationText text_;
};

// sum over the directions of value * direction direction^T: does not depend on signs.
at::Tensor moments(const trace::Basis& basis, int layer, int head) {
  const int dim = basis.head_dim;
  auto& data = const_cast<trace::LayerBasis&>(basis.layers.at(layer));
  const at::Tensor p =
      at::from_blob(data.vectors.data() + head * dim * dim, {dim, dim}, at::kFloat).to(at::kDouble);
  const at::Tensor values = at::from_blob(data.values.data() + head * dim, {dim}, at::kDouble);
  return p.mm(values.diag()).mm(p.t());
}

TEST_F(Calibrate, FitsWhatATraceOfTheTextHolds) {
  text_.sequences = 1;
  text_.length = static_cast<int>(ids().size());
  const auto bases = calibrate(model_, kBoth, text_, {});
  CaptureOptions capture = tiny_options(folder_ / "trace.h5");
  capture.prompt_text = prose();
  capture.max_new_tokens = 0;
  capture_tiny(capture, {}, model_);
  const session::TraceSession session(folder_ / "trace.h5");
  ASSERT_EQ(session.token_ids(), ids());
  for (const trace::Basis& basis : bases) {
    const std::string method =
        basis.kind == BasisKind::Loki ? "loki:num_channels=2,basis=self" : "aqua:basis=self";
    const auto self = replay::basis_for(session, MethodSpec::parse(method), {0, 1}, {});
    ASSERT_EQ(basis.layers.size(), 2u);
    for (const int layer : {0, 1})
      for (const int head : {0, 1})
        EXPECT_TRUE(
            at::allclose(moments(basis, layer, head), moments(*self, layer, head), 1e-3, 1e-3));
  }
}

TEST_F(Calibrate, OnePassFitsWhatTwoPassesFit) {
  const auto both = calibrate(model_, kBoth, text_, {});
  ASSERT_EQ(both.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto alone = calibrate(model_, {kBoth[i]}, text_, {});
    EXPECT_EQ(both[i].kind, kBoth[i]);
    for (const auto& [layer, data] : both[i].layers)
      EXPECT_EQ(data.vectors, alone[0].layers.at(layer).vectors);
  }
  EXPECT_NE(both[0].layers.at(0).vectors, both[1].layers.at(0).vectors);
}

// On a device whose memory host code cannot read: moments are summed there.
TEST_F(Calibrate, ADeviceFitsWhatTheProcessorFits) {
  const auto there =
      load_model(folder_ / "tiny.gguf", ComputeType::Fp32, device::torch_device("sim"));
  const std::vector<trace::Basis> found = calibrate(there, kBoth, text_, {});
  const std::vector<trace::Basis> expected = calibrate(model_, kBoth, text_, {});
  for (std::size_t kind = 0; kind < kBoth.size(); ++kind) {
    ASSERT_EQ(found[kind].layers.size(), 2U);
    for (const int layer : {0, 1})
      for (const int head : {0, 1})
        EXPECT_TRUE(at::allclose(moments(found[kind], layer, head),
                                 moments(expected[kind], layer, head), 1e-4, 1e-5));
  }
}

TEST_F(Calibrate, SaysWhatTextItRead) {
  const auto bases = calibrate(model_, {BasisKind::Aqua}, text_, {});
  const trace::Basis& basis = bases.front();
  EXPECT_EQ(basis.source, "prose.txt");
  EXPECT_EQ(basis.num_tokens, 200);
  EXPECT_EQ(basis.model_hash, model_->info.file_hash);
  const std::vector<std::int32_t> all = ids();
  const auto half = static_cast<std::ptrdiff_t>(all.size() / 2);
  const std::vector<std::int32_t> first(all.begin(), all.begin() + 100);
  const std::vector<std::int32_t> second(all.begin() + half, all.begin() + half + 100);
  EXPECT_EQ(basis.source_hash,
            Sha256()
                .update(model_->tokenizer.decode(first) + model_->tokenizer.decode(second))
                .hex_digest());
  EXPECT_TRUE(trace::shares_text(basis, first));
  EXPECT_TRUE(trace::shares_text(basis, second));
  EXPECT_FALSE(trace::shares_text(basis, {all.begin() + 100, all.begin() + half}));
}

TEST_F(Calibrate, RefusesTextThatIsTooShortOrNotThere) {
  const auto why = [&] {
    try {
      calibrate(model_, kBoth, text_, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 1);
      return std::string(error.what());
    }
    return std::string();
  };
  text_.length = 1500;
  EXPECT_NE(why().find("tokens"), std::string::npos);
  text_.length = 4096;
  EXPECT_NE(why().find("context"), std::string::npos);
  text_.length = 100;
  text_.corpus = folder_ / "missing.txt";
  EXPECT_NE(why().find("missing.txt"), std::string::npos);
  text_.corpus = folder_;
  EXPECT_NE(why().find("cannot calibrate"), std::string::npos);
}

TEST_F(Calibrate, AFileThatCouldNotBeUsedIsRefusedBeforeTheModelIsRead) {
  CalibrateOptions given = options();
  given.model = folder_ / "no such model";
  const auto refusal = [&](const fs::path& output) -> std::string {
    given.output = output;
    try {
      run_calibration(given, {});
    } catch (const Error& error) {
      return error.why();
    }
    return "";
  };
  EXPECT_NE(refusal(folder_ / "a,b.h5").find("comma"), std::string::npos);
  EXPECT_NE(refusal(folder_ / "missing" / "b.h5").find("not a folder"), std::string::npos);
}

TEST_F(Calibrate, WritesAFileThatMethodsTake) {
  const auto written = run_calibration(options(), {});
  ASSERT_EQ(written.size(), 1u);
  const auto spec = MethodSpec::parse("aqua:basis=" + written[0].path.string());
  const auto basis = selection::load_basis(spec, model_->info);
  EXPECT_EQ(basis->layers.at(1).vectors, written[0].basis.layers.at(1).vectors);
  EXPECT_THROW(run_calibration(options(), {}), Error);  // it exists
  CalibrateOptions forced = options();
  forced.force = true;
  EXPECT_NO_THROW(run_calibration(forced, {}));
  CalibrateOptions unnamed = options();
  unnamed.output.clear();
  EXPECT_EQ(run_calibration(unnamed, {}).at(0).path,
            selection::auto_basis_path(BasisKind::Aqua, model_->info.file_hash));
  EXPECT_TRUE(selection::load_basis(MethodSpec::parse("aqua"), model_->info));
}

TEST_F(Calibrate, LeavesNothingWhenCancelled) {
  CancelSource cancel;
  WorkContext context;
  context.cancel = cancel.token();
  context.progress = [&](std::int64_t, std::int64_t, const std::string&) { cancel.cancel(); };
  try {
    run_calibration(options(), context);
    FAIL() << "not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Cancelled);
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"prose.txt", "tiny.gguf"}));
}

// The tiny model in the place of the bundled one. The hash of that is read once in a process, so
// all of first use is one test.
TEST_F(Calibrate, FirstUseMakesTheBundledModelsBasesOnce) {
  fs::create_directories(folder_ / "data/models");
  fs::create_directory_symlink(paths::data_dir() / "corpus", folder_ / "data/corpus");
  fs::copy_file(folder_ / "tiny.gguf", folder_ / "data/models/SmolLM2-135M-Instruct.Q4_1.gguf");
  const char* before = std::getenv("KVLOUPE_DATA_DIR");
  const std::string saved = before ? before : "";
  setenv("KVLOUPE_DATA_DIR", (folder_ / "data").c_str(), 1);
  const std::string& hash = model_->info.file_hash;
  const fs::path loki = selection::auto_basis_path(BasisKind::Loki, hash);
  const fs::path aqua = selection::auto_basis_path(BasisKind::Aqua, hash);

  trace::ModelInfo other = model_->info;
  other.file_hash = std::string(64, 'e');
  const selection::BasisMaker bases = basis_maker();
  EXPECT_FALSE(bases.is_due(MethodSpec::parse("aqua"), other));
  EXPECT_FALSE(bases.is_due(MethodSpec::parse("aqua:basis=self"), model_->info));
  EXPECT_FALSE(bases.is_due(MethodSpec::parse("quoka"), model_->info));
  bases.make(MethodSpec::parse("aqua"), other, {});
  EXPECT_FALSE(fs::exists(aqua.parent_path()));
  EXPECT_TRUE(bases.is_due(MethodSpec::parse("aqua"), model_->info));

  bases.make(MethodSpec::parse("aqua"), model_->info, {});
  ASSERT_TRUE(fs::exists(aqua));
  ASSERT_TRUE(fs::exists(loki));
  EXPECT_EQ(trace::read_basis(aqua).source, "persuasion");
  EXPECT_EQ(trace::read_basis(aqua).num_tokens,
            std::int64_t{CalibrationText{}.sequences} * CalibrationText{}.length);
  const auto time = fs::last_write_time(aqua);
  bases.make(MethodSpec::parse("loki"), model_->info, {});
  EXPECT_EQ(fs::last_write_time(aqua), time);

  // An estimate makes nothing.
  fs::remove(loki);
  CaptureOptions capture = tiny_options(folder_ / "trace.h5");
  capture.methods = {MethodSpec::parse("loki:budget_tokens=16")};
  CaptureOptions estimate = capture;
  estimate.estimate_only = true;
  std::int64_t counted = 0;
  capture_with(model_, estimate, [&](const CaptureEstimate& of) { counted = of.tokens; }, {});
  EXPECT_GT(counted, 100);
  EXPECT_FALSE(fs::exists(loki));

  // What is missing is made anew, and a capture asks for it itself. Its progress is that of the capture.
  WorkContext context;
  context.progress = [&](std::int64_t, std::int64_t total, const std::string&) {
    EXPECT_EQ(total, counted);
  };
  capture_tiny(capture, context, model_);
  EXPECT_TRUE(fs::exists(loki));
  EXPECT_EQ(fs::last_write_time(aqua), time);
  EXPECT_EQ(trace::TraceReader(folder_ / "trace.h5").info().runs.at(0).basis_source, "persuasion");
  if (before) {
    setenv("KVLOUPE_DATA_DIR", saved.c_str(), 1);
  } else {
    unsetenv("KVLOUPE_DATA_DIR");
  }
}

}  // namespace
}  // namespace kvloupe::capture
