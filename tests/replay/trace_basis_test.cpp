// Bases of a trace: fitted on itself, kept, flagged; or from a file that must hold the layers.
#include "core/replay/trace_basis.h"

#include "core/base/error.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe::replay {
namespace {

using selection::MethodSpec;
using testing::SmallTrace;
using testing::SmallTraceShape;

// Second moment of the lanes c and d of one KV head, over queries (where asked for) and keys; about
// the mean or about zero.
double moment(const SmallTrace& trace, const trace::Basis& basis, int layer, int head, int c,
              int d) {
  const int dim = trace.shape().head_dim, group = trace.gqa_group_size();
  const float* p = basis.layers.at(layer).vectors.data() + head * dim * dim;
  double sum_c = 0, sum_d = 0, sum_cd = 0, count = 0;
  const auto add = [&](const float* row) {
    double lane_c = 0, lane_d = 0;
    for (int i = 0; i < dim; ++i) {
      lane_c += static_cast<double>(row[i]) * p[i * dim + c];
      lane_d += static_cast<double>(row[i]) * p[i * dim + d];
    }
    sum_c += lane_c, sum_d += lane_d, sum_cd += lane_c * lane_d, ++count;
  };
  const bool centred = basis.kind == trace::BasisKind::Loki;
  for (int position = 0; position < trace.num_tokens(); ++position) {
    add(trace.key(layer, head, position));
    for (int h = head * group; !centred && h < (head + 1) * group; ++h)
      add(trace.query(layer, h, position));
  }
  return sum_cd / count - (centred ? sum_c / count * (sum_d / count) : 0.0);
}

// Principal directions are those in which the lanes do not correlate, by falling moment.
TEST(TraceBasis, SelfMakesTheLanesOfTheWholeTraceUncorrelated) {
  const SmallTrace trace({.decoded = 2});
  for (const char* spec : {"loki:budget_tokens=8,num_channels=4,basis=self", "aqua:basis=self"}) {
    const auto basis = basis_for(trace.session(), MethodSpec::parse(spec), {0, 1}, {});
    ASSERT_TRUE(basis);
    EXPECT_EQ(basis->num_tokens, trace.num_tokens());
    for (const int layer : {0, 1}) {
      for (int head = 0; head < 2; ++head) {
        double before = 1e30;
        for (int c = 0; c < 8; ++c) {
          for (int d = 0; d < c; ++d)
            EXPECT_NEAR(moment(trace, *basis, layer, head, c, d), 0, 1e-5) << spec;
          const double own = moment(trace, *basis, layer, head, c, c);
          EXPECT_NEAR(own, basis->layers.at(layer).values[head * 8 + c], 1e-5) << spec;
          EXPECT_LE(own, before + 1e-5);
          before = own;
        }
      }
    }
    const auto again = basis_for(trace.session(), MethodSpec::parse(spec), {1}, {});
    EXPECT_EQ(again->layers.size(), 1u);
    EXPECT_EQ(again->layers.at(1).vectors, basis->layers.at(1).vectors);
    EXPECT_TRUE(basis_note(trace.session(), basis)->leakage);
  }
}

TEST(TraceBasis, MethodsWithoutABasisHaveNone) {
  const SmallTrace trace;
  EXPECT_FALSE(basis_for(trace.session(), MethodSpec::parse("quoka"), {0}, {}));
  EXPECT_FALSE(basis_note(trace.session(), nullptr).has_value());
}

TEST(TraceBasis, AKeyThatIsNotFiniteIsNamed) {
  const SmallTrace trace({.broken_key_at = 20});
  EXPECT_NO_THROW(basis_for(trace.session(), MethodSpec::parse("aqua:basis=self"), {0}, {}));
  try {
    basis_for(trace.session(), MethodSpec::parse("aqua:basis=self"), {1}, {});
    FAIL() << "fitted on a NaN";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("layer 1, KV head 1, position 20"), std::string::npos)
        << error.what();
  }
}

TEST(TraceBasis, AFileMustHoldTheLayersAndTellsOfSharedText) {
  const SmallTrace trace;
  const auto path =
      std::filesystem::temp_directory_path() / ("kvloupe_basis_" + std::to_string(::getpid()));
  trace::Basis basis = *basis_for(trace.session(), MethodSpec::parse("aqua:basis=self"), {0}, {});
  basis.source = "a novel";
  basis.source_hash = "of the novel";
  const auto spec = MethodSpec::parse("aqua:basis=" + path.string());
  trace::write_basis(path, basis);
  const auto strange = basis_for(trace.session(), spec, {0}, {});
  EXPECT_EQ(basis_note(trace.session(), strange)->source, "a novel");
  EXPECT_FALSE(basis_note(trace.session(), strange)->leakage);
  EXPECT_THROW(basis_for(trace.session(), spec, {0, 1}, {}), Error);
  basis.shingles = trace::shingles_of(trace.session().token_ids());
  trace::write_basis(path, basis);
  EXPECT_TRUE(basis_note(trace.session(), basis_for(trace.session(), spec, {0}, {}))->leakage);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kvloupe::replay
