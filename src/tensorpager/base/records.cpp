#include "tensorpager/base/records.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>

#include "tensorpager/base/errors.h"

namespace tensorpager::base {
namespace {

/// Enough for an op on a list of 50,000 storages; bounds the memory for a file without line ends.
constexpr std::size_t kMaxLine = std::size_t{1} << 20;
/// How many characters of a text a message shows.
constexpr std::size_t kMaxShown = 40;

std::string shown(std::string_view text) {
  return "'" + std::string(text.substr(0, kMaxShown)) + (text.size() > kMaxShown ? "...'" : "'");
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

RecordReader::RecordReader(std::istream& in, std::string path, std::string_view kind, std::uint64_t version)
    : in_(in), path_(std::move(path)), line_(kMaxLine) {
  if (!read_line() || words_.empty() || words_[0] != kind || words_.size() != 2)
    fail("header", "this is no " + std::string(kind) + " file; its first line must be `" + std::string(kind) + " " +
                       std::to_string(version) + "`");
  const std::uint64_t found = parse_number("header", words_[1], UINT64_MAX);
  if (found != version)
    fail("header", "version " + std::to_string(found) + "; this program reads version " + std::to_string(version));
}

bool RecordReader::read_line() {
  ++line_number_;
  words_.clear();
  in_.getline(line_.data(), static_cast<std::streamsize>(line_.size()));
  if (in_.bad()) fail("line", "cannot be read");
  const auto count = static_cast<std::size_t>(in_.gcount());
  if (in_.fail() && count + 1 >= line_.size()) fail("line", "longer than " + std::to_string(kMaxLine - 2) + " bytes");
  if (in_.fail()) return false;
  // gcount includes the line end, which may be missing in the last line.
  std::string_view rest(line_.data(), in_.eof() ? count : count - 1);
  if (!rest.empty() && rest.front() == '#') return true;
  if (std::ranges::any_of(rest, is_control)) fail("line", "holds a control character");
  while (!rest.empty()) {
    const std::size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
    rest.remove_prefix(begin);
    const std::size_t length = std::min(rest.find(' '), rest.size());
    if (length > 0) words_.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return true;
}

bool RecordReader::next() {
  do {
    if (!read_line()) fail("end", "the file ends without the record `end`: it is truncated");
  } while (words_.empty());
  if (type() != "end") return true;
  words_.front() = {};
  finish_record();
  const std::uint64_t end = line_number_;
  while (read_line()) {
    if (!words_.empty()) fail("end", "a record follows the record `end`");
  }
  line_number_ = end;
  return false;
}

std::string_view RecordReader::word(std::string_view field) {
  for (std::size_t i = 1; i < words_.size(); ++i) {
    if (!words_[i].empty() && words_[i].find('=') == std::string_view::npos) return std::exchange(words_[i], {});
  }
  fail(field, "is missing");
}

std::uint64_t RecordReader::word_number(std::string_view field, std::uint64_t limit) {
  return parse_number(field, word(field), limit);
}

bool RecordReader::flag(std::string_view name) {
  const auto found = std::find(words_.begin() + 1, words_.end(), name);
  if (found == words_.end()) return false;
  *found = {};
  return true;
}

bool RecordReader::has(std::string_view key) const {
  return std::any_of(words_.begin() + 1, words_.end(), [&](std::string_view word) {
    return word.size() > key.size() && word.starts_with(key) && word[key.size()] == '=';
  });
}

std::string_view RecordReader::text(std::string_view key) {
  for (std::size_t i = 1; i < words_.size(); ++i) {
    const std::string_view word = words_[i];
    if (word.size() > key.size() && word.starts_with(key) && word[key.size()] == '=') {
      words_[i] = {};
      if (word.size() == key.size() + 1) fail(key, "has no value");
      return word.substr(key.size() + 1);
    }
  }
  fail(key, "is missing");
}

std::uint64_t RecordReader::parse_number(std::string_view field, std::string_view text, std::uint64_t limit) const {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::result_out_of_range || (error == std::errc() && rest == end && number >= limit))
    fail(field, shown(text) + " is not below " + std::to_string(limit));
  if (error != std::errc() || rest != end) fail(field, shown(text) + " is not a whole number");
  return number;
}

std::uint64_t RecordReader::number(std::string_view key, std::uint64_t limit) {
  return parse_number(key, text(key), limit);
}

std::uint64_t RecordReader::number_or(std::string_view key, std::uint64_t limit, std::uint64_t otherwise) {
  return has(key) ? number(key, limit) : otherwise;
}

double RecordReader::positive(std::string_view key) {
  const std::string_view value = text(key);
  double number = 0;
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || rest != end || !std::isfinite(number) || number <= 0)
    fail(key, shown(value) + " is not a number above 0");
  return number;
}

std::vector<std::uint32_t> RecordReader::numbers(std::string_view key, std::uint64_t limit) {
  std::vector<std::uint32_t> all;
  if (!has(key)) return all;
  std::string_view rest = text(key);
  for (;;) {
    const std::size_t length = std::min(rest.find(','), rest.size());
    all.push_back(static_cast<std::uint32_t>(
        parse_number(key, rest.substr(0, length), std::min(limit, std::uint64_t{UINT32_MAX} + 1))));
    if (length == rest.size()) return all;
    rest.remove_prefix(length + 1);
  }
}

void RecordReader::finish_record() {
  for (std::size_t i = 1; i < words_.size(); ++i) {
    if (!words_[i].empty()) fail(shown(words_[i]), "is unknown here, or given twice");
  }
}

void RecordReader::fail(std::string_view field, const std::string& what) const {
  throw InvalidArgument(path_ + ":" + std::to_string(line_number_) + ": " + std::string(field) + ": " + what);
}

std::string header_line(std::string_view kind, std::uint64_t version) {
  std::string line(kind);
  line += " " + std::to_string(version) + "\n";
  return line;
}

void open_for_reading(std::ifstream& in, const std::string& path) {
  errno = 0;
  in.open(path);
  // Opening a directory succeeds; its first read fails.
  if (!in || (in.peek() == std::ifstream::traits_type::eof() && !in.eof()) || in.bad())
    throw InvalidArgument(path + ": cannot be read (" + std::strerror(errno == 0 ? EIO : errno) + ")");
  in.clear();
}

void write_whole_file(const std::string& path, std::string_view contents) {
  errno = 0;
  std::ofstream out(path, std::ios::trunc | std::ios::binary);
  out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  out.close();
  if (!out) throw IoError("write", path, Bytes(contents.size()), errno == 0 ? EIO : errno);
}

}  // namespace tensorpager::base
