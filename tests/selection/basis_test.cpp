// Fitting of bases on data whose directions are known, and finding them in files.
#include "core/selection/lanes/basis.h"

#include "core/base/error.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace kvloupe::selection {
namespace {

namespace fs = std::filesystem;
using trace::BasisKind;
using Point = std::vector<double>;

// [1, n, d]
at::Tensor rows(const std::vector<Point>& points) {
  const auto dim = static_cast<std::int64_t>(points.front().size());
  at::Tensor result = at::empty({1, static_cast<std::int64_t>(points.size()), dim}, at::kFloat);
  for (std::size_t i = 0; i < points.size(); ++i)
    for (std::int64_t j = 0; j < dim; ++j)
      result[0][static_cast<std::int64_t>(i)][j] = points[i][static_cast<std::size_t>(j)];
  return result;
}

trace::LayerBasis fitted(BasisKind kind, const at::Tensor& q, const at::Tensor& k) {
  BasisFit fit(kind);
  fit.add(0, q, k);
  return fit.finish().at(0);
}

void expect_column(const trace::LayerBasis& basis, int dim, int column, const Point& expected) {
  for (int i = 0; i < dim; ++i)
    EXPECT_NEAR(basis.vectors[static_cast<std::size_t>(i * dim + column)],
                expected[static_cast<std::size_t>(i)], 1e-6)
        << "column " << column << " entry " << i;
}

// mean +- 3 u1, +- 2 u2, +- 1 u3 with u1 = (.6, .8, 0), u2 = (.8, -.6, 0), u3 = (0, 0, 1): along them
// the variances 18/6, 8/6 and 2/6.
std::vector<Point> star(const Point& mean) {
  const Point ends[] = {{1.8, 2.4, 0}, {1.6, -1.2, 0}, {0, 0, 1}};
  std::vector<Point> points;
  for (const Point& end : ends)
    for (const double sign : {1.0, -1.0})
      points.push_back({mean[0] + sign * end[0], mean[1] + sign * end[1], mean[2] + sign * end[2]});
  return points;
}

TEST(BasisFit, FindsKnownDirectionsInOrderWithTheirSigns) {
  const at::Tensor keys = rows(star({0, 0, 0}));
  const trace::LayerBasis basis = fitted(BasisKind::Loki, keys, keys);
  expect_column(basis, 3, 0, {0.6, 0.8, 0});
  expect_column(basis, 3, 1, {0.8, -0.6, 0});
  expect_column(basis, 3, 2, {0, 0, 1});
  EXPECT_NEAR(basis.values[0], 3.0, 1e-6);
  EXPECT_NEAR(basis.values[1], 4.0 / 3, 1e-6);
  EXPECT_NEAR(basis.values[2], 1.0 / 3, 1e-6);
  // The same with all points mirrored: signs do not come from the data.
  const trace::LayerBasis mirrored = fitted(BasisKind::Loki, keys, -keys);
  expect_column(mirrored, 3, 1, {0.8, -0.6, 0});
}

TEST(BasisFit, LokiIsAboutTheMeanAndAquaAboutZero) {
  const at::Tensor keys = rows(star({0, 0, 10}));
  const at::Tensor queries = at::zeros({1, 6, 3});
  const trace::LayerBasis loki = fitted(BasisKind::Loki, queries, keys);
  expect_column(loki, 3, 0, {0.6, 0.8, 0});
  EXPECT_NEAR(loki.values[2], 1.0 / 3, 1e-6);
  const trace::LayerBasis aqua = fitted(BasisKind::Aqua, queries, keys);
  expect_column(aqua, 3, 0, {0, 0, 1});
  EXPECT_NEAR(aqua.values[0], (6 * 100 + 2) / 12.0, 1e-4);  // six keys and six queries
}

TEST(BasisFit, AquaStacksAllQueriesOfTheGroup) {
  // Two KV heads, two query heads each: the second group's queries lie along the third channel.
  at::Tensor queries = at::zeros({4, 6, 3}),
             keys = at::cat({rows(star({0, 0, 0})), rows(star({0, 0, 0}))});
  queries[3].select(1, 2).fill_(10);
  BasisFit fit(BasisKind::Aqua);
  fit.add(5, queries, keys);
  const trace::LayerBasis basis = fit.finish().at(5);
  expect_column(basis, 3, 0, {0.6, 0.8, 0});
  const trace::LayerBasis second{{basis.vectors.begin() + 9, basis.vectors.end()}, {}, {}};
  EXPECT_TRUE(basis.value_vectors.empty());
  expect_column(second, 3, 0, {0, 0, 1});
}

at::Tensor random_rows(std::int64_t heads, std::int64_t count, std::int64_t dim) {
  at::Generator random = at::detail::createCPUGenerator(7);
  // Channels of different size: no two directions alike.
  return at::randn({heads, count, dim}, random, at::kFloat) * at::arange(1, dim + 1);
}

void expect_near(const trace::LayerBasis& a, const trace::LayerBasis& b, double tolerance) {
  ASSERT_EQ(a.vectors.size(), b.vectors.size());
  for (std::size_t i = 0; i < a.vectors.size(); ++i)
    EXPECT_NEAR(a.vectors[i], b.vectors[i], tolerance);
}

// Values alone, about zero: neither queries nor keys have a part in their directions.
TEST(BasisFit, ValuesHaveDirectionsOfTheirOwn) {
  const at::Tensor q = random_rows(2, 6, 3);
  const at::Tensor keys = rows(star({0, 0, 0})), values = at::zeros({1, 6, 3});
  values[0].select(1, 1).copy_(at::tensor({3.0F, -3.0F, 3.0F, -3.0F, 3.0F, 3.0F}));
  values[0].select(1, 2).copy_(at::tensor({4.0F, -4.0F, 4.0F, -4.0F, 4.0F, 4.0F}));
  BasisFit fit(BasisKind::Aqua);
  fit.add(0, q, keys, values);
  const trace::LayerBasis basis = fit.finish().at(0);
  expect_column({basis.value_vectors, {}, {}}, 3, 0, {0, 0.6, 0.8});
  EXPECT_EQ(basis.vectors, fitted(BasisKind::Aqua, q, keys).vectors);
}

TEST(BasisFit, PiecesGiveWhatTheWholeGives) {
  const at::Tensor q = random_rows(4, 2500, 8), k = random_rows(2, 2500, 8);
  BasisFit pieces(BasisKind::Aqua);
  for (const auto& [begin, length] :
       std::vector<std::pair<int, int>>{{0, 1}, {1, 999}, {1000, 1500}})
    pieces.add(0, q.narrow(1, begin, length), k.narrow(1, begin, length));
  expect_near(pieces.finish().at(0), fitted(BasisKind::Aqua, q, k), 1e-6);
}

TEST(BasisFit, AnyNumberOfThreadsGivesTheSameBits) {
  const int threads = at::get_num_threads();
  for (const int heads : {1, 3}) {
    const at::Tensor q = random_rows(heads, 3000, 64), k = random_rows(heads, 3000, 64);
    at::set_num_threads(1);
    const trace::LayerBasis one = fitted(BasisKind::Aqua, q, k);
    at::set_num_threads(4);
    const trace::LayerBasis four = fitted(BasisKind::Aqua, q, k);
    EXPECT_EQ(one.vectors, four.vectors);
    EXPECT_EQ(one.values, four.values);
  }
  at::set_num_threads(threads);
}

TEST(BasisFit, DirectionsAreOrthonormalAlsoWithFewTokens) {
  for (const int count : {1, 2, 5, 300}) {
    for (const BasisKind kind : {BasisKind::Loki, BasisKind::Aqua}) {
      const trace::LayerBasis basis =
          fitted(kind, random_rows(2, count, 16), random_rows(1, count, 16));
      for (int a = 0; a < 16; ++a)
        for (int b = 0; b < 16; ++b) {
          double product = 0;
          for (int i = 0; i < 16; ++i)
            product += static_cast<double>(basis.vectors[i * 16 + a]) * basis.vectors[i * 16 + b];
          EXPECT_NEAR(product, a == b ? 1 : 0, 1e-6);
        }
      for (int i = 1; i < 16; ++i) EXPECT_LE(basis.values[i], basis.values[i - 1]);
      EXPECT_GE(basis.values[15], 0);
    }
  }
}

TEST(BasisFit, RefusesWhatCannotBeFitted) {
  BasisFit empty(BasisKind::Loki);
  empty.add(0, at::zeros({1, 0, 4}), at::zeros({1, 0, 4}));
  EXPECT_THROW(empty.finish(), Error);
  at::Tensor keys = random_rows(1, 5, 4);
  keys[0][2][1] = std::numeric_limits<float>::quiet_NaN();
  BasisFit broken(BasisKind::Loki);
  broken.add(0, keys, keys);
  EXPECT_THROW(broken.finish(), Error);
}

class LoadBasis : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("kvloupe_basis_" + std::to_string(::getpid()));
    fs::create_directories(folder_ / "bases");
    setenv("KVLOUPE_CACHE_DIR", folder_.c_str(), 1);
    model_.name = "Tiny";
    model_.num_layers = 1;
    model_.num_q_heads = 2;
    model_.num_kv_heads = 1;
    model_.head_dim = 3;
    model_.file_hash = std::string(64, 'a');
    basis_.kind = BasisKind::Aqua;
    basis_.model_hash = model_.file_hash;
    basis_.num_kv_heads = 1;
    basis_.head_dim = 3;
    basis_.num_tokens = 6;
    const at::Tensor keys = rows(star({0, 0, 0}));
    basis_.layers.emplace(0, fitted(BasisKind::Loki, keys, keys));
  }
  void TearDown() override {
    unsetenv("KVLOUPE_CACHE_DIR");
    fs::remove_all(folder_);
  }

  std::string refusal(const std::string& spec) const {
    try {
      load_basis(MethodSpec::parse(spec), model_);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 1);
      return error.what();
    }
    return "";
  }

  fs::path folder_;
  trace::ModelInfo model_;
  trace::Basis basis_;
};

