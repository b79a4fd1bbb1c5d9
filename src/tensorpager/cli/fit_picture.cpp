#include "tensorpager/cli/fit_picture.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "tensorpager/base/atomic_file.h"

namespace tensorpager::cli {
namespace {

using fit::Point;

constexpr double kWidth = 720, kHeight = 300, kLeft = 70, kBottom = 40, kTop = 30;  // of the drawing, in pixels
constexpr double kAbove = 12, kFarAbove = 30;                                       // labels above their point
constexpr int kLines = 4;                                                           // of the grid

/// Colours by the overhead that a size has at most.
struct Band {
  double overhead;
  const char* colour;
};
constexpr std::array kBands = {Band{0.03, "#2f7d4f"}, Band{0.1, "#7fb069"}, Band{0.25, "#e6aa3c"},
                               Band{1e9, "#c8553d"}};

const char* colour_of(const Point& point) {
  return std::ranges::find_if(kBands, [&](const Band& band) { return point.cost.overhead <= band.overhead; })->colour;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value > 0 && value < 100 ? "%.1f" : "%.0f", value);
  return text;
}

/// As text of HTML and SVG.
std::string escaped(const std::string& text) {
  std::string made;
  for (const char letter : text) {
    if (letter == '&')
      made += "&amp;";
    else if (letter == '<')
      made += "&lt;";
    else if (letter == '>')
      made += "&gt;";
    else
      made += letter;
  }
  return made;
}

std::string text(double x, double y, const char* anchor, const std::string& what) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\">" + escaped(what) +
         "</text>\n";
}

class Graph {
 public:
  explicit Graph(const FitAnswer& answer) : answer_(answer) {
    for (const Point& point : answer.found.tried) {
      most_size_ = std::max(most_size_, static_cast<double>(point.size));
      most_rate_ = std::max(most_rate_, point.per_second());
    }
  }

  std::string svg() const {
    std::string svg =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 340\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"800\" height=\"340\" fill=\"white\"/>\n";
    svg += text(kLeft, 16, "start",
                "samples a second by " + answer_.name + " on " + answer_.machine + ", " +
                    base::format_bytes(answer_.question.budget) + " for tensors, simulated");
    for (int line = 0; line <= kLines; ++line) {
      const double share = static_cast<double>(line) / kLines;
      const std::string y = number(y_of(share * most_rate_));
      svg += "<path stroke=\"#dddddd\" d=\"M" + number(kLeft) + " " + y + "H" + number(kLeft + kWidth) + "\"/>\n";
      svg += text(kLeft - 6, y_of(share * most_rate_) + 4, "end", number(share * most_rate_));
      svg += text(x_of(share * most_size_), kHeight + 18, "middle", number(share * most_size_));
    }
    svg += "<polyline fill=\"none\" stroke=\"#888888\" points=\"";
    for (const Point& point : answer_.found.tried)
      svg += number(x_of(static_cast<double>(point.size))) + "," + number(y_of(point.per_second())) + " ";
    svg += "\"/>\n";
    for (const Point& point : answer_.found.tried) svg += dot(point);
    svg += marks();
    double x = kLeft;
    for (const Band& band : kBands) {
      const std::string label = band.overhead < 1 ? "to " + number(100 * band.overhead) + " %" : "more";
      svg += "<circle cx=\"" + number(x) + "\" cy=\"332\" r=\"4\" fill=\"" + band.colour + "\"/>\n";
      svg += text(x + 8, 336, "start", label);
      x += 90;
    }
    return svg + text(x, 336, "start", "overhead over the step's compute") + "</svg>\n";
  }

 private:
  double x_of(double size) const { return kLeft + (kWidth - kLeft) * size / most_size_; }
  double y_of(double rate) const { return kHeight - (kHeight - kTop - kBottom) * rate / most_rate_; }

  std::string dot(const Point& point) const {
    return "<circle cx=\"" + number(x_of(static_cast<double>(point.size))) + "\" cy=\"" +
           number(y_of(point.per_second())) + "\" r=\"4\" fill=\"" + colour_of(point) + "\"><title>" +
           escaped(answer_.name) + " " + std::to_string(point.size) + ": " + number(point.per_second()) +
           " a second, overhead " + number(100 * point.cost.overhead) + " %</title></circle>\n";
  }

  /// One label, if both answers are the same size.
  std::string marks() const {
    constexpr const char* kUnpaged = "largest without paging";
    constexpr const char* kQuickest = "most a second within the overhead asked for";
    const auto& unpaged = answer_.found.unpaged;
    const auto& quickest = answer_.found.quickest;
    if (unpaged && quickest && unpaged->size == quickest->size)
      return mark(*quickest, std::string(kUnpaged) + ", and " + kQuickest, kAbove);
    return (unpaged ? mark(*unpaged, kUnpaged, kAbove) : "") + (quickest ? mark(*quickest, kQuickest, kFarAbove) : "");
  }

  std::string mark(const Point& point, const std::string& what, double above) const {
    const double x = x_of(static_cast<double>(point.size)), y = y_of(point.per_second()) - above;
    const bool is_left = x < kLeft + kWidth / 2;
    return "<path stroke=\"#888888\" d=\"M" + number(x) + " " + number(y) + "V" + number(y + above - 4) + "\"/>\n" +
           text(x, y - 3, is_left ? "start" : "end", std::to_string(point.size) + ": " + what);
  }

  const FitAnswer& answer_;
  double most_size_ = 1, most_rate_ = 1e-9;
};

std::string table(const FitAnswer& answer) {
  std::string rows = "<tr><th>" + escaped(answer.name) +
                     "</th><th>a second</th><th>overhead</th><th>need</th>"
                     "<th>on the host</th></tr>\n";
  for (const Point& point : answer.found.tried)
    rows += "<tr><td>" + std::to_string(point.size) + "</td><td>" + number(point.per_second()) + "</td><td>" +
            number(100 * point.cost.overhead) + " %</td><td>" + base::format_bytes(point.need) + "</td><td>" +
            base::format_bytes(point.cost.on_host) + "</td></tr>\n";
  return "<table>\n" + rows + "</table>\n";
}

std::string page(const FitAnswer& answer) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" +
         escaped(answer.name + " on " + answer.machine) +
         "</title>\n<style>body { font-family: sans-serif; max-width: 60em; margin: 2em auto } td, th "
         "{ text-align: right; padding: 0 1em }</style></head>\n<body>\n" +
         Graph(answer).svg() + table(answer) + "<p>" + escaped(answer.checked) + "</p>\n</body></html>\n";
}

}  // namespace

void write_fit_picture(const FitAnswer& answer, const std::string& path) {
  base::write_atomically(path, path.ends_with(".html") ? page(answer) : Graph(answer).svg(), base::Existing::kReplace);
}

}  // namespace tensorpager::cli
