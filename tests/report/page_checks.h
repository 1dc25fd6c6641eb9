// Checks that apply to any page.
#ifndef BRAID_TESTS_REPORT_PAGE_CHECKS_H_
#define BRAID_TESTS_REPORT_PAGE_CHECKS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "report/svg_plot.h"

namespace braid {

// Returns "" if every element is closed in order, otherwise the problem.
inline std::string FirstImbalance(const std::string& html) {
  std::vector<std::string> open;
  size_t position = html.find("<html");
  while ((position = html.find('<', position)) != std::string::npos) {
    const size_t end = html.find('>', position);
    if (end == std::string::npos) return "unfinished tag";
    std::string tag = html.substr(position + 1, end - position - 1);
    position = end;
    const bool closes = tag.front() == '/';
    const bool empty = tag.back() == '/' || tag == "br";
    const std::string name = tag.substr(closes, tag.find_first_of(" /", closes) - closes);
    if (!closes && !empty) open.push_back(name);
    if (!closes) continue;
    if (open.empty() || open.back() != name) return "</" + name + "> without its start";
    open.pop_back();
  }
  return open.empty() ? "" : "<" + open.back() + "> is never closed";
}

inline void ExpectGoodPage(const std::string& html) {
  EXPECT_EQ(FirstImbalance(html), "");
  EXPECT_THAT(html, testing::Not(testing::HasSubstr("https:")));
  EXPECT_THAT(html, testing::Not(testing::HasSubstr("url(")));
  EXPECT_THAT(html, testing::Not(testing::HasSubstr("<script")));
  EXPECT_THAT(html, testing::Not(testing::HasSubstr("\"nan\"")));
  const std::string allowed = "xmlns=\"http://www.w3.org/2000/svg\"";
  for (size_t at = html.find("http:"); at != std::string::npos; at = html.find("http:", at + 1)) {
    EXPECT_EQ(html.substr(at - 7, allowed.size()), allowed);
  }
}

// Returns the relative luminance (WCAG 2.1) of "#rrggbb".
inline double Luminance(const std::string& color) {
  double luminance = 0;
  const double weights[] = {0.2126, 0.7152, 0.0722};
  for (int i = 0; i < 3; ++i) {
    const double c = std::stoi(color.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    luminance += weights[i] * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
  }
  return luminance;
}

inline double Contrast(const std::string& a, const std::string& b) {
  const double x = Luminance(a) + 0.05, y = Luminance(b) + 0.05;
  return std::max(x, y) / std::min(x, y);
}

// Returns the variables of each :root rule of a style sheet: light, dark, print.
inline std::vector<std::map<std::string, std::string>> Themes(const std::string& style) {
  std::vector<std::map<std::string, std::string>> themes;
  for (size_t at = style.find(":root {"); at != std::string::npos;
       at = style.find(":root {", at + 1)) {
    const std::string rule = style.substr(at, style.find('}', at) - at);
    const std::regex variable("--([a-z0-9-]+): (#[0-9a-f]{6})");
    auto& theme = themes.emplace_back();
    for (std::sregex_iterator i(rule.begin(), rule.end(), variable), end; i != end; ++i) {
      theme[(*i)[1]] = (*i)[2];
    }
  }
  return themes;
}

struct Box {
  double left, right, top, bottom;
  std::string text;
};

inline std::string Attribute(const std::string& tag, const std::string& name) {
  const size_t at = tag.find(" " + name + "=\"");
  if (at == std::string::npos) return "";
  const size_t start = at + name.size() + 3;
  return tag.substr(start, tag.find('"', start) - start);
}

// Returns the texts of a plot that are always visible.
inline std::vector<Box> BoxesOf(const std::string& svg) {
  std::vector<Box> boxes;
  for (size_t at = svg.find("<text x="); at != std::string::npos;
       at = svg.find("<text x=", at + 1)) {
    const size_t end = svg.find('>', at);
    const std::string tag = svg.substr(at, end - at);
    const std::string text = svg.substr(end + 1, svg.find('<', end) - end - 1);
    const bool small = Attribute(tag, "class") == "small" || tag.find("cell") != std::string::npos;
    // The width is estimated by the mean, whose error is smaller than a real overlap.
    const double size = small ? 10 : 12,
                 width = 0.5 * size * static_cast<double>(CountCharacters(text));
    const std::string anchor = Attribute(tag, "text-anchor");
    const double x = std::stod(Attribute(tag, "x")), y = std::stod(Attribute(tag, "y"));
    const double left = anchor == "end" ? x - width : anchor == "middle" ? x - width / 2 : x;
    boxes.push_back({left, left + width, y - 0.6 * size, y, text});
  }
  return boxes;
}

inline std::vector<std::string> PlotsOf(const std::string& html) {
  std::vector<std::string> plots;
  for (size_t at = html.find("<svg class=\"plot\""); at != std::string::npos;
       at = html.find("<svg class=\"plot\"", at + 1)) {
    const size_t next = html.find("<svg class=\"plot\"", at + 1);
    plots.push_back(html.substr(at, std::min(next, html.find("<h2>", at)) - at));
  }
  return plots;
}

// Returns the number of texts that were compared.
inline size_t ExpectNoOverlap(const std::string& html) {
  size_t num_texts = 0;
  for (const std::string& plot : PlotsOf(html)) {
    const std::vector<Box> boxes = BoxesOf(plot);
    num_texts += boxes.size();
    for (size_t i = 0; i < boxes.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const Box &a = boxes[i], &b = boxes[j];
        EXPECT_FALSE(a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
            << "'" << a.text << "' over '" << b.text << "' in " << plot.substr(0, 200);
      }
    }
  }
  return num_texts;
}

}  // namespace braid

#endif  // BRAID_TESTS_REPORT_PAGE_CHECKS_H_