TEST_F(LoadBasis, AutoIsTheFileOfTheModelsHash) {
  const std::string why = refusal("aqua");
  EXPECT_NE(why.find("kvloupe calibrate aqua --model"), std::string::npos) << why;
  EXPECT_NE(why.find("aaaaaaaaaaaaaaaa"), std::string::npos) << why;
  const fs::path path = auto_basis_path(BasisKind::Aqua, model_.file_hash);
  EXPECT_EQ(path.parent_path(), folder_ / "bases");
  EXPECT_NE(path, auto_basis_path(BasisKind::Loki, model_.file_hash));
  trace::write_basis(path, basis_);
  const BasisPtr loaded = load_basis(MethodSpec::parse("aqua_h2o"), model_);
  EXPECT_EQ(loaded->layers.at(0).vectors, basis_.layers.at(0).vectors);
}

TEST_F(LoadBasis, AFileMustBeMadeForTheMethodAndTheModel) {
  const std::string path = (folder_ / "mine.h5").string();
  const std::string spec = "aqua:basis=" + path;
  EXPECT_NE(refusal(spec).find("no such file"), std::string::npos);
  const auto written = [&](const std::function<void(trace::Basis&)>& edit) {
    trace::Basis basis = basis_;
    edit(basis);
    trace::write_basis(path, basis);
    return refusal(spec);
  };
  EXPECT_EQ(written([](trace::Basis&) {}), "");
  EXPECT_NE(written([](trace::Basis& b) { b.kind = BasisKind::Loki; }).find("made for loki"),
            std::string::npos);
  EXPECT_NE(written([](trace::Basis& b) { b.model_hash = "other"; }).find("another model"),
            std::string::npos);
  EXPECT_NE(
      written([](trace::Basis& b) {
        b.num_kv_heads = 2;
        auto& layer = b.layers.at(0);
        layer.vectors.insert(layer.vectors.end(), layer.vectors.begin(), layer.vectors.begin() + 9);
        layer.values.insert(layer.values.end(), layer.values.begin(), layer.values.begin() + 3);
      }).find("KV heads"),
      std::string::npos);
}

TEST_F(LoadBasis, SelfNeedsATrace) {
  EXPECT_NE(refusal("aqua:basis=self").find("whole trace"), std::string::npos);
}

}  // namespace
}  // namespace kvloupe::selection
