// FORMAT.md's tables say what core/trace/fields/ declares: datasets and attributes.
#include "core/trace/fields/fields.h"
#include "core/trace/fields/attributes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace kvloupe::trace {
namespace {

struct Row {
  std::string type, unit;
};

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (std::size_t at = 1, end = 0; (end = line.find('|', at)) != std::string::npos; at = end + 1) {
    const std::string cell = line.substr(at, end - at);
    const auto first = cell.find_first_not_of(' ');
    cells.push_back(first == std::string::npos
                        ? ""
                        : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
  }
  return cells;
}

std::ifstream format_page() {
  return std::ifstream(std::string(KVLOUPE_TEST_SOURCE_DIR) + "/../../core/trace/FORMAT.md");
}

// The rows of the tables with a column "unit", by full path.
std::map<std::string, Row> documented() {
  std::ifstream file = format_page();
  std::map<std::string, Row> rows;
  std::string root;
  bool in_table = false;
  const std::regex name("`([^`]+)`");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## "))
      root = line.starts_with("## 5.")   ? "/layers/{l}/"
             : line.starts_with("## 6.") ? "/runs/{r}/layers/{l}/"
                                         : "";
    if (!line.starts_with("|")) in_table = false;
    if (in_table && !line.starts_with("|---")) {
      const auto cells = cells_of(line);
      for (std::sregex_iterator i(cells.at(0).begin(), cells.at(0).end(), name), end; i != end; ++i)
        rows[root + (*i)[1].str()] = {cells.at(1), cells.at(2)};
    }
    if (line.find("| type, shape | unit |") != std::string::npos) in_table = true;
  }
  return rows;
}

TEST(Fields, AreWhatFormatSays) {
  auto rows = documented();
  for (const FieldInfo& field : all_fields()) {
    SCOPED_TRACE(field.path);
    const auto found = rows.find(field.path);
    ASSERT_NE(found, rows.end()) << "FORMAT.md has no row of it";
    const std::string type = std::string(text_of(field.element)) + " " + shape_text(field);
    EXPECT_TRUE(found->second.type.starts_with(type)) << found->second.type << ", not " << type;
    const std::string unit = found->second.unit.empty() ? "1" : found->second.unit;
    EXPECT_EQ(unit, field.unit);
    // In words: "optional", "with key_mass"; sections 4a and q, k and v say it in their text.
    const std::string& words = found->second.type;
    if (!field.optional) {
      EXPECT_EQ(words.find("optional"), std::string::npos);
    }
    rows.erase(found);
  }
  // The one compound: it has an own reader and writer.
  rows.erase("/tokens/spans");
  for (const auto& [path, row] : rows) ADD_FAILURE() << path << " is not declared";
}

// The type of each attribute that a table names, by group and name; of a run's, which have no type there, the
// meaning.
std::map<std::string, std::string> documented_attributes() {
  std::ifstream file = format_page();
  std::map<std::string, std::string> types;
  std::string group;
  bool in_table = false;
  const std::regex name("`([^`]+)`");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## "))
      group = line.starts_with("## 2.")   ? "/"
              : line.starts_with("## 3.") ? "/model"
              : line.starts_with("## 5.") ? "/layers/{l}"
              : line.starts_with("## 6.") ? "/runs/{r}"
                                          : "";
    if (!line.starts_with("|")) in_table = false;
    if (in_table && !group.empty() && !line.starts_with("|---")) {
      const auto cells = cells_of(line);
      for (std::sregex_iterator i(cells.at(0).begin(), cells.at(0).end(), name), end; i != end; ++i)
        types[group + " " + (*i)[1].str()] = cells.at(1);
    }
    if (line.starts_with("| attribute |")) in_table = true;
  }
  return types;
}

TEST(Attributes, AreWhatFormatSays) {
  auto types = documented_attributes();
  std::ifstream file = format_page();
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const AttributeInfo& attribute : all_attributes()) {
    SCOPED_TRACE(attribute.group + " " + attribute.name);
    if (attribute.group == "/capture" || attribute.group == "/probe") {  // told in a paragraph
      const std::size_t begin =
          page.find(attribute.group == "/probe" ? "\n**The probe**" : "\n**`/capture`**");
      ASSERT_NE(begin, std::string::npos);
      const std::string paragraph = page.substr(begin, page.find("\n\n", begin) - begin);
      EXPECT_NE(paragraph.find("`" + attribute.name + "`"), std::string::npos);
      continue;
    }
    const auto found = types.find(attribute.group + " " + attribute.name);
    ASSERT_NE(found, types.end()) << "FORMAT.md has no row of it";
    const std::string words = found->second;
    types.erase(found);
    if (attribute.group == "/runs/{r}") continue;
    EXPECT_TRUE(words.starts_with(attribute.type)) << words << ", not " << attribute.type;
    const bool says_optional = words.find("optional") != std::string::npos;
    if (attribute.need != Need::Exact) {
      EXPECT_EQ(says_optional, attribute.need == Need::Optional) << words;
    }
  }
  for (const auto& [name, words] : types) ADD_FAILURE() << name << " is not declared";
}

TEST(Attributes, AndFieldsMakeTheVersionThatFormatDescribes) {
  std::ifstream file = format_page();
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(page.find("This page describes " + schema_version() + "."), std::string::npos);
  EXPECT_NE(page.find("\n| " + schema_version() + " |"), std::string::npos)
      << "FORMAT.md does not say what the version added";
}

}  // namespace
}  // namespace kvloupe::trace
